"""Documents for coding agents and editors, from a closed set of names (R-DISC-10, G-014)."""

from functools import lru_cache

import msgspec
from litestar.params import FromPath

from schemas.discovery import AdapterList
from service.auth.refusals import refusal
from service.discovery.manifest import ADAPTERS, Text, adapters, as_text
from service.eventstore.declare.commands import Outcome
from service.http.answer.reply import JSON
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Who
from service.http.discovery.guides import PUBLIC, serve, text_of


@groups.DISCOVERY.get("/adapters", "List the documents for coding agents and editors")
@Who(PUBLIC)
@Docs({200: AdapterList, 304: None})
async def list_adapters(call: Call) -> Outcome:
    """List them."""
    return serve(call, _adapters(call.services.settings.base_url), JSON)


@groups.DISCOVERY.get("/adapters/{file}", "Read a document for a coding agent or editor")
@Who(PUBLIC)
@Docs(
    {200: str, 304: None},
    errors=("adapter_not_found",),
    content_type="text/markdown; charset=utf-8",
    also_answers=("text/plain; charset=utf-8", "application/json"),
)
async def get_adapter(call: Call, file: FromPath[str]) -> Outcome:
    """Serve one by its exact name, from memory. Raises `adapter_not_found` for any other."""
    adapter = ADAPTERS.get(file)
    if adapter is None:
        raise refusal("adapter_not_found")
    return serve(call, await text_of(call, f"adapters/{file}"), adapter.content_type)


@lru_cache(maxsize=4)
def _adapters(base_url: str) -> Text:
    return as_text(msgspec.json.encode(adapters(base_url)))


ENDPOINTS = [list_adapters, get_adapter]
