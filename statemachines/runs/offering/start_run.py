"""Starting the one run of a receipt: receipt, claim, lease, ledger and run in one unit (G-106, R-AUT-27, R-AUT-28).

Like every decision across streams it takes plain states and `now`, and returns the events by stream id.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from statemachines.contracts.policy import Authority, Policy, require_enabled
from statemachines.kernel.machine import Rejection
from statemachines.reports.source import FunnelPlan, plan_of
from statemachines.runs import claim as claims
from statemachines.runs import lease as leases
from statemachines.runs import ledger as ledgers
from statemachines.runs import receipt as receipts
from statemachines.runs import run as runs
from statemachines.runs.claim import Claim, Holder, require_own
from statemachines.runs.events import RunStarted, Terms
from statemachines.runs.lease import Lease
from statemachines.runs.ledger import Ledger
from statemachines.runs.materiality import CaseFacts, MaterialityDecision, require_material
from statemachines.runs.offering.issue_receipt import case_trigger
from statemachines.runs.receipt import (
    ReceiptAlreadyConsumed,
    ReceiptNotClaimable,
    ReceiptNotFound,
    ReceiptOver,
    ReceiptPolicySuperseded,
    ReceiptState,
    require_standing,
)
from statemachines.runs.steps.book import Effects


class ClaimRequiredForRun(Rejection):
    """A case receipt starts a run only for the runner whose claim on it is live (G-106)."""

    code = "claim_required_for_run"


class StartRun(msgspec.Struct, frozen=True, kw_only=True):
    """A runner's wish to begin the one run of a receipt (R-AUT-27)."""

    project_id: str
    receipt_id: str
    holder: Holder


def start_run(
    command: StartRun,
    *,
    receipt: ReceiptState,
    claim: Claim,
    lease: Lease,
    ledger: Ledger,
    authority: Authority,
    case: CaseFacts | None,
    mapped: str | None = None,
    now: int,
) -> tuple[str, Effects]:
    """Consume the receipt, create the run, open its account and charge run and attempt, as one (R-AUT-28).

    `case` is None for a schedule; `mapped` is the environment of the approved signal map, which holds where the policy
    names none (G-134). Raises ReceiptNotFound, AutomationMismatch, ReceiptAlreadyConsumed, PauseInForce, AutomationOff,
    ReceiptOver, ReceiptPolicySuperseded, CaseRevisionStale, ClaimRequiredForRun, MaterialityNotMet (details hold the
    decision), BudgetExhausted.
    """
    if receipt.status is receipts.Status.ABSENT:
        raise ReceiptNotFound("There is no such receipt.", next_action="List the trigger receipts of the project.")
    require_own(receipt.automation_id, command.holder)
    if receipt.status is receipts.Status.CONSUMED:
        raise ReceiptAlreadyConsumed(
            "The receipt has started its run already.", next_action="Read the run it names.", run_id=receipt.run_id
        )
    policy = require_enabled(authority)
    if not authority.upholds(receipt.generation):
        raise ReceiptPolicySuperseded(
            "The contract has changed since the receipt was issued.", next_action="Wait for a new receipt."
        )
    if case is None:
        return _start_scheduled(command, receipt, policy, ledger, mapped, now)
    held = claims.lease_live(claim, lease, now) and claim.receipt_id == command.receipt_id
    if receipt.status is receipts.Status.ISSUED or not held or claim.runner_id != command.holder.runner_id:
        raise ClaimRequiredForRun(
            "A run of a case begins under the caller's own live claim.",
            next_action="Claim the case of the receipt first.",
        )
    require_standing(receipt, authority, case, held=held, now=now)
    decision = require_material(case, case_trigger(policy).materiality, now)
    attempts, limit = (
        lease.attempts_of(receipt.automation_id, case.revision),
        policy.limits.max_attempts_per_case_revision,
    )
    if attempts >= limit:
        raise ledgers.exhausted("max_attempts_per_case_revision", limit, attempts, 1, None)
    run_id, effects = _begin(command, receipt, _terms(policy, mapped), ledger, claim, decision, now)
    spent = leases.LeaseSpent(run_id, receipt.automation_id, case.revision, now)
    effects[leases.lease_id(command.project_id, case.case_id)] = [spent]
    bound = claims.ClaimBound(run_id, now + policy.limits.max_runtime_seconds)
    effects[claims.claim_id(command.project_id, case.case_id, claim.lease_epoch)] = [bound]
    return run_id, effects


def _start_scheduled(
    command: StartRun, receipt: ReceiptState, policy: Policy, ledger: Ledger, mapped: str | None, now: int
) -> tuple[str, Effects]:
    if receipt.status is receipts.Status.EXPIRED or now >= receipt.expires_at:
        raise ReceiptOver("The receipt has expired.", next_action="Wait for the receipt of the next slot.")
    if receipt.status is not receipts.Status.ISSUED:
        raise ReceiptNotClaimable("The receipt is over.", next_action="Wait for the receipt of the next slot.")
    return _begin(command, receipt, _terms(policy, mapped, _review(policy, receipt)), ledger, None, None, now)


def _review(policy: Policy, receipt: ReceiptState) -> FunnelPlan | UnsetType:
    """What the report is about: the policy's events over the period of the receipt's slot, and the one before it."""
    plan, slot = policy.review, receipt.slot
    if plan is None or slot is None:
        return UNSET
    return plan_of(plan.events, plan.minimum_sample_size, slot.period_start, slot.period_end)


def _terms(policy: Policy, mapped: str | None, review: FunnelPlan | UnsetType = UNSET) -> Terms:
    """The part of the policy that the run is held to."""
    return Terms(
        playbook=policy.playbook,
        limits=policy.limits,
        delivery=policy.delivery,
        verification=policy.verification,
        repository=policy.repository,
        base_branch=policy.default_branch,
        environment=policy.place(mapped),
        scope=policy.scope,
        review=review,
    )


def _begin(
    command: StartRun,
    receipt: ReceiptState,
    terms: Terms,
    ledger: Ledger,
    claim: Claim | None,
    decision: MaterialityDecision | None,
    now: int,
) -> tuple[str, Effects]:
    run_id = runs.run_id(command.project_id, command.receipt_id)
    started = RunStarted(
        automation_id=receipt.automation_id,
        policy_sha256=receipt.policy_sha256,
        terms=terms,
        receipt_id=command.receipt_id,
        case_id=None if claim is None else claim.case_id,
        case_revision=None if claim is None else claim.case_revision,
        claim_id=receipt.claim_id,
        runner_id=command.holder.runner_id,
        lease_epoch=1 if claim is None else claim.lease_epoch,
        started_at=now,
        deadline_at=now + terms.limits.max_runtime_seconds,
    )
    return run_id, {
        command.receipt_id: [receipts.ReceiptConsumed(run_id, decision, now)],
        ledgers.ledger_id(command.project_id, receipt.automation_id): ledgers.decide_charge_run(
            ledger, terms.limits, run_id, now
        ),
        run_id: [started],
    }
