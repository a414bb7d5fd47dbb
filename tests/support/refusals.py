"""What every 409 must say of the steps that are left, whichever test provoked it (G-178).

`allowed_next` stands where the state of the thing that was asked of decides, and nowhere else. The rule is tried on
every refusal that a client of the tests sees (`tests/support/seen.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2

from schemas.kernel.errors import CATALOGUE

STATE_DECIDES = frozenset(
    {
        "approval_already_decided",
        "approval_cancelled",
        "approval_pending",
        "approval_rejected",
        "claim_not_active",
        "deadline_exceeded",
        "grant_already_authorized",
        "grant_not_available",
        "lease_expired",
        "onboarding_state_conflict",
        "receipt_already_consumed",
        "receipt_expired",
        "report_already_recorded",
        "run_terminal",
        "run_transition_not_allowed",
    }
)
ANOTHER_DECIDES = frozenset(
    {
        "automation_disabled",  # the contract and its switches
        "automation_paused",
        "receipt_policy_superseded",
        "budget_exhausted",
        "case_already_claimed",  # another's claim, or a fence
        "claim_required_for_run",
        "stale_lease_epoch",
        "stale_state_revision",
        "case_revision_stale",
        "idempotency_in_progress",
        "person_deletion_in_progress",
        "project_deletion_in_progress",
        "credential_already_created",
        "delivery_mode_mismatch",  # what was sent
        "pr_proof_mismatch",
        "duplicate_patch",  # another pull request
        "scope_violation",
        "plan_hash_mismatch",
        "source_hash_mismatch",
        "source_snapshot_mismatch",
        "report_values_differ",
        "deploy_not_bound",  # a proof or a source that is missing
        "insufficient_sample",
        "materiality_not_met",
        "pr_proof_required",
        "readiness_incomplete",
        "report_source_required",
        "install_state_conflict",
        "provider_not_provisioned",
        "signal_map_managed_by_onboarding",
        "last_owner",  # how many there are
        "too_many_invitations",
    }
)
EITHER = frozenset(
    {
        "case_not_actionable",  # its own state, or that of the case it is merged into
        "receipt_not_claimable",  # its own state, or it names another case
    }
)


def judge(status: int, error: Mapping[str, Any]) -> None:
    """Fail when an error object tells what is left where it must not, or does not where it must."""
    told = "allowed_next" in error.get("details", {})
    if status != 409:
        assert not told, error
    elif error["code"] not in EITHER:
        assert error["code"] in STATE_DECIDES | ANOTHER_DECIDES, error
        assert told == (error["code"] in STATE_DECIDES), error


def see_body(answer: httpx2.Response) -> None:
    """Judge the error of a 409 that has been read, unless it is written in the form of a foreign protocol."""
    if answer.status_code != 409 or not answer.headers.get("content-type", "").startswith("application/json"):
        return
    body = answer.json()
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, dict) and error.get("code") in CATALOGUE:
        judge(answer.status_code, error)
