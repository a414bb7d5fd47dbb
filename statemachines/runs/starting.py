"""Decisions across the streams of automation: issue a receipt, claim its case, start its run (G-104..G-106).

Each function takes plain states, a command and `now`, and returns the events that follow, by stream id. It records
nothing itself: whoever calls it holds the locks of every stream whose state it passed, and appends all of the events
or none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

from statemachines.contracts.policy import Authority, CaseTrigger, Policy, require_enabled
from statemachines.kernel.machine import Event
from statemachines.runs import claim as claims
from statemachines.runs import lease as leases
from statemachines.runs import ledger as ledgers
from statemachines.runs import receipt as receipts
from statemachines.runs import run as runs
from statemachines.runs.book import Effects, digest, merge, overdue
from statemachines.runs.claim import Claim, Holder
from statemachines.runs.events import RunStarted, Terms
from statemachines.runs.lease import Lease
from statemachines.runs.ledger import Ledger
from statemachines.runs.materiality import CaseFacts, MaterialityDecision, decide_materiality
from statemachines.runs.receipt import CaseSnapshot, Receipt, ReceiptIssued, Slot
from statemachines.runs.refusals import (
    AutomationMismatch,
    CaseAlreadyClaimed,
    CaseRevisionStale,
    ClaimRequiredForRun,
    MaterialityNotMet,
    ReceiptAlreadyConsumed,
    ReceiptExpired,
    ReceiptNotClaimable,
    ReceiptNotFound,
    ReceiptPolicySuperseded,
)
from statemachines.runs.run import Run

SkipCode = Literal[
    "materiality_not_met", "receipt_open", "case_already_claimed", "run_live", "cooldown", "budget_exhausted"
]
"""Why a case got no receipt this time."""


class Chain(NamedTuple):
    """The latest chain of a case as its lane points to it: initial states where there is none."""

    lane: Lease
    receipt: Receipt
    claim: Claim
    run: Run


class Evidence(NamedTuple):
    """What a case receipt shows beside the facts that decide: neither is an input to any decision."""

    fingerprint: str
    level: str


def occupied(chain: Chain, authority_of: Callable[[str], Authority], case: CaseFacts, now: int) -> SkipCode | None:
    """What still holds the case at `now`: a live run, a live claim, an open receipt; None when it is free.

    `authority_of` tells where any automation of the contract stands.
    """
    lane = chain.lane
    if lane.status is leases.Status.UNUSED:
        return None
    if chain.receipt.run_id is not None:
        over = not chain.run.live or overdue(chain.run, chain.claim, lane, now) is not None
        return None if over else "run_live"
    authority = authority_of(lane.automation_id)
    live = claims.lease_live(chain.claim, lane, now)
    if chain.receipt.over or receipts.settle(
        chain.receipt, authority, (case.status, case.revision), claim_live=live, now=now
    ):
        return "case_already_claimed" if live else None
    return "case_already_claimed" if chain.receipt.status is receipts.Status.CLAIMED else "receipt_open"


def judge_case(
    chain: Chain, authority_of: Callable[[str], Authority], automation_id: str, case: CaseFacts, now: int
) -> SkipCode | MaterialityDecision:
    """Judge one case for one automation: why it is passed over, or the decision that it matters (R-AUT-22, G-104).

    Raises PauseInForce, AutomationOff, AutomationNotFound.
    """
    policy = require_enabled(authority_of(automation_id))
    trigger = case_trigger(policy)
    decision = decide_materiality(case, trigger.materiality, now)
    if not decision.passed:
        return "materiality_not_met"
    if (held := occupied(chain, authority_of, case, now)) is not None:
        return held
    offered_at = chain.lane.offered_at
    if offered_at is not None and now < offered_at + trigger.cooldown_seconds:
        return "cooldown"
    attempts = chain.lane.attempts_of(automation_id, case.revision)
    return "budget_exhausted" if attempts >= policy.limits.max_attempts_per_case_revision else decision


def case_trigger(policy: Policy) -> CaseTrigger:
    """The case trigger of a policy; every policy has either this or a schedule."""
    assert policy.case_trigger is not None, "a scheduled automation was asked for cases"
    return policy.case_trigger


def issue_case_receipt(
    project_id: str,
    authority: Authority,
    lane: Lease,
    decision: MaterialityDecision,
    evidence: Evidence,
    now: int,
) -> tuple[str, Effects]:
    """Offer a case that judge_case found to matter. Returns the receipt's id and the events."""
    case, ordinal = decision.inputs, lane.ordinal + 1
    receipt_id = receipts.case_receipt_id(project_id, authority.automation_id, case.case_id, case.revision, ordinal)
    snapshot = CaseSnapshot(
        case_id=case.case_id,
        case_revision=case.revision,
        fingerprint=evidence.fingerprint,
        level=evidence.level,
        status=case.status,
        trust=case.trust,
        event_count=case.event_count,
        first_seen_at=case.first_seen_at,
        last_seen_at=case.last_seen_at,
    )
    issued = _issued(authority, receipt_id, now, now + receipts.CASE_RECEIPT_SECONDS, case=snapshot, decision=decision)
    offered = leases.LeaseOffered(case.case_id, case.revision, authority.automation_id, receipt_id, ordinal, now)
    return receipt_id, {receipt_id: [issued], leases.lease_id(project_id, case.case_id): [offered]}


