"""Snippets for reporting errors and events from a product, one for each language (R-DISC-11, G-015)."""

from litestar.params import FromPath

from schemas.discovery import SdkSnippet
from service.auth.authority import PrincipalKind
from service.discovery.sdk.facts import rendered
from service.eventstore.declare.commands import Outcome
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Who

PUBLIC = frozenset({PrincipalKind.ANONYMOUS})
CACHED = {"cache-control": "public, max-age=300"}


@groups.DISCOVERY.get("/v1/install/sdk/node", "Read the snippet for Node.js")
@Who(PUBLIC)
@Docs(SdkSnippet)
async def get_install_sdk_node(call: Call) -> Outcome:
    """Serve the bytes of `{language}` for node."""
    return await _serve(call, "node")


@groups.DISCOVERY.get("/v1/install/sdk/browser", "Read the snippet for browsers")
@Who(PUBLIC)
@Docs(SdkSnippet)
async def get_install_sdk_browser(call: Call) -> Outcome:
    """Serve the bytes of `{language}` for browser."""
    return await _serve(call, "browser")


@groups.DISCOVERY.get("/v1/install/sdk/{language}", "Read the snippet for a language")
@Who(PUBLIC)
@Docs(SdkSnippet, errors=("sdk_language_not_found",))
async def get_install_sdk(call: Call, language: FromPath[str]) -> Outcome:
    """Serve the snippet of a language. Raises SdkLanguageNotFound."""
    return await _serve(call, language)


async def _serve(call: Call, language: str) -> Outcome:
    return Outcome(200, await call.once(rendered, call.services.settings.base_url, language), CACHED)


ENDPOINTS = [get_install_sdk_node, get_install_sdk_browser, get_install_sdk]
