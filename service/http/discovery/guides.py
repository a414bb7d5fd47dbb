"""The guides to the service, to install, to questions and to automation, as Markdown (R-DISC-09, G-014, G-166)."""

from collections.abc import Callable
from functools import partial

from service.auth.authority import PrincipalKind
from service.discovery.manifest import MARKDOWN, Text
from service.discovery.reads import Installation, installation
from service.eventstore.declare.commands import Outcome
from service.fairness.bounds import Weighted
from service.http.answer.reply import prefers
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Who
from service.http.declare.headers import matches_tag
from service.http.discovery.facts import text

PUBLIC = frozenset({PrincipalKind.ANONYMOUS})
CACHED = {"cache-control": "public, max-age=300"}
VARY = {"vary": "accept"}
MAX_BYTES = 4 * 1024 * 1024
"""Most bytes of rendered texts in a process."""

_rendered: Weighted[tuple[Installation, str], Text] = Weighted(lambda text: 1024 + len(text.body), max_bytes=MAX_BYTES)


async def kept(call: Call, address: str, make: Callable[[Installation], Text]) -> Text:
    """The text at an address, made apart and once if this process has none yet. Raises the errors of `make`."""
    at = installation(call.services.settings)
    text = _rendered.get((at, address))
    if text is None:
        text = await call.work_once(("text", at, address), partial(make, at))
        _rendered.put((at, address), text)
    return text


def wants_markdown(call: Call) -> bool:
    """Whether the caller prefers Markdown to JSON."""
    return prefers(call.header("accept"), "text/markdown")


def serve(call: Call, found: Text, content_type: str = MARKDOWN, *, vary: bool = False) -> Outcome:
    """Answer with a text, or with 304 for its present tag. `vary`: it has another form for another Accept."""
    headers = {"etag": found.etag, **CACHED, **(VARY if vary else {})}
    if matches_tag(call.header("if-none-match"), found.etag):
        return Outcome(304, b"", headers)
    return Outcome(200, found.body, {"content-type": content_type, **headers})


async def text_of(call: Call, name: str) -> Text:
    """A text of this installation by the name of its template."""
    return await kept(call, name, partial(text, name))


async def _guide(call: Call, name: str) -> Outcome:
    return serve(call, await text_of(call, name))


@groups.DISCOVERY.get("/service.md", "Read the overview of the service, and the order of its flows")
@Who(PUBLIC)
@Docs({200: str, 304: None}, content_type=MARKDOWN)
async def get_service_guide(call: Call) -> Outcome:
    """Serve the overview."""
    return await _guide(call, "service.md")


@groups.DISCOVERY.get("/install.md", "Read the guide to onboarding, command by command")
@Who(PUBLIC)
@Docs({200: str, 304: None}, flows=frozenset({"install", "onboarding"}), content_type=MARKDOWN)
async def get_install_guide(call: Call) -> Outcome:
    """Serve the way through onboarding. Every guide anchor of an onboarding is a heading here (G-087)."""
    return await _guide(call, "install.md")


@groups.DISCOVERY.get("/skill/service/SKILL.md", "Read the skill that a coding agent keeps")
@Who(PUBLIC)
@Docs({200: str, 304: None}, content_type=MARKDOWN)
async def get_skill(call: Call) -> Outcome:
    """Serve the skill."""
    return await _guide(call, "skill.md")


@groups.DISCOVERY.get("/v1/docs/query", "Read the guide to questions, with every query blueprint")
@Who(PUBLIC)
@Docs({200: str, 304: None}, content_type=MARKDOWN)
async def get_docs_query(call: Call) -> Outcome:
    """Serve the daily use of the data (R-QRY-01 to R-QRY-04)."""
    return await _guide(call, "query.md")


@groups.DISCOVERY.get("/v1/docs/automation", "Read the guide to automation, from the contract to a verified repair")
@Who(PUBLIC)
@Docs({200: str, 304: None}, content_type=MARKDOWN)
async def get_docs_automation(call: Call) -> Outcome:
    """Serve the setup and the loop of a runner (R-AUT-09, R-AUT-36, R-AUT-37)."""
    return await _guide(call, "automation.md")


@groups.DISCOVERY.get("/v1/docs/query.md", "Read the guide to questions at an address with an ending")
@Who(PUBLIC)
@Docs({200: str, 304: None}, extension=True, content_type=MARKDOWN)
async def get_docs_query_page(call: Call) -> Outcome:
    """Serve the same text as without the ending."""
    return await _guide(call, "query.md")


@groups.DISCOVERY.get("/v1/docs/automation.md", "Read the guide to automation at an address with an ending")
@Who(PUBLIC)
@Docs({200: str, 304: None}, extension=True, content_type=MARKDOWN)
async def get_docs_automation_page(call: Call) -> Outcome:
    """Serve the same text as without the ending."""
    return await _guide(call, "automation.md")


ENDPOINTS = [
    get_service_guide,
    get_install_guide,
    get_skill,
    get_docs_query,
    get_docs_automation,
    get_docs_query_page,
    get_docs_automation_page,
]
