"""Every refusal of automation execution, in one closed list: codes of G-006, statuses in schemas/kernel/errors.py.

Messages are fixed sentences: nothing that a caller, a runner or telemetry wrote is ever part of one (threat 14).
"""

from __future__ import annotations

from typing import Any

from statemachines.kernel.machine import Rejection


class AutomationMismatch(Rejection):
    """A runner reached for another automation than its own (R-AUTH-11, R-AUT-55)."""

    code = "automation_mismatch"


class ClaimRequired(Rejection):
    """The caller is not the runner that holds the claim (R-CASE-14)."""

    code = "claim_required"


class ReceiptNotFound(Rejection):
    """There is no such receipt."""

    code = "trigger_receipt_not_found"


class ReceiptNotClaimable(Rejection):
    """The receipt is claimed, closed, invalidated, or needs no claim."""

    code = "receipt_not_claimable"


class ReceiptAlreadyConsumed(Rejection):
    """The receipt already started its one run; `details.run_id` names it (R-AUT-28, R-AUT-29)."""

    code = "receipt_already_consumed"


class ReceiptExpired(Rejection):
    """The receipt's time is over."""

    code = "receipt_expired"


class ReceiptPolicySuperseded(Rejection):
    """The contract changed since the receipt was issued (G-105)."""

    code = "receipt_policy_superseded"


class MaterialityNotMet(Rejection):
    """The case no longer satisfies the policy's thresholds (R-AUT-22). `decision` is the record that says so."""

    code = "materiality_not_met"

    def __init__(self, message: str, *, decision: Any, next_action: str, **details: Any) -> None:
        super().__init__(message, next_action=next_action, **details)
        self.decision = decision


class CaseRevisionStale(Rejection):
    """The case moved past the revision that was asked for (R-AUT-25)."""

    code = "case_revision_stale"


class CaseAlreadyClaimed(Rejection):
    """Another claim holds the case (G-105)."""

    code = "case_already_claimed"


class ClaimRequiredForRun(Rejection):
    """A case receipt starts a run only for the runner whose claim on it is live (G-106)."""

    code = "claim_required_for_run"


class ClaimNotFound(Rejection):
    """There is no such claim."""

    code = "claim_not_found"


class ClaimNotActive(Rejection):
    """The claim was released, completed or revoked."""

    code = "claim_not_active"


class StaleLeaseEpoch(Rejection):
    """The command carries another lease epoch than the live one (R-AUT-30)."""

    code = "stale_lease_epoch"


class LeaseExpired(Rejection):
    """Time ended the lease (R-AUT-30)."""

    code = "lease_expired"


class StaleStateRevision(Rejection):
    """The command carries another state revision than the run's; `details.current_state_revision` (R-AUT-30)."""

    code = "stale_state_revision"


class RunNotFound(Rejection):
    """There is no such run."""

    code = "run_not_found"


class RunTransitionNotAllowed(Rejection):
    """The run's phase does not allow this (G-106)."""

    code = "run_transition_not_allowed"


class RunTerminal(Rejection):
    """The run is over (G-106)."""

    code = "run_terminal"


class DeadlineExceeded(Rejection):
    """The run's deadline passed (G-109)."""

    code = "deadline_exceeded"


class BudgetExhausted(Rejection):
    """A budget would be exceeded; details name it, its limit, use and reset (G-107)."""

    code = "budget_exhausted"


class ApprovalNotFound(Rejection):
    """There is no such approval."""

    code = "approval_not_found"


class ApprovalPending(Rejection):
    """A person has not decided yet (G-108)."""

    code = "approval_pending"


class ApprovalRejected(Rejection):
    """A person said no to this action in this run, or let the request expire (G-108)."""

    code = "approval_rejected"


class ApprovalAlreadyDecided(Rejection):
    """The approval has another outcome already (G-108)."""

    code = "approval_already_decided"


class ScopeViolation(Rejection):
    """The change leaves the approved bounds; `details.violations` lists every rule broken (G-109)."""

    code = "scope_violation"


class GrantNotAvailable(Rejection):
    """The grant is expired, revoked or belongs to another run (G-109)."""

    code = "grant_not_available"


class GrantAlreadyAuthorized(Rejection):
    """The run has a live grant for another change (G-109)."""

    code = "grant_already_authorized"


class DeliveryModeMismatch(Rejection):
    """The policy delivers code another way (G-109)."""

    code = "delivery_mode_mismatch"


class PrProofRequired(Rejection):
    """An earlier observation has to be proven first (G-110)."""

    code = "pr_proof_required"


class PrProofMismatch(Rejection):
    """The observation does not match what was granted (G-110)."""

    code = "pr_proof_mismatch"


class DeployNotBound(Rejection):
    """No trusted deploy of the proven commit is bound to the run (G-111)."""

    code = "deploy_not_bound"


class Moved(Exception):
    """What a handler looked up is no longer what the locked states say: look up again. Never shown to a client."""
