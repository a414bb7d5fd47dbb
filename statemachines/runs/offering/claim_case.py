"""Taking the case of a receipt, and giving it back: receipt, lease and claim in one unit (G-105).

Like every decision across streams it takes plain states and `now`, and returns the events by stream id.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from statemachines.contracts.policy import Authority, require_enabled
from statemachines.kernel.machine import Event
from statemachines.runs import claim as claims
from statemachines.runs import end_lease
from statemachines.runs import lease as leases
from statemachines.runs import receipt as receipts
from statemachines.runs.claim import Claim, Holder, require_own
from statemachines.runs.lease import CaseAlreadyClaimed, Lease
from statemachines.runs.materiality import CaseFacts, MaterialityDecision, require_material
from statemachines.runs.offering.issue_receipt import case_trigger
from statemachines.runs.receipt import (
    CaseRevisionStale,
    ReceiptNotClaimable,
    ReceiptNotFound,
    ReceiptOfAnotherCase,
    ReceiptState,
    require_standing,
    stale_case,
)
from statemachines.runs.refusals import difference
from statemachines.runs.steps.book import Effects, merge


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


class CaseClaimed(NamedTuple):
    """A claim that its runner holds. A repeat of it has no decision and no events."""

    claim_id: str
    decision: MaterialityDecision | None
    effects: Effects


def claim_case(
    command: ClaimCase,
    *,
    receipt: ReceiptState,
    lease: Lease,
    current: Claim,
    authority: Authority,
    case: CaseFacts,
    now: int,
) -> CaseClaimed:
    """Claim the case of an open receipt (G-105), if it still matters enough (G-188).

    `current` is the claim that the receipt or the lease names. Raises ReceiptNotFound, AutomationMismatch,
    PauseInForce, AutomationOff, ReceiptOver, ReceiptPolicySuperseded, CaseRevisionStale,
    CaseAlreadyClaimed, ReceiptNotClaimable, ReceiptOfAnotherCase, MaterialityNotMet (details hold the checks).
    """
    if receipt.status is receipts.Status.ABSENT:
        raise ReceiptNotFound("There is no such receipt.", next_action="List the trigger receipts of the project.")
    require_own(receipt.automation_id, command.holder)
    if receipt.case is None or receipt.case.case_id != command.case_id:
        raise ReceiptOfAnotherCase(
            "The receipt is not for this case.", next_action=("Read the receipt, which names its case.")
        )
    held = claims.lease_live(current, lease, now)
    if held and (current.receipt_id, current.runner_id) == (command.receipt_id, command.holder.runner_id):
        if command.case_revision != current.case_revision:
            raise CaseRevisionStale(
                "The claim holds the case at another revision.",
                next_action="Read the active claim of the case, and continue with its revision.",
                **difference("case_revision", current.case_revision, command.case_revision),
            )
        claim_id = claims.claim_id(command.project_id, command.case_id, current.lease_epoch)
        return CaseClaimed(claim_id, None, {})
    policy = require_enabled(authority)
    require_standing(receipt, authority, case, held=held, now=now)
    if command.case_revision != case.revision:
        raise stale_case()
    if held:
        raise CaseAlreadyClaimed("Another claim holds the case.", next_action="Wait until that claim has ended.")
    if receipt.status is not receipts.Status.ISSUED or lease.receipt_id != command.receipt_id:
        raise ReceiptNotClaimable("The receipt cannot be claimed.", next_action="Wait for a new receipt for this case.")
    decision = require_material(case, case_trigger(policy).materiality, now)
    epoch = lease.epoch + 1
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
    effects: Effects = {
        command.receipt_id: [receipts.ReceiptClaimed(claim_id, now)],
        leases.lease_id(command.project_id, command.case_id): [leases.LeaseTaken(claim_id, epoch, now)],
        claim_id: [created],
    }
    return CaseClaimed(claim_id, decision, effects)


def release_claim(
    claim_id: str, claim: Claim, receipt: ReceiptState, lease: Lease, release: Release, now: int
) -> Effects:
    """Release a claim, and close its receipt when no run began under it. Raises what decide_release raises."""
    released = end_lease.decide_release(claim, lease, release.holder, release.lease_epoch, release.reason, now)
    return merge({claim_id: released, claim.receipt_id: _close(receipt, claim_id, now)})


def settle_claim(claim_id: str, claim: Claim, receipt: ReceiptState, lease: Lease, now: int) -> Effects:
    """What time has made of a claim and the receipt under it by `now`."""
    expired = end_lease.settle(claim, lease, now)
    return merge({claim_id: expired, claim.receipt_id: _close(receipt, claim_id, now)}) if expired else {}


def _close(receipt: ReceiptState, claim_id: str, now: int) -> list[Event]:
    open_under_it = receipt.status is receipts.Status.CLAIMED and receipt.claim_id == claim_id
    return [receipts.ReceiptClosed("claim_ended", now)] if open_under_it else []