def issue_schedule_receipt(
    project_id: str, authority: Authority, receipt: Receipt, scheduled_for: int, now: int
) -> tuple[str, Effects]:
    """Issue the one receipt of an open slot; a slot that has one already is left alone (R-AUT-20, P14)."""
    schedule = require_enabled(authority).schedule_trigger
    assert schedule is not None, "an automation woken by cases was asked for a slot"
    receipt_id = receipts.schedule_receipt_id(project_id, authority.automation_id, scheduled_for)
    ends = scheduled_for + schedule.start_window_seconds
    if receipt.status is not receipts.Status.ABSENT or not scheduled_for <= now < ends:
        return receipt_id, {}
    slot = Slot(scheduled_for, ends, scheduled_for - schedule.period_days * 86400, scheduled_for)
    return receipt_id, {receipt_id: [_issued(authority, receipt_id, now, ends, slot=slot)]}


def _issued(
    authority: Authority,
    receipt_id: str,
    now: int,
    expires_at: int,
    *,
    case: CaseSnapshot | None = None,
    slot: Slot | None = None,
    decision: MaterialityDecision | None = None,
) -> ReceiptIssued:
    policy = require_enabled(authority)
    snapshot = {
        "receipt_id": receipt_id,
        "automation_id": authority.automation_id,
        "policy_sha256": authority.policy_sha256,
        "contract_revision": authority.contract_revision,
        "case": case,
        "schedule": slot,
        "materiality": decision,
        "issued_at": now,
        "expires_at": expires_at,
    }
    return ReceiptIssued(
        receipt_kind="unhandled_case" if slot is None else "schedule",
        automation_id=authority.automation_id,
        playbook=policy.playbook,
        policy_sha256=authority.policy_sha256,
        contract_revision=authority.contract_revision,
        generation=authority.generation,
        case=case,
        slot=slot,
        materiality=decision,
        snapshot_sha256=digest(snapshot),
        issued_at=now,
        expires_at=expires_at,
    )


class ClaimCase(msgspec.Struct, frozen=True, kw_only=True):
    """A runner's wish to hold the exact revision of a case."""

    project_id: str
    case_id: str
    receipt_id: str
    case_revision: int
    holder: Holder


class Release(NamedTuple):
    """A wish to end a claim: the runner with its epoch, or an owner (`holder` None), with a reason."""

    holder: Holder | None
    lease_epoch: int | None
    reason: str | None


def require_own(automation_id: str, holder: Holder) -> None:
    """Refuse a runner that reaches for another automation. Raises AutomationMismatch (R-AUT-55)."""
    if automation_id != holder.automation_id:
        raise AutomationMismatch(
            "The credential belongs to another automation.", next_action="Use the credential of this automation."
        )


