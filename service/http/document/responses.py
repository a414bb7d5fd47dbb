"""What an operation answers, in the schema document: successes, errors with their codes, and the headers of both."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from schemas.kernel.errors import CATALOGUE
from service.auth.authority import PrincipalKind
from service.http.answer.reply import JSON, REQUEST_ID_HEADER
from service.http.declare.bound import Bound
from service.http.declare.endpoint import Operation
from service.http.declare.forms import Export, Form
from service.http.edge.reading import MEDIA as CSV

Json = dict[str, Any]

_REQUEST_ID = f"req_01k{1:023d}"
MACHINES = frozenset({PrincipalKind.DSN, PrincipalKind.PUBLIC_DSN, PrincipalKind.CI, PrincipalKind.RUNNER})
"""Callers to whom a fence closes reads as well (G-131)."""

HEADERS: Mapping[str, Json] = {
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


def exports(operation: Operation) -> list[tuple[Form, Export]]:
    """The forms of an operation that are answered as a protocol of others has it."""
    return [(form, form.export) for form in operation.body.forms if form.export is not None]


def exported(export: Export) -> Json:
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


def success(operation: Operation, status: int, schema: Json | None, said: str) -> Json:
    """A success answer: its body by its published schema, and in words."""
    headers = _refer(x_service_request_id="RequestId", x_service_ignored="Ignored")
    if operation.fencing.idempotency != "none":
        headers |= _refer(idempotent_replayed="Replayed")
    if operation.docs.tables:
        headers |= _refer(Server_Timing="ServerTiming")
    if operation.fencing.if_match != "none" or HTTPStatus.NOT_MODIFIED in operation.responses:
        headers |= _refer(ETag="ETag")
    described: Json = {"description": said or HTTPStatus(status).phrase, "headers": headers}
    if schema is not None:
        if operation.body.forms:
            schema = {"anyOf": [schema, {"$ref": "#/components/schemas/BatchAccepted"}]}
        described["content"] = {operation.docs.content_type: {"schema": schema}}
        for media in operation.docs.also_answers:
            described["content"][media] = {"schema": _also(media)}
        if operation.docs.tables:
            described["content"][CSV] = {"schema": {"type": "string"}}
    return described


def _also(media: str) -> Json:
    """The schema of a further type of answer, in the form of a standard."""
    if media.endswith("-batch+json"):
        return {"type": "array", "items": {"type": "object"}}
    return {"type": "object" if media == JSON else "string"}


def error_codes(bound: Bound) -> list[str]:
    """The codes an operation answers with: what follows from its declaration, and what it names itself."""
    operation = bound.operation
    public = bound.public
    reads_form = operation.query is not None and not operation.body.reads_query
    in_project = "{project_id}" in operation.path or operation.who.subject is not None
    rules: list[tuple[bool, tuple[str, ...]]] = [
        (True, ("rate_limited", "internal_error", "service_unavailable")),
        (bound.takes_body or reads_form or operation.fencing.idempotency != "none", ("invalid_payload",)),
        (
            operation.method == "GET" and not operation.body.reads_query,
            ("invalid_payload",),
        ),  # for a past that it lacks
        (not public, ("unauthenticated", "principal_not_allowed")),
        (operation.mutation, ("stream_is_newer", "stream_damaged")),
        (operation.who.scope is not None, ("scope_missing",)),
        (operation.who.owner, ("owner_required",)),
        ("{project_id}" in operation.path, ("project_not_found",)),
        ("{alias}" in operation.path or "{organization}" in operation.path, ("not_found",)),
        (in_project and operation.mutation, ("project_deletion_in_progress",)),
        (bool(operation.who.principals & MACHINES), ("project_deletion_in_progress",)),
        (bound.reads_body, ("payload_too_large",)),
        (bound.takes_body, ("unsupported_media_type",)),
        (operation.fencing.idempotency != "none", ("idempotency_key_reused", "idempotency_in_progress")),
        (operation.fencing.idempotency == "required", ("idempotency_key_required",)),
        (operation.fencing.if_match != "none", ("invalid_if_match", "if_match_required", "precondition_failed")),
        (operation.fencing.quota_locked, ("quota_exceeded",)),
    ]
    found = {code for holds, codes in rules if holds for code in codes} | set(operation.docs.errors)
    if operation.who.subject is not None:
        found.add(operation.who.subject.not_found)
    return sorted(found, key=lambda code: (CATALOGUE[code].status, code))


def errors(operation: Operation, codes: Sequence[str], schema_of: Mapping[int, Json]) -> Json:
    """The shared response of each error status, beside the form that the protocol of the operation has for it."""
    variant = "Closed" if operation.common.closed_errors else ""
    statuses = sorted({CATALOGUE[code].status for code in codes})
    shared = {str(status): {"$ref": f"#/components/responses/{variant}Error{status}"} for status in statuses}
    own = {str(status): _in_both_forms(status, schema_of[id(form)]) for status, form in operation.docs.refuses.items()}
    return {**shared, **own}


def _in_both_forms(status: int, schema: Json) -> Json:
    """A refusal in the form of a protocol of others, or in our envelope."""
    return {
        "description": HTTPStatus(status).phrase,
        "headers": _error_headers(status),
        "content": {JSON: {"schema": {"anyOf": [schema, {"$ref": "#/components/schemas/ErrorEnvelope"}]}}},
    }


def error_responses() -> Json:
    """One response for each error status and envelope."""
    return {
        f"{variant}Error{status}": {
            "description": HTTPStatus(status).phrase,
            "headers": _error_headers(status),
            "content": {
                "application/json": {
                    "schema": {"$ref": f"#/components/schemas/{variant}ErrorEnvelope"},
                    "example": _refusal(status, closed=bool(variant)),
                }
            },
        }
        for status in sorted({code.status for code in CATALOGUE.values()})
        for variant in ("", "Closed")
    }


def _refusal(status: int, *, closed: bool) -> Json:
    """The first code of a status as it is answered, with the default texts of the catalogue."""
    code, known = next((code, known) for code, known in CATALOGUE.items() if known.status == status)
    error = {"code": code, "message": known.message, "next_action": known.next_action}
    return {
        "error": error if closed else {**error, "request_id": _REQUEST_ID, "retryable": known.retryable, "details": {}}
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
