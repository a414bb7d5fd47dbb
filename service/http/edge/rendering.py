"""Answers as they are written: a success with its notice, a failure in the form of its reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from schemas.kernel.shape import MAX_BATCH_ITEMS
from service.auth.refusals import InvalidPayload
from service.billing.usage import beside
from service.eventstore.declare.commands import Answer, Outcome
from service.http.edge.allowed import in_operations
from service.http.edge.answer.errors import Failure, encode_failure
from service.http.edge.answer.reply import JSON, Reply
from service.http.edge.declare.bound import Bound
from service.http.edge.declare.call import Call
from service.http.edge.declare.forms import BATCHES, form_of, media_of
from service.http.edge.declare.headers import Head
from service.http.edge.declare.operations import Operation

Standing = list[Call[Any, Any]]
"""The call of a request with a known caller. Empty before that."""
_SCHEMA = "request_body_schema"


def with_next_operations(
    failure: Failure, operations: Mapping[str, Operation], path: Mapping[str, str], standing: Standing
) -> Failure:
    """Say to a caller what it may call next, in the place of the events that a machine would take."""
    if "allowed_next" not in failure.details:
        return failure
    kind, ids = None, {}
    for call in standing:
        kind, ids = call.principal.kind, dict(path)
        if call.scope_id is not None:
            ids["project_id"] = call.scope_id
    return failure._replace(details=in_operations(failure.details, operations, kind, ids))


def with_body_schema(failure: Failure, bound: Bound, standing: Standing) -> Failure:
    """Add the schema of the body to its refusal (R-ERR-16).

    Parameters, headers and exports of OpenTelemetry have none. The schema of a batch is an array, and its items have
    the schema of one record.
    """
    if failure.code != InvalidPayload.code or not bound.takes_body or failure.details.get(_SCHEMA):
        return failure
    named = {fault["field"] for fault in failure.details.get("invalid_fields", ())}
    query = bound.operation.query
    of_query = bool(named) and query is not None and named <= set(query.__struct_encode_fields__)
    if of_query or not standing or standing[0].reads_head:
        return failure
    schema, form = bound.body_schema, standing[0].form
    if form in BATCHES:
        schema = {"type": "array", "minItems": 1, "maxItems": MAX_BATCH_ITEMS, "items": schema}
    elif form is not None:
        return failure
    return failure._replace(details={**failure.details, _SCHEMA: schema})


def render_failure(
    failure: Failure, operation: Operation, head: Head, standing: Standing, added: Mapping[str, str]
) -> Reply:
    """Write an error, with the headers that were added so far and those that an SDK goes by."""
    text, written_in = _write_failure(failure, operation, head, standing)
    told = operation.protocol.told(failure) if operation.protocol is not None else {}
    return Reply(
        failure.status, text, {"content-type": written_in, **added, **told, **failure.headers}, head.request_id
    )


def _write_failure(failure: Failure, operation: Operation, head: Head, standing: Standing) -> tuple[bytes, str]:
    """An error, and the content type it is written in: as the form of the request has it, where that is known."""
    form = standing[0].form if standing else None
    if operation.forms and (form := form or form_of(operation.forms, head.headers, b"")) and form.write_failure:
        return form.write_failure(failure, media_of(head.headers))
    return encode_failure(failure, head.request_id, closed=operation.closed_errors), JSON


def render_success(
    outcome: Outcome | Answer, operation: Operation, added: Mapping[str, str], request_id: str, notice: bytes
) -> Reply:
    """Write what a handler answered, with a notice (JSON, empty for none) beside its members."""
    headers = {"content-type": operation.content_type, **added, **outcome.headers}
    if isinstance(outcome, Outcome):
        body = outcome.body
        if outcome.replayed:
            headers["idempotent-replayed"] = "true"
    else:
        body = b"" if outcome.body is None else msgspec.json.encode(outcome.body)
    if not body and "content-type" not in outcome.headers:
        del headers["content-type"]
    return Reply(outcome.status, beside(body, notice), headers, request_id)