def claim_case(
    command: ClaimCase,
    *,
    receipt: Receipt,
    lane: Lease,
    current: Claim,
    authority: Authority,
    case: CaseFacts,
    now: int,
) -> tuple[str, Effects]:
    """Claim the case of an open receipt (G-105). Returns the claim's id, and no events when the caller holds it.

    `current` is the claim that the receipt or the lane names. Raises ReceiptNotFound, AutomationMismatch,
    PauseInForce, AutomationOff, ReceiptExpired, ReceiptPolicySuperseded, CaseRevisionStale,
    CaseAlreadyClaimed, ReceiptNotClaimable.
    """
    if receipt.status is receipts.Status.ABSENT:
        raise ReceiptNotFound("There is no such receipt.", next_action="List the trigger receipts of the project.")
    require_own(receipt.automation_id, command.holder)
    if receipt.case is None or receipt.case.case_id != command.case_id:
        raise ReceiptNotClaimable("The receipt is not for this case.", next_action="Read the receipt's detail.")
    held = claims.lease_live(current, lane, now)
    if held and (current.receipt_id, current.runner_id) == (command.receipt_id, command.holder.runner_id):
        return claims.claim_id(command.project_id, command.case_id, current.lease_epoch), {}
    require_enabled(authority)
    _require_standing(receipt, authority, case, held=held, now=now)
    if command.case_revision != case.revision:
        raise _stale_case()
    if held:
        raise CaseAlreadyClaimed("Another claim holds the case.", next_action="Wait until that claim has ended.")
    if receipt.status is not receipts.Status.ISSUED or lane.receipt_id != command.receipt_id:
        raise ReceiptNotClaimable("The receipt cannot be claimed.", next_action="Wait for a new receipt for this case.")
    epoch = lane.epoch + 1
    claim_id = claims.claim_id(command.project_id, command.case_id, epoch)
    created = claims.ClaimCreated(
        case_id=command.case_id,
        case_revision=case.revision,
        automation_id=receipt.automation_id,
        runner_id=command.holder.runner_id,
        receipt_id=command.receipt_id,
        lease_epoch=epoch,
        claimed_at=now,
        lease_expires_at=now + claims.LEASE_SECONDS,
    )
    return claim_id, {
        command.receipt_id: [receipts.ReceiptClaimed(claim_id, now)],
        leases.lease_id(command.project_id, command.case_id): [leases.LeaseTaken(claim_id, epoch, now)],
        claim_id: [created],
    }


def _stale_case() -> CaseRevisionStale:
    return CaseRevisionStale(
        "The case is no longer at this revision.", next_action="Wait for a new receipt for the case as it is now."
    )


def _require_standing(receipt: Receipt, authority: Authority, case: CaseFacts, *, held: bool, now: int) -> None:
    """Refuse a receipt that time or the world has ended, whether or not that is recorded yet."""
    state = receipt
    for event in receipts.settle(receipt, authority, (case.status, case.revision), claim_live=held, now=now):
        state = receipts.evolve(state, event)
    match state.status, state.cause:
        case receipts.Status.EXPIRED, _:
            raise ReceiptExpired("The receipt has expired.", next_action="Wait for a new receipt.")
        case receipts.Status.INVALIDATED, "authority_withdrawn":
            raise ReceiptPolicySuperseded(
                "The contract has changed since the receipt was issued.", next_action="Wait for a new receipt."
            )
        case receipts.Status.INVALIDATED, "case_left_open" | "case_revision_moved":
            raise _stale_case()
        case receipts.Status.INVALIDATED | receipts.Status.CLOSED | receipts.Status.CONSUMED, _:
            raise ReceiptNotClaimable("The receipt is over.", next_action="Wait for a new receipt for this case.")


def release_claim(claim_id: str, claim: Claim, receipt: Receipt, lane: Lease, release: Release, now: int) -> Effects:
    """Give a claim back, and close its receipt when no run began under it. Raises what decide_release raises."""
    released = claims.decide_release(claim, lane, release.holder, release.lease_epoch, release.reason, now)
    return merge({claim_id: released, claim.receipt_id: _close(receipt, claim_id, now)})


def settle_claim(claim_id: str, claim: Claim, receipt: Receipt, lane: Lease, now: int) -> Effects:
    """What time has made of a claim and the receipt under it by `now`."""
    expired = claims.settle(claim, lane, now)
    return merge({claim_id: expired, claim.receipt_id: _close(receipt, claim_id, now)}) if expired else {}


def _close(receipt: Receipt, claim_id: str, now: int) -> list[Event]:
    open_under_it = receipt.status is receipts.Status.CLAIMED and receipt.claim_id == claim_id
    return [receipts.ReceiptClosed("claim_ended", now)] if open_under_it else []


