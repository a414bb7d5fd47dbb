"""The routes of the console: one for all pages, one for all forms, one to follow changes, and its files.

Nothing of the console is loaded before the first request to it. Pages read and write by operations of the API, in the
name of the person whose session a request presents, so each page has the access rules of what it calls.
"""

from functools import cache
from http import HTTPStatus
from types import ModuleType
from urllib.parse import parse_qs, urlencode

from litestar.params import FromPath, RequestBody
from litestar.types import HTTPScope

from service.auth.refusals import NotFound
from service.console import assets
from service.console.kit.visit import FRAMELESS, HEADERS
from service.eventstore.declare.commands import Outcome
from service.fairness.turns import SIGN_IN
from service.http.answer.errors import Failure
from service.http.answer.page import HTML
from service.http.answer.reply import Reply, Streamed
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Group, Who
from service.http.declare.headers import head_of, matches_tag
from service.http.declare.operations import ANYONE, SESSION

# Refusals of pages, for people.

ROOT = "/console"
SIGN_IN_PAGE = f"{ROOT}/enter"


def failure_page(failure: Failure, scope: HTTPScope) -> Reply:
    """A refusal as a page. It leads to the sign-in without a session."""
    request_id = head_of(scope).request_id
    if failure.status == HTTPStatus.UNAUTHORIZED:
        back = scope["path"].removeprefix(ROOT).strip("/") if scope["method"] == "GET" else ""
        way = f"{SIGN_IN_PAGE}?{urlencode({'next': back})}" if back else SIGN_IN_PAGE
        return Reply(HTTPStatus.SEE_OTHER, b"", {"location": way, **FRAMELESS}, request_id)
    from service.console.kit.rendering import render  # noqa: PLC0415 - most refusals lead to the sign-in

    body = render("kit/failure.html", {"failure": failure, "request_id": request_id, "theme": ""})
    return Reply(failure.status, body, {**failure.headers, **HEADERS}, request_id)


FORM = "application/x-www-form-urlencoded"
MAX_FORM = 1024 * 1024

CONSOLE = Group(name="console", documented=False)


async def _site(call: Call) -> ModuleType:
    """The pages, loaded apart with the first request to one."""
    return await call.once(_loaded)


@cache
def _loaded() -> ModuleType:
    from service.console import signing_in, site  # noqa: F401, PLC0415

    site.warm()
    return site


async def _show(call: Call, place: str) -> Outcome:
    made: Outcome = await (await _site(call)).show(call, place)
    return made


@CONSOLE.get(ROOT, "Open the console", operation_id="console_home")
@Who(SESSION)
@Body(reads_query=True)
@Docs(str, content_type=HTML, failure_page=failure_page)
async def show_home(call: Call) -> Outcome:
    """Show the first page."""
    return await _show(call, "")


@CONSOLE.get(f"{ROOT}/{{place}}", "Open a page of the console", operation_id="console_page")
@Who(SESSION)
@Body(reads_query=True)
@Docs(str, content_type=HTML, failure_page=failure_page)
async def show_page(call: Call, place: FromPath[str]) -> Outcome:
    """Show a page. Raises NotFound for a place without one."""
    return await _show(call, place.strip("/"))


@CONSOLE.post(f"{ROOT}/{{place}}", "Send a form of the console", operation_id="console_form")
@Who(SESSION, same_origin=True)
@Body(max_body=MAX_FORM, media_type=FORM, reads_query=True)
@Fencing(mutation=False)
@Docs({200: str, 303: None}, content_type=HTML, failure_page=failure_page)
async def send_form(call: Call, data: RequestBody[bytes], place: FromPath[str]) -> Outcome:
    """Carry out a form. Raises NotFound for a place without one."""
    made: Outcome = await (await _site(call)).send(call, data, place.strip("/"))
    return made


