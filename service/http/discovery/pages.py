"""The documentation for people: an index, pages, a search and the reference of the API, as HTML (G-166).

All is public and without side effects. Nothing is loaded before the first request. The pages need no script, and their
policy allows no request but to this host.
"""

from collections.abc import Callable
from functools import partial

from litestar.di import NamedDependency
from litestar.params import FromPath

from schemas.discovery import PagesQuery
from service.auth.refusals import refusal
from service.discovery.manifest import MARKDOWN, Text, as_text, render
from service.discovery.pages import API, ENDING, GUIDES, ROOT, SEARCH, STYLE, DocPage, address_of
from service.discovery.reads import Installation, installation
from service.eventstore.declare.commands import Outcome
from service.http.answer.page import HTML, LINKED
from service.http.answer.reply import prefers
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Who
from service.http.discovery import shelf
from service.http.discovery.entry import documents_of
from service.http.discovery.guides import PUBLIC, kept, serve

CSS = "text/css; charset=utf-8"
PLAIN = "text/plain; charset=utf-8"
OUTLINE = f"{ROOT}{ENDING}"
DIRECTIVE = "> All texts of this service: [llms.txt](/llms.txt).\n\n"
"""The line below the title of a page as Markdown. Guides have it in their text."""
Find = Callable[[Installation, str], DocPage | None]
"""How a page is found by its name."""


async def _page(call: Call, section: str, asked: str, find: Find) -> Outcome:
    """Answer with a page: as Markdown for a name with `.md` or by Accept, else as HTML. Raises `not_found`."""
    name = asked.removesuffix(ENDING)
    negotiated = name == asked
    markdown = not negotiated or prefers(call.header("accept"), "text/markdown", to="text/html")
    make = partial(_made, find, name, markdown)
    text = await kept(call, f"{ROOT}/{section}/{name}{ENDING * markdown}", make)
    return _serve(call, text, MARKDOWN if markdown else HTML, vary=negotiated)


def _made(find: Find, name: str, markdown: bool, at: Installation) -> Text:
    page = find(at, name)
    if page is None:
        raise refusal("not_found")
    return as_text(_directed(page)) if markdown else shelf.library(at).html(page)


def _directed(page: DocPage) -> str:
    """The Markdown of a page, with the way to all others below its title."""
    if page.address.startswith(address_of(GUIDES, "")):
        return page.source
    title, _, rest = page.source.partition("\n\n")
    return f"{title}\n\n{DIRECTIVE}{rest}"


async def _outline(call: Call) -> Text:
    """The list of all pages as Markdown."""
    return await kept(call, OUTLINE, lambda at: shelf.library(at).outline())


def _serve(call: Call, text: Text, content_type: str = HTML, *, vary: bool = False) -> Outcome:
    outcome = serve(call, text, content_type, vary=vary)
    return Outcome(outcome.status, outcome.body, {**outcome.headers, **LINKED})


@groups.DISCOVERY.get("/llms.txt", "Read the list of texts for language models")
@Who(PUBLIC)
@Docs({200: str, 304: None}, extension=True, content_type=PLAIN)
async def get_llms_index(call: Call) -> Outcome:
    """Serve the list, in the form of llmstxt.org."""
    return serve(call, await kept(call, "llms.txt", shelf.llms), PLAIN)


@groups.DISCOVERY.get(ROOT, "Open the documentation for people")
@Who(PUBLIC)
@Docs({200: str, 304: None}, extension=True, content_type=HTML, also_answers=(MARKDOWN,))
async def get_docs(call: Call) -> Outcome:
    """Serve the list of all pages, as HTML or by Accept as Markdown."""
    if prefers(call.header("accept"), "text/markdown", to="text/html"):
        return serve(call, await _outline(call), vary=True)
    return _serve(call, await kept(call, ROOT, lambda at: shelf.library(at).index()), vary=True)


@groups.DISCOVERY.get(OUTLINE, "Read the list of all pages of the documentation as Markdown")
@Who(PUBLIC)
@Docs({200: str, 304: None}, extension=True, content_type=MARKDOWN)
async def get_docs_outline(call: Call) -> Outcome:
    """Serve the same list as at `/docs`."""
    return serve(call, await _outline(call))


@groups.DISCOVERY.get(STYLE, "Read the style sheet of the documentation")
@Who(PUBLIC)
@Docs({200: str, 304: None}, extension=True, content_type=CSS)
async def get_docs_style(call: Call) -> Outcome:
    """Serve the one style sheet."""
    return _serve(call, await kept(call, STYLE, lambda _: render("pages/style.css", {})), CSS)


@groups.DISCOVERY.get(SEARCH, "Search the documentation")
@Who(PUBLIC)
@Docs({200: str, 304: None}, extension=True, content_type=HTML)
async def search_docs(call: Call, params: NamedDependency[PagesQuery]) -> Outcome:
    """Serve the hits, at most twenty, as a page."""
    at = installation(call.services.settings)
    return _serve(call, await call.work_apart(lambda: shelf.library(at).found(params.q)))


@groups.DISCOVERY.get(f"{ROOT}/{API}/{{tag}}", "Open the reference of a tag or an operation of the API")
@Who(PUBLIC)
@Docs({200: str, 304: None}, errors=("not_found",), extension=True, content_type=HTML, also_answers=(MARKDOWN,))
async def get_docs_api(call: Call, tag: FromPath[str]) -> Outcome:
    """Serve the operations of a tag, or one operation, made of the schema document."""
    return await _page(call, API, tag, partial(shelf.api_page, documents_of(call)))


@groups.DISCOVERY.get(f"{ROOT}/{{section}}/{{page}}", "Open a page of the documentation")
@Who(PUBLIC)
@Docs({200: str, 304: None}, errors=("not_found",), extension=True, content_type=HTML, also_answers=(MARKDOWN,))
async def get_docs_page(call: Call, section: FromPath[str], page: FromPath[str]) -> Outcome:
    """Serve a page of a fixed set. Its names are looked up and never lead to a file."""
    return await _page(call, section, page, lambda at, name: shelf.page(at, section, name))


ENDPOINTS = [get_llms_index, get_docs, get_docs_outline, get_docs_style, search_docs, get_docs_api, get_docs_page]
