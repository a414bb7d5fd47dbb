"""Answers as they are written: a success with its notice, a failure in the form of its reader.

A 409 tells the steps that are left: machines name events, clients are told operations (G-139).
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any

import msgspec

from schemas.kernel.shape import MAX_BATCH_ITEMS
from service.auth.authority import PrincipalKind
from service.auth.refusals import InvalidPayload
from service.billing.usage import beside
from service.eventstore.declare.commands import Answer, Outcome
from service.http.answer.errors import Failure, encode_failure
from service.http.answer.reply import JSON, Reply
from service.http.declare.bound import Bound
from service.http.declare.call import Call
from service.http.declare.endpoint import Operation
from service.http.declare.forms import BATCHES, form_of, media_of
from service.http.declare.headers import Head

Known = Call | None
"""The call of a request with a known caller. None before that."""
_SCHEMA = "request_body_schema"


def with_next_operations(
    failure: Failure, operations: Mapping[str, Operation], path: Mapping[str, str], call: Known
) -> Failure:
    """Say to a caller what it may call next, in the place of the events that a machine would take."""
    if "allowed_next" not in failure.details:
        return failure
    kind, ids = None, {}
    if call is not None:
        kind, ids = call.principal.kind, dict(path)
        if call.scope_id is not None:
            ids["project_id"] = call.scope_id
    return failure._replace(details=in_operations(failure.details, operations, kind, ids))


def with_body_schema(failure: Failure, bound: Bound, call: Known) -> Failure:
    """Add the schema of the body to its refusal (R-ERR-16).

    Parameters, headers and exports of OpenTelemetry have none. The schema of a batch is an array, and its items have
    the schema of one record.
    """
    if failure.code != InvalidPayload.code or not bound.takes_body or failure.details.get(_SCHEMA):
        return failure
    named = {fault["field"] for fault in failure.details.get("invalid_fields", ())}
    query = bound.operation.query
    of_query = bool(named) and query is not None and named <= set(query.__struct_encode_fields__)
    if of_query or call is None or call.reads_head:
        return failure
    schema, form = bound.body_schema, call.form
    if form in BATCHES:
        schema = {"type": "array", "minItems": 1, "maxItems": MAX_BATCH_ITEMS, "items": schema}
    elif form is not None:
        return failure
    return failure._replace(details={**failure.details, _SCHEMA: schema})


def render_failure(failure: Failure, operation: Operation, head: Head, call: Known, added: Mapping[str, str]) -> Reply:
    """Write an error, with the headers that were added so far and those that an SDK goes by."""
    text, written_in = _write_failure(failure, operation, head, call)
    told = operation.body.sdk.told(failure) if operation.body.sdk is not None else {}
    return Reply(
        failure.status, text, {"content-type": written_in, **added, **told, **failure.headers}, head.request_id
    )


def _write_failure(failure: Failure, operation: Operation, head: Head, call: Known) -> tuple[bytes, str]:
    """An error, and the content type it is written in: as the form of the request has it, where that is known."""
    form = None if call is None else call.form
    if (
        operation.body.forms
        and (form := form or form_of(operation.body.forms, head.headers, b""))
        and form.write_failure
    ):
        return form.write_failure(failure, media_of(head.headers))
    return encode_failure(failure, head.request_id, closed=operation.common.closed_errors), JSON


def render_success(
    outcome: Outcome | Answer, operation: Operation, added: Mapping[str, str], request_id: str, notice: bytes
) -> Reply:
    """Write what a handler answered, with a notice (JSON, empty for none) beside its members."""
    headers = {"content-type": operation.docs.content_type, **added, **outcome.headers}
    if isinstance(outcome, Outcome):
        body = outcome.body
        if outcome.replayed:
            headers["idempotent-replayed"] = "true"
    else:
        body = b"" if outcome.body is None else msgspec.json.encode(outcome.body)
    if not body and "content-type" not in outcome.headers:
        del headers["content-type"]
    return Reply(outcome.status, beside(body, notice), headers, request_id)


_RUN_ENDS = ("update_automation_run",)
_PROVEN = ("record_pr_proof",)

OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "onboarding.planned.v1": ("start_onboarding",),
    "onboarding.approved.v1": ("review_onboarding",),
    "onboarding.proof_started.v1": ("start_onboarding_proof",),
    "onboarding.verified.v1": ("verify_onboarding",),
    "case.ignored_by_member.v1": ("ignore_case",),
    "case.overflow_reopened.v1": ("reopen_case",),
    "run.started.v1": ("start_automation_run",),
    "run.progressed.v1": ("update_automation_run",),
    "run.charged.v1": ("record_automation_usage",),
    "run.charged_in_review.v1": ("record_automation_usage",),
    "run.charged_awaiting_proof.v1": ("record_automation_usage",),
    "run.charged_awaiting_deploy.v1": ("record_automation_usage",),
    "run.approval_requested.v1": ("request_automation_approval",),
    "run.approval_settled.v1": ("decide_automation_approval",),
    "run.review_ended.v1": ("decide_automation_approval",),
    "run.draft_pr_authorized.v1": ("authorize_draft_pr",),
    "run.auto_merge_authorized.v1": ("authorize_auto_merge",),
    "run.draft_pr_consumed.v1": ("consume_draft_pr",),
    "run.auto_merge_consumed.v1": ("consume_auto_merge",),
    "run.pr_reported.v1": ("update_automation_run",),
    "run.pr_proven.v1": _PROVEN,
    "run.checks_proven.v1": _PROVEN,
    "run.auto_merge_proven.v1": _PROVEN,
    "run.merge_proven.v1": _PROVEN,
    "run.merge_proven_later.v1": _PROVEN,
    "run.deploy_bound.v1": ("record_deploy",),
    "run.verified.v1": ("verify_automation_run",),
    "run.verification_failed.v1": ("verify_automation_run",),
    "run.report_source_intended.v1": ("read_report_source",),
    "run.reported.v1": ("record_report",),
    "run.failed.v1": _RUN_ENDS,
    "run.failed_outside.v1": _RUN_ENDS,
    "run.escalated.v1": _RUN_ENDS,
    "run.escalated_outside.v1": _RUN_ENDS,
    "run.cancelled.v1": ("cancel_automation_run",),
    "run.cancelled_outside.v1": ("cancel_automation_run",),
    "run.proven_after_failure.v1": _PROVEN,
    "run.proven_after_escalation.v1": _PROVEN,
    "run.proven_after_cancel.v1": _PROVEN,
    "run.settled_after_failure.v1": _PROVEN,
    "run.settled_after_escalation.v1": _PROVEN,
    "run.settled_after_cancel.v1": _PROVEN,
    "run.closed_unmerged.v1": _PROVEN,
    "run.closed_deployed.v1": _PROVEN,
    "run.merged_changed.v1": _PROVEN,
    "run.merged_changed_deployed.v1": _PROVEN,
    "run.closed_after_failure.v1": _PROVEN,
    "run.closed_after_escalation.v1": _PROVEN,
    "run.closed_after_cancel.v1": _PROVEN,
    "run.seen_after_end.v1": _PROVEN,
}
"""What records an event. An event that no client asks for (time, a fence) is not listed."""


def in_operations(
    details: Mapping[str, Any], known: Mapping[str, Operation], kind: PrincipalKind | None, ids: Mapping[str, str]
) -> dict[str, Any]:
    """Details with `allowed_next` as the operations that this kind of caller may call, by their ids.

    A session is told those of keys: the pages call them.

    An operation whose path needs an id that the refused request did not lead to is left out.
    """
    named = {name for topic in details["allowed_next"] for name in OPERATIONS.get(topic, ())}
    asks = None if kind is None else kind.inside
    open_to_caller = [known[name] for name in sorted(named) if name in known and asks in known[name].who.principals]
    shown = [
        {"operation_id": operation.operation_id, "method": operation.method, "path": operation.path.format_map(ids)}
        for operation in open_to_caller
        if _parameters(operation.path) <= ids.keys()
    ]
    return {**details, "allowed_next": shown}


def _parameters(path: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(path) if name}
