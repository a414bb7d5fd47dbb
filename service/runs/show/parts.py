"""What clients see of receipts, claims, requests and grants, as they truly stand now (G-104, G-105, G-108, G-109).

Every `next_action` is one of the fixed sentences below. Nothing that telemetry, a provider or a
runner wrote is ever part of one (R-GEN-13, threat 14).
"""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec

from schemas.runs import approval as approval_wire
from schemas.runs import approval as grant_wire
from schemas.runs import receipt as claim_wire
from schemas.runs import receipt as trigger_wire
from statemachines.runs import grant as grants
from statemachines.runs import receipt as receipts
from statemachines.runs.approval import Approval
from statemachines.runs.claim import Claim
from statemachines.runs.claim import Status as ClaimStatus
from statemachines.runs.grant import Grant
from statemachines.runs.receipt import ReceiptState
from statemachines.runs.steps.book import Book

_RECEIPT_NEXT = {
    receipts.Status.ISSUED: "Claim the case of this receipt at its case_revision, then start the run.",
    receipts.Status.CLAIMED: "The claiming runner starts the run with this receipt.",
    receipts.Status.CONSUMED: "Read the run that consumed_run_id names.",
}
_RECEIPT_OVER = "Nothing can begin from this receipt. Wait for a new one."
_SLOT_NEXT = "Start the run with this receipt before expires_at."
_CLAIM_NEXT = "Renew before lease_expires_at, and start the run with the receipt."
_CLAIM_RUNNING = "Renew before lease_expires_at while its run goes on, up to the deadline of the run."
_CLAIM_OVER = "The claim has ended. Wait for a new receipt for this case."
_APPROVAL_NEXT = {
    "pending": "An owner decides with approve or reject before expires_at. The run rests until its runner is back, "
    "at most 24 hours after the decision."
}
_APPROVAL_OVER = "Read the run for its next step."
_GRANT_NEXT = {
    grants.Status.AUTHORIZED: "Consume the grant before expires_at, then call the provider once.",
    grants.Status.CONSUMED: "The provider may have been called: look there for the result, and let CI prove it.",
    grants.Status.UNRESOLVED: "Inspect the provider. CI can still prove the result.",
}
_CALL_NOW = "Call the provider once, now. A CI credential proves the result."
RECONCILE = "Do not call the provider again. Check the result of the first call there, and let CI prove it."
_GRANT_OVER = "The grant is over."
_GRANT_TOO_LATE = "The grant cannot be consumed any more: the lease or the deadline of the run has passed."


def receipt(project_id: str, receipt_id: str, state: ReceiptState, title: str | None) -> trigger_wire.TriggerReceipt:
    """Show a receipt as it stands now. `title` is the evidence kept beside it."""
    case, slot, decision = state.case, state.slot, state.issued_materiality
    following = _SLOT_NEXT if slot is not None and state.status is receipts.Status.ISSUED else None
    return trigger_wire.TriggerReceipt(
        receipt_id=receipt_id,
        project_id=project_id,
        automation_id=state.automation_id,
        kind=state.kind,
        status=cast("trigger_wire.ReceiptStatus", state.status.value),
        policy_sha256=state.policy_sha256,
        contract_revision=state.contract_revision,
        issued_at=state.issued_at,
        expires_at=state.expires_at,
        case=None
        if case is None
        else msgspec.convert({**msgspec.structs.asdict(case), "title": title}, trigger_wire.ReceiptCase),
        schedule=None if slot is None else msgspec.convert(msgspec.structs.asdict(slot), trigger_wire.ReceiptSchedule),
        materiality=None
        if decision is None
        else trigger_wire.ReceiptMateriality(
            minimum_event_count=decision.thresholds.minimum_event_count,
            maximum_last_seen_age_seconds=decision.thresholds.maximum_last_seen_age_seconds,
            age_seconds=decision.age_seconds,
        ),
        claim_id=state.claim_id,
        consumed_run_id=state.run_id,
        snapshot_sha256=state.snapshot_sha256,
        next_action=following or _RECEIPT_NEXT.get(state.status, _RECEIPT_OVER),
        origins=trigger_wire.RECEIPT_ORIGINS,
    )