class StartRun(msgspec.Struct, frozen=True, kw_only=True):
    """A runner's wish to begin the one run of a receipt (R-AUT-27)."""

    project_id: str
    receipt_id: str
    holder: Holder


def start_run(
    command: StartRun,
    *,
    receipt: Receipt,
    claim: Claim,
    lane: Lease,
    ledger: Ledger,
    authority: Authority,
    case: CaseFacts | None,
    now: int,
) -> tuple[str, Effects]:
    """Consume the receipt, create the run, open its account and charge run and attempt, as one (R-AUT-28).

    `case` is None for a schedule. Raises ReceiptNotFound, AutomationMismatch, ReceiptAlreadyConsumed,
    PauseInForce, AutomationOff, ReceiptExpired, ReceiptPolicySuperseded, CaseRevisionStale,
    ClaimRequiredForRun, MaterialityNotMet (details hold the decision), BudgetExhausted.
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
        return _start_scheduled(command, receipt, policy, ledger, now)
    held = claims.lease_live(claim, lane, now) and claim.receipt_id == command.receipt_id
    if receipt.status is receipts.Status.ISSUED or not held or claim.runner_id != command.holder.runner_id:
        raise ClaimRequiredForRun(
            "A run of a case begins under the caller's own live claim.",
            next_action="Claim the case of the receipt first.",
        )
    _require_standing(receipt, authority, case, held=held, now=now)
    decision = decide_materiality(case, case_trigger(policy).materiality, now)
    if not decision.passed:
        raise MaterialityNotMet(
            "The case no longer meets the policy's thresholds.",
            next_action="Wait for a new receipt.",
            decision=decision,
            checks=[{"check": check.check, "passed": check.passed} for check in decision.checks],
        )
    attempts, limit = (
        lane.attempts_of(receipt.automation_id, case.revision),
        policy.limits.max_attempts_per_case_revision,
    )
    if attempts >= limit:
        raise ledgers.exhausted("max_attempts_per_case_revision", limit, attempts, 1, None)
    run_id, effects = _begin(command, receipt, policy, ledger, claim, decision, now)
    spent = leases.LeaseSpent(run_id, receipt.automation_id, case.revision, now)
    effects[leases.lease_id(command.project_id, case.case_id)] = [spent]
    bound = claims.ClaimBound(run_id, now + policy.limits.max_runtime_seconds)
    effects[claims.claim_id(command.project_id, case.case_id, claim.lease_epoch)] = [bound]
    return run_id, effects


def _start_scheduled(
    command: StartRun, receipt: Receipt, policy: Policy, ledger: Ledger, now: int
) -> tuple[str, Effects]:
    if receipt.status is receipts.Status.EXPIRED or now >= receipt.expires_at:
        raise ReceiptExpired("The receipt has expired.", next_action="Wait for the receipt of the next slot.")
    if receipt.status is not receipts.Status.ISSUED:
        raise ReceiptNotClaimable("The receipt is over.", next_action="Wait for the receipt of the next slot.")
    return _begin(command, receipt, policy, ledger, None, None, now)


def _begin(
    command: StartRun,
    receipt: Receipt,
    policy: Policy,
    ledger: Ledger,
    claim: Claim | None,
    decision: MaterialityDecision | None,
    now: int,
) -> tuple[str, Effects]:
    run_id = runs.run_id(command.project_id, command.receipt_id)
    started = RunStarted(
        automation_id=receipt.automation_id,
        policy_sha256=receipt.policy_sha256,
        terms=Terms(
            playbook=policy.playbook,
            limits=policy.limits,
            delivery=policy.delivery,
            verification=policy.verification,
            repository=policy.repository,
            base_branch=policy.default_branch,
            environment=policy.environment,
        ),
        receipt_id=command.receipt_id,
        case_id=None if claim is None else claim.case_id,
        case_revision=None if claim is None else claim.case_revision,
        claim_id=receipt.claim_id,
        runner_id=command.holder.runner_id,
        lease_epoch=1 if claim is None else claim.lease_epoch,
        started_at=now,
        deadline_at=now + policy.limits.max_runtime_seconds,
    )
    return run_id, {
        command.receipt_id: [receipts.ReceiptConsumed(run_id, decision, now)],
        ledgers.ledger_id(command.project_id, receipt.automation_id): ledgers.decide_charge_run(
            ledger, policy.limits, run_id, now
        ),
        run_id: [started],
    }
