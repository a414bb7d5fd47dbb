"""The OpenAPI 3.1.0 document, generated from the declared operations (R-DISC-13 to R-DISC-15, R-VER-01, G-019).

Components come from `msgspec.json.schema_components`, because that is what decodes the requests: what the schema says
and what the edge enforces cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from schemas.billing.usage import BillingNotice
from schemas.kernel.batch import MAX_BATCH_BYTES, MAX_BATCH_ITEMS, BatchAccepted
from schemas.kernel.errors import CATALOGUE, ClosedErrorEnvelope, ErrorEnvelope
from schemas.kernel.operations import documented_operations
from schemas.kernel.published import publish, publish_request
from schemas.kernel.shape import ALTERNATIVES
from service.auth.principals import PrincipalKind
from service.http.edge.answer.csv_text import MEDIA as CSV
from service.http.edge.answer.reply import JSON, REQUEST_ID_HEADER
from service.http.edge.body.unpacking import CODINGS
from service.http.edge.declare.bound import STAND_IN, TEST_CLOCK_PATH, Bound
from service.http.edge.declare.forms import BATCHES, Export, Form
from service.http.edge.declare.operations import Operation
from service.http.edge.declare.unbuilt import is_unbuilt
from service.http.edge.document.schema_filters import references, select

OPENAPI_VERSION = "3.1.0"
SCHEMA_VERSION = "2026-05-20"
TITLE = "Telemetry, case, onboarding and automation service"
EXTENSION_TAG = "extension"
MACHINES = frozenset({PrincipalKind.DSN, PrincipalKind.CI, PrincipalKind.RUNNER})
"""Callers to whom a fence closes reads as well (G-131)."""
HIDDEN_PATHS = frozenset({TEST_CLOCK_PATH})  # served for tests, never documented (G-120)

Json = dict[str, Any]

DESCRIPTION = (
    "Observes a software product and coordinates bounded automation around it. Callers that speak HTTP directly send "
    "a descriptive User-Agent. Mutations accept an Idempotency-Key. Every answer carries x-service-request-id. "
    "Operations marked x-not-built answer 501. Those marked x-extension go beyond the documented contract."
)

SECURITY_SCHEMES: Mapping[str, Json] = {
    "ApiKeyAuth": {
        "type": "http",
        "scheme": "bearer",
        "description": "API key of an owner or member, prefix service_sk_, usually kept in SERVICE_API_KEY.",
    },
    "DsnAuth": {
        "type": "http",
        "scheme": "bearer",
        "description": "The project's DSN (SERVICE_DSN). The header x-service-dsn accepts only a DSN.",
    },
    "CiCredentialAuth": {
        "type": "http",
        "scheme": "bearer",
        "description": "CI credential of one project, prefix service_ci_, kept in SERVICE_CI_API_KEY.",
    },
    "RunnerCredentialAuth": {
        "type": "http",
        "scheme": "bearer",
        "description": "Runner credential of one automation, prefix service_runner_, kept in SERVICE_RUNNER_API_KEY.",
    },
    "InternalTokenAuth": {
        "type": "http",
        "scheme": "bearer",
        "description": "Token of the hosted web application.",
    },
    "TestTokenAuth": {"type": "http", "scheme": "bearer", "description": "Token of the test operator."},
    "PaymentSignatureAuth": {
        "type": "apiKey",
        "in": "header",
        "name": "provider-signature",
        "description": "Signature of the payment provider over the body.",
    },
}
_SCHEME_OF_KIND: Mapping[PrincipalKind, str] = {
    PrincipalKind.KEY: "ApiKeyAuth",
    PrincipalKind.DSN: "DsnAuth",
    PrincipalKind.CI: "CiCredentialAuth",
    PrincipalKind.RUNNER: "RunnerCredentialAuth",
    PrincipalKind.INTERNAL: "InternalTokenAuth",
    PrincipalKind.TEST: "TestTokenAuth",
}
_SIGNED = frozenset((row.method, row.path) for row in documented_operations() if row.auth == "signature")

_PATH_PATTERNS: Mapping[str, Json] = {
    "alias": {"type": "string", "pattern": "^[1-9][0-9]{0,15}$"},
    "organization": {"type": "string", "minLength": 1},  # any word: there is only one
    "project_id": {
        "type": "string",
        "minLength": 8,
        "maxLength": 200,
        "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]*$",
    },
}


def build_document(endpoints: Iterable[Bound], base_url: str) -> Json:
    """Generate the whole document; `base_url` is the one server."""
    shown = [bound for bound in endpoints if bound.operation.path not in HIDDEN_PATHS]
    types = _types_of(shown)
    described = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schemas, components = publish(list(described[0])), publish(described[1])
    schema_of = dict(zip(map(id, types), schemas, strict=True))
    bodies = [schema_of[id(bound.body_type)] for bound in shown if bound.takes_body and not bound.raw_body]
    components |= {name: publish_request(components[name]) for name in _named_in(bodies, components)}
    components |= {name: _noticed(components[name]) for name in _said_to_people(shown, schema_of)}
    paths: dict[str, Json] = {}
    for bound in shown:
        operation = bound.operation
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(bound, schema_of, components)
    tags = sorted({tag for item in paths.values() for described in item.values() for tag in described["tags"]})
    document = {
        "openapi": OPENAPI_VERSION,
        "info": {"title": TITLE, "version": SCHEMA_VERSION, "description": DESCRIPTION},
        "servers": [{"url": base_url}],
        "tags": [{"name": tag} for tag in tags],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": _error_responses(),
            "headers": _HEADERS,
            "securitySchemes": dict(SECURITY_SCHEMES),
        },
    }
    # Components that nothing refers to, such as the query structs, are left out. Defaults become plain JSON.
    plain: Json = msgspec.json.decode(msgspec.json.encode(select(document)))
    return plain


def _named_in(parts: Any, components: Json) -> set[str]:
    """Names of the components that parts refer to, directly or through others."""
    found: set[str] = set()
    pending = list(references(parts))
    while pending:
        name = pending.pop().rpartition("/")[2]
        if name not in found:
            found.add(name)
            pending += references(components[name])
    return found


def _said_to_people(shown: Sequence[Bound], schema_of: Mapping[int, Json]) -> set[str]:
    """Names of the components that answer people, and so may have a notice beside them (R-BILL-11).

    What shows more of such an object than people are told promises all that the object does.
    """
    answers = [(bound.operation, body) for bound in shown for body in bound.operation.responses.values()]
    said = [body for one, body in answers if PrincipalKind.KEY in one.principals and not one.sealed]
    kinds = tuple(body for body in said if isinstance(body, type))
    said += [body for _, body in answers if isinstance(body, type) and issubclass(body, kinds)]
    schemas = [schema_of[id(body)] for body in said if body is not None]
    return {schema["$ref"].rpartition("/")[2] for schema in schemas if "$ref" in schema}


def _noticed(component: Json) -> Json:
    """A component of an answer, with the notice that it may have."""
    if "properties" not in component:
        return component
    reference = {"$ref": "#/components/schemas/BillingNotice"}
    return {**component, "properties": {**component["properties"], "billing_notice": reference}}


def _types_of(shown: Sequence[Bound]) -> list[Any]:
    """Every type that has a schema, each once: errors, bodies, answers and parameters."""
    types: list[Any] = [ErrorEnvelope, ClosedErrorEnvelope, BillingNotice]
    for bound in shown:
        operation = bound.operation
        types += [bound.body_type] if bound.takes_body else []
        types += [body for body in operation.responses.values() if body is not None]
        types += [operation.query] if operation.query is not None else []
    types += ALTERNATIVES
    types += [BatchAccepted] * any(bound.operation.forms for bound in shown)
    types += [shape for bound in shown for _, export in _exports(bound.operation) for shape in export[1:]]
    return list({id(found): found for found in types}.values())


def _operation(bound: Bound, schema_of: Mapping[int, Json], components: Json) -> Json:
    operation = bound.operation
    unbuilt = is_unbuilt(bound.handler)
    codes = error_codes(bound)
    described: Json = {
        "operationId": operation.operation_id,
        "summary": operation.summary,
        "tags": [operation.group, EXTENSION_TAG] if operation.extension else [operation.group],
        "security": _security(operation),
        "parameters": [
            *_path_parameters(operation),
            *_query_parameters(operation, schema_of, components),
            *_headers(bound),
        ],
        "responses": {
            **{str(status): _success(operation, status, schema_of) for status in operation.responses},
            **{code: answer for _, export in _exports(operation) for code, answer in _exported(export).items()},
            **_errors(operation, codes),
        },
        "x-error-codes": codes,
        "x-max-body-bytes": operation.max_body if bound.reads_body else 0,
    }
    if bound.takes_body:
        described["requestBody"] = _request_body(bound, schema_of)
        described["x-strict-body"] = operation.strict
    if operation.text_plain:
        described["x-also-takes"] = ["text/plain"]  # JSON all the same; generators refuse to send it by that name
    if operation.forms:
        described["x-batch"] = _batch()
    for form, export in _exports(operation):
        described["x-otlp"] = {
            EXTENSION_TAG: True,
            "media": list(export.media),
            "max_bytes": form.max_body,
            "answer": {"$ref": f"#/components/schemas/{export.answer.__name__}"},
            "error": {"$ref": f"#/components/schemas/{export.error.__name__}"},
        }
    if operation.unpacked:
        described["x-content-codings"] = list(CODINGS)
        described["x-max-unpacked-bytes"] = operation.unpacked
    if operation.owner:
        described["x-owner-only"] = True
    if operation.scope is not None:
        described["x-credential-scope"] = operation.scope
    if operation.flows:
        described["x-flows"] = sorted(operation.flows)
    if operation.as_of:
        described["x-as-of"] = "owner"
    if operation.extension:
        described["x-extension"] = True
    if unbuilt:
        described["x-not-built"] = True
    return described


def _batch() -> Json:
    """How many records one body may hold, and what is answered to them (G-143)."""
    media = ["application/json", *sorted({media for form in BATCHES for media in form.media})]
    return {
        EXTENSION_TAG: True,
        "media": media,
        "max_items": MAX_BATCH_ITEMS,
        "max_bytes": MAX_BATCH_BYTES,
        "answer": {"$ref": "#/components/schemas/BatchAccepted"},
    }


def _exports(operation: Operation) -> list[tuple[Form, Export]]:
    """The forms of an operation that are answered as a protocol of others has it."""
    return [(form, form.export) for form in operation.forms if form.export is not None]


def _exported(export: Export) -> Json:
    """The answer to an OpenTelemetry export, in the encoding of the request (G-142)."""
    schema = {"$ref": f"#/components/schemas/{export.answer.__name__}"}
    in_json, in_bytes = export.media
    return {
        str(HTTPStatus.OK.value): {
            "description": "Result of an OpenTelemetry export, as ExportLogsServiceResponse.",
            "headers": {REQUEST_ID_HEADER: {"$ref": "#/components/headers/RequestId"}},
            "content": {
                in_json: {"schema": schema},
                in_bytes: {"schema": {"type": "string", "format": "binary"}},
            },
        }
    }


def _security(operation: Operation) -> list[dict[str, list[str]]]:
    """One alternative for each kind of principal; none for public routes, the empty one where both are welcome."""
    if (operation.method, operation.path) in _SIGNED:
        return [{"PaymentSignatureAuth": []}]
    names = sorted(_SCHEME_OF_KIND[kind] for kind in operation.principals & _SCHEME_OF_KIND.keys())
    alternatives: list[dict[str, list[str]]] = [{name: []} for name in names]
    if PrincipalKind.ANONYMOUS in operation.principals and alternatives:
        alternatives.append({})
    return alternatives


def _path_parameters(operation: Operation) -> list[Json]:
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    plain = {"type": "string", "minLength": 1, "maxLength": 200}
    return [{"name": name, "in": "path", "required": True, "schema": _PATH_PATTERNS.get(name, plain)} for name in names]


def _query_parameters(operation: Operation, schema_of: Mapping[int, Json], components: Json) -> list[Json]:
    if operation.query is None:
        return []
    described = components[schema_of[id(operation.query)]["$ref"].rpartition("/")[2]]
    return [
        {"name": name, "in": "query", "required": False, "schema": _without_null(schema)}
        for name, schema in described["properties"].items()
    ]


def _without_null(schema: Json) -> Json:
    """A parameter is absent or has a value: its schema does not offer null."""
    shown = dict(schema)
    if "anyOf" not in shown:
        return shown
    branches = [branch for branch in shown.pop("anyOf") if branch != {"type": "null"}]
    return {**shown, **branches[0]} if len(branches) == 1 else {**shown, "anyOf": branches}


def _headers(bound: Bound) -> list[Json]:
    operation = bound.operation
    found = []
    if operation.idempotency != "none":
        schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
        header = _header("Idempotency-Key", schema, required=operation.idempotency == "required")
        if STAND_IN in getattr(bound.body_type, "__struct_fields__", ()):
            said = f"Required unless the body has a {STAND_IN}. If you send both, they must be equal."
            header |= {"required": False, "description": said}
        found.append(header)
    if operation.if_match != "none":
        schema = {"type": "string", "pattern": '^(W/)?"[!#-~]*"$'}
        found.append(_header("If-Match", schema, required=operation.if_match == "required"))
    return found


def _header(name: str, schema: Json, *, required: bool) -> Json:
    return {"name": name, "in": "header", "required": required, "schema": schema}


def _request_body(bound: Bound, schema_of: Mapping[int, Json]) -> Json:
    """The body as JSON; optional where an absent one, which equals `{}`, is acceptable (G-003)."""
    media_type = bound.operation.media_type
    if media_type != JSON:
        return {"required": True, "content": {media_type: {"schema": {"type": "string", "format": "binary"}}}}
    schema = {} if bound.raw_body else schema_of[id(bound.body_type)]
    return {"required": bound.needs_body, "content": {media_type: {"schema": schema}}}


_HEADERS: Mapping[str, Json] = {
    "RequestId": {"description": "The id of the request, sent or made.", "schema": {"type": "string"}},
    "ETag": {"description": "The tag for If-Match or If-None-Match.", "schema": {"type": "string"}},
    "Ignored": {
        "description": (
            "Present when the operation ignored query parameters it does not know: their number, and "
            "their names if they are few and plain."
        ),
        "schema": {"type": "string", "examples": ['2;names="limitt sort"']},
    },
    "Replayed": {
        "description": "Present when this is the stored answer to an earlier request.",
        "schema": {"type": "string", "const": "true"},
    },
    "RetryAfter": {"description": "Seconds to wait.", "schema": {"type": "string"}},
    "RateLimitLimit": {"description": "Requests per minute.", "schema": {"type": "string"}},
    "RateLimitRemaining": {"description": "Requests left in the current burst.", "schema": {"type": "string"}},
    "RateLimitReset": {"description": "Seconds until the bucket is full.", "schema": {"type": "string"}},
    "ServerTiming": {
        "description": "Times of the read, in milliseconds: waiting for its turn, and reading.",
        "schema": {"type": "string", "examples": ['wait;desc="waiting for a turn";dur=0.1, db;desc="reading";dur=3.2']},
    },
    "Allow": {"description": "The methods of the path.", "schema": {"type": "string"}},
    "Authenticate": {"description": "Bearer.", "schema": {"type": "string"}},
}


def _refer(**headers: str) -> Json:
    return {name.replace("_", "-"): {"$ref": f"#/components/headers/{ref}"} for name, ref in headers.items()}


def _success(operation: Operation, status: int, schema_of: Mapping[int, Json]) -> Json:
    headers = _refer(x_service_request_id="RequestId", x_service_ignored="Ignored")
    if operation.idempotency != "none":
        headers |= _refer(idempotent_replayed="Replayed")
    if operation.tables:
        headers |= _refer(Server_Timing="ServerTiming")
    if operation.if_match != "none" or HTTPStatus.NOT_MODIFIED in operation.responses:
        headers |= _refer(ETag="ETag")
    described: Json = {"description": HTTPStatus(status).phrase, "headers": headers}
    body = operation.responses[status]
    if body is not None:
        schema = schema_of[id(body)]
        if operation.forms:
            schema = {"anyOf": [schema, {"$ref": "#/components/schemas/BatchAccepted"}]}
        described["content"] = {operation.content_type: {"schema": schema}}
        if operation.tables:
            described["content"][CSV] = {"schema": {"type": "string"}}
    return described


def error_codes(bound: Bound) -> list[str]:
    """The codes an operation answers with: what follows from its declaration, and what it names itself."""
    operation = bound.operation
    public = bound.public
    reads_form = operation.query is not None and not operation.reads_query
    in_project = "{project_id}" in operation.path or operation.subject is not None
    rules: list[tuple[bool, tuple[str, ...]]] = [
        (True, ("rate_limited", "internal_error", "service_unavailable")),
        (bound.takes_body or reads_form or operation.idempotency != "none", ("invalid_payload",)),
        (operation.method == "GET" and not operation.reads_query, ("invalid_payload",)),  # for a past that it lacks
        (not public, ("unauthenticated", "principal_not_allowed")),
        (operation.mutation, ("stream_is_newer", "stream_damaged")),
        (operation.scope is not None, ("scope_missing",)),
        (operation.owner, ("owner_required",)),
        ("{project_id}" in operation.path, ("project_not_found",)),
        ("{alias}" in operation.path or "{organization}" in operation.path, ("not_found",)),
        (in_project and operation.mutation, ("project_deletion_in_progress",)),
        (bool(operation.principals & MACHINES), ("project_deletion_in_progress",)),
        (bound.reads_body, ("payload_too_large",)),
        (bound.takes_body, ("unsupported_media_type",)),
        (operation.idempotency != "none", ("idempotency_key_reused", "idempotency_in_progress")),
        (operation.idempotency == "required", ("idempotency_key_required",)),
        (operation.if_match != "none", ("invalid_if_match", "if_match_required", "precondition_failed")),
        (operation.quota_locked, ("quota_exceeded",)),
        (is_unbuilt(bound.handler), ("not_built_yet",)),
    ]
    found = {code for holds, codes in rules if holds for code in codes} | set(operation.errors)
    if operation.subject is not None:
        found.add(operation.subject.not_found)
    return sorted(found, key=lambda code: (CATALOGUE[code].status, code))


def _errors(operation: Operation, codes: Sequence[str]) -> Json:
    variant = "Closed" if operation.closed_errors else ""
    statuses = sorted({CATALOGUE[code].status for code in codes})
    return {str(status): {"$ref": f"#/components/responses/{variant}Error{status}"} for status in statuses}


def _error_responses() -> Json:
    """One response for each error status and envelope."""
    return {
        f"{variant}Error{status}": {
            "description": HTTPStatus(status).phrase,
            "headers": _error_headers(status),
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{variant}ErrorEnvelope"}}},
        }
        for status in sorted({code.status for code in CATALOGUE.values()})
        for variant in ("", "Closed")
    }


def _error_headers(status: int) -> Json:
    headers = _refer(x_service_request_id="RequestId", x_service_ignored="Ignored")
    if status == HTTPStatus.UNAUTHORIZED:
        headers |= {"WWW-Authenticate": {"$ref": "#/components/headers/Authenticate"}}
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        headers |= _refer(
            RateLimit_Limit="RateLimitLimit", RateLimit_Remaining="RateLimitRemaining", RateLimit_Reset="RateLimitReset"
        )
    if status == HTTPStatus.TOO_MANY_REQUESTS or status in {500, 502, 503, 504}:
        headers |= _refer(Retry_After="RetryAfter")
    return headers