def claim(project_id: str, claim_id: str, state: Claim) -> claim_wire.Claim:
    """Show a claim as it stands now."""
    return claim_wire.Claim(
        claim_id=claim_id,
        project_id=project_id,
        case_id=state.case_id,
        case_revision=state.case_revision,
        automation_id=state.automation_id,
        runner_id=state.runner_id,
        trigger_receipt_id=state.receipt_id,
        status=cast("Literal['active']", state.status.value),
        lease_epoch=state.lease_epoch,
        lease_expires_at=state.lease_expires_at,
        claimed_at=state.claimed_at,
        renewed_at=state.renewed_at,
        released_at=state.released_at,
        run_id=state.run_id,
        next_action=_claim_next(state),
        origins=claim_wire.CLAIM_ORIGINS,
    )


def _claim_next(state: Claim) -> str:
    if state.status is not ClaimStatus.ACTIVE:
        return _CLAIM_OVER
    return _CLAIM_NEXT if state.run_id is None else _CLAIM_RUNNING


def approval(project_id: str, approval_id: str, state: Approval) -> approval_wire.Approval:
    """Show a request as it stands now."""
    evidence = None if state.evidence_json is None else msgspec.json.decode(state.evidence_json)
    return approval_wire.Approval(
        approval_id=approval_id,
        project_id=project_id,
        run_id=state.run_id,
        automation_id=state.automation_id,
        action=state.action,
        summary=state.summary,
        evidence=evidence,
        status=cast("approval_wire.ApprovalStatus", state.status.value),
        requested_at=state.requested_at,
        expires_at=state.expires_at,
        decided_at=state.decided_at,
        decided_by=state.decided_by,
        reason=state.reason,
        next_action=_APPROVAL_NEXT.get(state.status.value, _APPROVAL_OVER),
        origins=approval_wire.APPROVAL_ORIGINS,
    )


def requested_approval(book: Book, approval_id: str) -> approval_wire.RequestedApproval:
    """Show a request to the runner that made it, with the revision that its next command names."""
    shown = approval(book.project_id, approval_id, book.approval(approval_id))
    members = {name: getattr(shown, name) for name in shown.__struct_fields__}
    members |= {"state_revision": book.run.state_revision, "origins": approval_wire.REQUESTED_ORIGINS}
    return approval_wire.RequestedApproval(**members)


def _grant(project_id: str, grant_id: str, state: Grant) -> dict[str, Any]:
    bound = state.draft_pr if state.draft_pr is not None else state.auto_merge
    return {
        "grant_id": grant_id,
        "project_id": project_id,
        "run_id": state.run_id,
        "automation_id": state.automation_id,
        "kind": state.kind,
        "status": state.status.value,
        "binding": msgspec.convert(msgspec.to_builtins(bound), grant_wire.GrantBinding),
        "approval_id": state.approval_id,
        "authorized_at": state.authorized_at,
        "expires_at": state.expires_at,
        "consumed_at": state.consumed_at,
        "settled_at": state.settled_at,
        "state_revision": state.state_revision,
        "next_action": _GRANT_NEXT.get(state.status, _GRANT_OVER),
        "origins": grant_wire.GRANT_ORIGINS,
    }


def grant(project_id: str, grant_id: str, state: Grant, *, too_late: bool = False) -> grant_wire.Grant:
    """Show a grant as it stands now. `too_late`: nobody may act under the lease or deadline of its run any more."""
    members = _grant(project_id, grant_id, state)
    if too_late and state.status is grants.Status.AUTHORIZED:
        members["next_action"] = _GRANT_TOO_LATE
    return grant_wire.Grant(**members)


def consumed(book: Book, grant_id: str, *, call_authorized: bool) -> grant_wire.ConsumedGrant:
    """Answer a call-start (R-AUT-32)."""
    members = _grant(book.project_id, grant_id, book.grant(grant_id))
    members |= {"state_revision": book.run.state_revision, "origins": grant_wire.CONSUMED_ORIGINS}
    if call_authorized:
        members["next_action"] = _CALL_NOW
    elif book.grant(grant_id).status is not grants.Status.SETTLED:
        members["next_action"] = RECONCILE
    return grant_wire.ConsumedGrant(**members, call_authorized=call_authorized, reconcile_only=not call_authorized)
