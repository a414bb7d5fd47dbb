"""What a 409 tells of the steps that are left: machines name events, clients are told operations (G-139)."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any

from service.auth.authority import PrincipalKind
from service.http.edge.declare.operations import Operation

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
    open_to_caller = [known[name] for name in sorted(named) if name in known and asks in known[name].principals]
    shown = [
        {"operation_id": operation.operation_id, "method": operation.method, "path": operation.path.format_map(ids)}
        for operation in open_to_caller
        if _parameters(operation.path) <= ids.keys()
    ]
    return {**details, "allowed_next": shown}


def _parameters(path: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(path) if name}
