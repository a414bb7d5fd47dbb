"""Capabilities, setup manifest and privacy disclosure of this installation (R-DISC-06 to R-DISC-08, R-DISC-12)."""

from functools import lru_cache, partial

import msgspec
from litestar.di import NamedDependency

from schemas.discovery import Capabilities, DisclosureQuery, PrivacyDisclosure, SetupManifest
from service.discovery.manifest import MARKDOWN, OfferedOperation, Text, as_text, capabilities, disclosure, manifest
from service.discovery.reads import Installation, installation
from service.eventstore.declare.commands import Outcome
from service.http.answer.reply import JSON
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Who
from service.http.discovery import facts
from service.http.discovery.guides import PUBLIC, kept, serve, wants_markdown


@groups.DISCOVERY.get("/v1/capabilities", "List the capabilities of this installation")
@Who(PUBLIC)
@Docs({200: Capabilities, 304: None})
async def list_capabilities(call: Call) -> Outcome:
    """List the capabilities, and those without their setting."""
    return serve(call, _capabilities(installation(call.services.settings)), JSON)


@groups.DISCOVERY.get("/v1/setup/manifest", "Read the variables, checks and files of a setup")
@Who(PUBLIC)
@Docs({200: SetupManifest, 304: None}, flows=frozenset({"install"}))
async def get_setup_manifest(call: Call) -> Outcome:
    """Describe a setup."""
    return serve(call, _manifest(call.services.settings.base_url), JSON)


@groups.DISCOVERY.get("/v1/privacy/disclosure", "Read a privacy disclosure for a product")
@Who(PUBLIC)
@Docs({200: PrivacyDisclosure, 304: None}, also_answers=(MARKDOWN,))
async def get_privacy_disclosure(call: Call, params: NamedDependency[DisclosureQuery]) -> Outcome:
    """Describe collection, retention and erasure."""
    if wants_markdown(call):
        return serve(call, await _privacy(call, params), vary=True)
    made = partial(_disclosure, query=params)
    return serve(call, await kept(call, f"privacy.json {params}", made), JSON, vary=True)


@groups.DISCOVERY.get("/v1/privacy/disclosure.md", "Read a privacy disclosure as Markdown alone")
@Who(PUBLIC)
@Docs({200: str, 304: None}, extension=True, content_type=MARKDOWN)
async def get_privacy_page(call: Call, params: NamedDependency[DisclosureQuery]) -> Outcome:
    """Serve the text to paste."""
    return serve(call, await _privacy(call, params))


async def _privacy(call: Call, params: DisclosureQuery) -> Text:
    return await kept(call, f"privacy.md {params}", partial(facts.privacy, query=params))


@lru_cache(maxsize=4)
def _capabilities(at: Installation) -> Text:
    offered = [OfferedOperation(name, one.group, str(one)) for name, one in facts.operations().items()]
    return as_text(msgspec.json.encode(capabilities(at, offered)))


@lru_cache(maxsize=4)
def _manifest(base_url: str) -> Text:
    return as_text(msgspec.json.encode(manifest(base_url, lambda name: facts.operations()[name].path)))


def _disclosure(at: Installation, query: DisclosureQuery) -> Text:
    return as_text(msgspec.json.encode(disclosure(at, query, facts.privacy(at, query).body.decode())))


ENDPOINTS = [list_capabilities, get_setup_manifest, get_privacy_disclosure, get_privacy_page]