@CONSOLE.get(f"{ROOT}/follow", "Hear of changes to a page of the console", operation_id="console_follow")
@Who(SESSION)
@Body(reads_query=True)
@Docs(bytes, content_type="text/event-stream", failure_page=failure_page)
async def follow_page(call: Call) -> Streamed:
    """Tell of changes to what a page shows, for as long as the session lasts. Raises NotFound for anything else."""
    made: Streamed = await (await _site(call)).follow(call)
    return made


@CONSOLE.get(f"{ROOT}/enter", "Open the sign-in", operation_id="console_sign_in")
@Who(ANYONE, place=SIGN_IN)
@Body(reads_query=True)
@Fencing(rate="log")
@Docs(str, content_type=HTML, failure_page=failure_page)
async def show_sign_in(call: Call) -> Outcome:
    """Show the page of a one-time link."""
    await _site(call)
    from service.console import signing_in  # noqa: PLC0415 - loaded by now

    return signing_in.show(call)


@CONSOLE.post(f"{ROOT}/enter", "Sign in to the console", operation_id="console_enter")
@Who(ANYONE, same_origin=True, place=SIGN_IN)
@Body(max_body=8192, media_type=FORM, reads_query=True)
@Fencing(rate="device_poll")
@Docs({303: None}, content_type=HTML, failure_page=failure_page)
async def enter(call: Call, data: RequestBody[bytes]) -> Outcome:
    """Use a one-time link."""
    await _site(call)
    from service.console import signing_in  # noqa: PLC0415 - loaded by now

    return await signing_in.enter(call, data)


@CONSOLE.get(f"{ROOT}/oidc", "Sign in at the OIDC issuer", operation_id="console_oidc")
@Who(ANYONE, place=SIGN_IN)
@Body(reads_query=True)
@Fencing(rate="device_poll")
@Docs({303: None}, content_type=HTML, failure_page=failure_page)
async def start_oidc(call: Call) -> Outcome:
    """Lead to the issuer. Raises NotFound without one."""
    await _site(call)
    from service.console import signing_in  # noqa: PLC0415 - loaded by now

    return await signing_in.start(call)


@CONSOLE.get(f"{ROOT}/oidc/callback", "Come back from the OIDC issuer", operation_id="console_oidc_callback")
@Who(ANYONE, place=SIGN_IN)
@Body(reads_query=True)
@Fencing(rate="device_poll")
@Docs({303: None}, content_type=HTML, failure_page=failure_page)
async def end_oidc(call: Call) -> Outcome:
    """Sign a person in by the answer of the issuer. Raises NotFound without one."""
    await _site(call)
    from service.console import signing_in  # noqa: PLC0415 - loaded by now

    return await signing_in.come_back(call)


@CONSOLE.get(f"{ROOT}/assets/{{file}}", "Read a file of the console", operation_id="console_asset")
@Who(ANYONE)
@Body(reads_query=True)
@Fencing(rate="none")
@Docs({200: bytes, 304: None}, content_type="application/octet-stream", failure_page=failure_page)
async def read_asset(call: Call, file: FromPath[str]) -> Outcome:
    """Serve a style sheet, a script or a picture. Raises NotFound for any other."""
    found = assets.named(file)
    if found is None:
        raise NotFound
    # The address in a page names the bytes, so a browser need not ask again. Any other address may mean others later.
    named = parse_qs(call.scope["query_string"]).get(b"v") == [found.version.encode()]
    kept = "public, max-age=31536000, immutable" if named else "public, no-cache"
    headers = {"etag": found.etag, "cache-control": kept, **assets.HEADERS}
    if matches_tag(head_of(call.scope).headers.get("if-none-match"), found.etag):
        return Outcome(304, b"", headers)
    packed = found.packed if "gzip" in head_of(call.scope).headers.get("accept-encoding", "") else None
    coding = {} if packed is None else {"content-encoding": "gzip"}
    body = found.body if packed is None else packed
    return Outcome(200, body, {**headers, **coding, "content-type": found.content_type, "vary": "accept-encoding"})


ENDPOINTS = [show_sign_in, enter, start_oidc, end_oidc, show_home, show_page, send_form, follow_page, read_asset]
