"""The entry point, the schema document and the error catalogue (R-DISC-01 to -05, -13 to -17).

All are public and without side effects. Pointers are given only to what is built, so each of them resolves.
"""

from functools import partial

import msgspec
from litestar import Litestar
from litestar.di import NamedDependency

from schemas.discovery import Root, SchemaDocument, SchemaQuery
from schemas.kernel.errors import CATALOGUE, ErrorCatalogue, ErrorCatalogueEntry
from service.discovery.manifest import MARKDOWN, Text, as_text, root
from service.discovery.pages import home
from service.eventstore.declare.commands import Answer, Outcome
from service.fairness.bounds import Weighted
from service.http.answer.page import HTML, LINKED
from service.http.answer.reply import JSON, prefers
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Who
from service.http.discovery.guides import CACHED, PUBLIC, VARY, kept, serve, text_of, wants_markdown
from service.http.document.openapi import SchemaDocuments
from service.http.document.schema_filters import check_filters, index_of, select


def documents_of(call: Call) -> SchemaDocuments:
    """The schema documents of the application that a call came to."""
    return Litestar.from_scope(call.scope).plugins.get(SchemaDocuments)


async def _rendered(call: Call, params: SchemaQuery) -> Text:
    """The document for one choice of filters. Raises InvalidPayload or `operation_not_found`.

    It is made apart: the first takes a fifth of a second of processor time, each other up to a tenth of that.
    """
    made = call.services.settings.base_url, params
    found = _selections.get(made)
    if found is None:
        found = await call.work_once(("schema", *made), partial(_render, documents_of(call), *made))
        _selections.put(made, found)
    return found


_selections: Weighted[tuple[str, SchemaQuery], Text] = Weighted(
    lambda text: 1024 + len(text.body), max_bytes=4 * 1024 * 1024
)


def _render(documents: SchemaDocuments, base_url: str, query: SchemaQuery) -> Text:
    document = documents.at(base_url)
    check_filters(document, query.tag, query.path, query.method)
    selected = select(
        document,
        flow=query.flow,
        tag=query.tag,
        path=query.path,
        method=query.method,
        include_components=query.include_components,
    )
    return as_text(msgspec.json.encode(index_of(selected) if query.index else selected))


@groups.DISCOVERY.get("/v1/openapi.json", "Read the API schema, whole or filtered")
@Who(PUBLIC)
@Docs({200: SchemaDocument, 304: None}, errors=("operation_not_found",))
async def get_openapi(call: Call, params: NamedDependency[SchemaQuery]) -> Outcome:
    """Serve the schema document."""
    return serve(call, await _rendered(call, params), JSON)


@groups.DISCOVERY.get("/v1/errors", "List every error code with its status and remedy")
@Who(PUBLIC)
@Docs(ErrorCatalogue, extension=True)
async def list_errors() -> Answer:
    """List the catalogue."""
    entries = [
        ErrorCatalogueEntry(code, known.status, known.retryable, known.message, known.next_action, known.texts)
        for code, known in CATALOGUE.items()
    ]
    action = "Look up error codes here. The next_action of an answer is more precise."
    return Answer(200, ErrorCatalogue(entries, len(entries), action), CACHED)


@groups.DISCOVERY.get("/", "Start here: links to the other operations")
@Who(PUBLIC)
@Docs(Root, also_answers=(MARKDOWN, HTML))
async def get_root(call: Call) -> Answer | Outcome:
    """Describe the service and point to its parts. As Markdown it is the service guide, as HTML a page for people."""
    settings = call.services.settings
    if wants_markdown(call):
        return serve(call, await text_of(call, "service.md"), vary=True)
    if prefers(call.header("accept"), "text/html"):
        page = serve(call, await kept(call, "home.html", lambda _: home()), HTML, vary=True)
        return Outcome(page.status, page.body, {**page.headers, **LINKED})
    return Answer(200, root(settings.base_url, settings.deploy_sha), {**CACHED, **VARY})


ENDPOINTS = [get_root, get_openapi, list_errors]
