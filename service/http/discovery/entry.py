"""The entry point, the schema document and the error catalogue (R-DISC-01 to -05, -13 to -17).

All are public and without side effects. Pointers are given only to what is built, so each of them resolves.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import msgspec

from schemas.discovery.entry import ProofContract, QuickStart, Root, SchemaDocument, SchemaQuery
from schemas.kernel.errors import CATALOGUE, ErrorCatalogue, ErrorCatalogueEntry
from service.auth.principals import PrincipalKind
from service.eventstore.commands import Answer, Outcome
from service.http.edge import groups
from service.http.edge.call import Call
from service.http.edge.headers import head_of
from service.http.edge.openapi import build_document
from service.http.edge.routes import all_endpoints, bind
from service.http.edge.schema_filters import FLOWS, check_filters, index_of, select
from service.http.edge.unbuilt import is_unbuilt

PUBLIC = frozenset({PrincipalKind.ANONYMOUS})
CACHED = {"cache-control": "public, max-age=300"}
UNKNOWN_SHA = "unknown"

# Pointer, the path that has to be built for it, and its query.
_POINTERS = (
    ("install_docs", "/install.md", ""),
    ("reference_docs", "/v1/docs/query", ""),
    ("capabilities", "/v1/capabilities", ""),
    ("setup_manifest", "/v1/setup/manifest", ""),
    ("install_contract", "/v1/install/contract", ""),
    ("install_plan", "/v1/install/plan", ""),
    ("signal_map", "/v1/projects/{project_id}/signal-map", ""),
    ("implementation_report", "/v1/projects/{project_id}/implementation-report", ""),
    ("verify_install", "/v1/projects/{project_id}/install/verify", ""),
    ("verify_report", "/v1/projects/{project_id}/verify-report", ""),
    ("skill", "/skill/service/SKILL.md", ""),
    ("onboarding", "/v1/projects/{project_id}/onboarding", ""),
    ("onboarding_flow", "/v1/openapi.json", "?flow=onboarding"),
    ("provider_flow", "/v1/openapi.json", "?flow=provider"),
    ("automation_flow", "/v1/openapi.json", "?flow=automation"),
    ("source_snapshot_helper", "/v1/onboarding/source-snapshot.mjs", ""),
    ("automation_docs", "/v1/docs/automation", ""),
    ("automation_playbooks", "/v1/automation-playbooks", ""),
)
_GUIDE = "/service.md"
_INDEX = "/v1/openapi.json?index=true"


@lru_cache(maxsize=4)
def schema_document(base_url: str) -> dict[str, Any]:
    """The whole schema document of this version."""
    return build_document(bind(all_endpoints()), base_url)


@lru_cache(maxsize=1)
def _built_paths() -> frozenset[str]:
    return frozenset(found.operation.path for found in all_endpoints() if not is_unbuilt(found.handler))


@lru_cache(maxsize=512)
def _rendered(base_url: str, query: SchemaQuery) -> tuple[bytes, str]:
    """The bytes for one choice of filters, and their tag. Raises InvalidPayload or `operation_not_found`."""
    document = schema_document(base_url)
    check_filters(document, query.tag, query.path, query.method)
    selected = select(
        document,
        flow=query.flow,
        tag=query.tag,
        path=query.path,
        method=query.method,
        include_components=query.include_components,
    )
    body = msgspec.json.encode(index_of(selected) if query.index else selected)
    return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def matches_tag(if_none_match: str | None, etag: str) -> bool:
    """Whether an If-None-Match field names the tag (weak comparison, RFC 9110 §13.1.2)."""
    sent = [tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")]
    return "*" in sent or etag in sent


@groups.DISCOVERY.operation(
    method="GET",
    path="/v1/openapi.json",
    operation_id="get_openapi",
    summary="Read the API schema, whole or filtered",
    principals=PUBLIC,
    responses={200: SchemaDocument, 304: None},
    errors=("operation_not_found",),
)
async def get_openapi(call: Call[None, SchemaQuery]) -> Outcome:
    """Serve the schema document."""
    body, etag = _rendered(call.services.settings.base_url, call.query)
    headers = {"etag": etag, **CACHED}
    if matches_tag(head_of(call.request.scope).headers.get("if-none-match"), etag):
        return Outcome(304, b"", headers)
    return Outcome(200, body, headers)


@groups.DISCOVERY.operation(
    method="GET",
    path="/v1/errors",
    operation_id="list_errors",
    summary="List every error code with its status and what to do",
    principals=PUBLIC,
    responses={200: ErrorCatalogue},
    extension=True,
)
async def list_errors(_: Call[None, None]) -> Answer:
    """List the catalogue."""
    entries = [
        ErrorCatalogueEntry(code, known.status, known.retryable, known.message, known.next_action)
        for code, known in CATALOGUE.items()
    ]
    action = "Look an error's code up here; the answer's own next_action is more precise."
    return Answer(200, ErrorCatalogue(entries, len(entries), action), CACHED)


@groups.DISCOVERY.operation(
    method="GET",
    path="/",
    operation_id="get_root",
    summary="Find everything else from here",
    principals=PUBLIC,
    responses={200: Root},
)
async def get_root(call: Call[None, None]) -> Answer:
    """Describe the service and point to what it has."""
    settings = call.services.settings
    return Answer(200, _root(settings.base_url, settings.deploy_sha or UNKNOWN_SHA), CACHED)


@lru_cache(maxsize=4)
def _root(base_url: str, deploy_sha: str) -> Root:
    built = _built_paths()
    pointers: dict[str, Any] = {name: f"{base_url}{path}{query}" for name, path, query in _POINTERS if path in built}
    schema = f"{base_url}/v1/openapi.json"
    index = f"{base_url}{_INDEX}"
    return Root(
        name="service",
        docs=f"{base_url}{_GUIDE}" if _GUIDE in built else index,
        api_schema=schema,
        version=3,
        contract_version=3,
        deploy_sha=deploy_sha,
        next_action=(
            "Read api_schema filtered by the flow you need before the first mutation, and send a descriptive "
            "User-Agent with every request."
        ),
        quick_start=[
            QuickStart(
                "You have no API key.",
                "Start the device flow, have a person authorize the code, then poll for the key.",
                [
                    url
                    for path in ("/v1/auth/device", "/v1/auth/device/poll")
                    if path in built
                    for url in [base_url + path]
                ],
            ),
            QuickStart(
                "You need the exact shape of a request.",
                "Fetch the schema with path and method, or list all operations with the index.",
                [schema, index],
            ),
            QuickStart(
                "You met an error code.",
                "Follow the error's next_action; the catalogue lists every code.",
                [f"{base_url}/v1/errors"],
            ),
        ],
        mental_model={
            "project": "The unit of scope: no credential, case, receipt or run of one is seen through another.",
            "evidence": "Telemetry is evidence. No text in it changes policy, state or authority.",
            "authority": "The service issues bounded authority and records proof; it does no coding work itself.",
        },
        proof_contract=ProofContract(
            install="Onboarding is verified only by events that a real execution of the instrumented code produced.",
            answering="An answer rests on rows that a bounded query returned; a failed read is never an empty one.",
        ),
        response_shapes={
            "tables": "Tabular queries answer rows (objects) and columns (display and order).",
            "errors": "Errors answer error.code, error.message and error.next_action; the catalogue is /v1/errors.",
            "times": "Times are integers: epoch seconds in UTC.",
            "flows": f"Flows of the schema: {', '.join(FLOWS)}.",
        },
        **pointers,
    )


ENDPOINTS = [get_root, get_openapi, list_errors]
