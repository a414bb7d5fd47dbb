"""A claim: one runner's hold on the exact revision of a case, for a time (G-105, R-AUT-25, R-AUT-26, R-AUT-30).

Rivals for a case are kept apart by the lease of the case (lease.py); this stream is the history of one claim. Its id is
made from the case and the lease epoch. It ends here: by release, by time, with its run, or by being revoked; and it is
over the moment its time is, or its case was offered anew, recorded or not.
"""

from enum import Enum
from typing import Any, NamedTuple

import msgspec

from statemachines.contracts.policy import Authority, require_enabled
from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)
from statemachines.runs.lease import Lease
from statemachines.runs.refusals import AutomationMismatch, DeadlineExceeded

LEASE_SECONDS = 900


def claim_id(project_id: str, case_id: str, lease_epoch: int) -> str:
    """Id of the claim that opened a lease epoch of a case."""
    return derived_id("claim", project_id, case_id, str(lease_epoch))


def stream(project_id: str, claim_id: str) -> Stream:
    """Name the history of a claim."""
    return Stream(MACHINE, project_id, claim_id)


class Status(Enum):
    """Where a claim stands."""

    ABSENT = "absent"
    ACTIVE = "active"
    RELEASED = "released"
    EXPIRED = "expired"
    COMPLETED = "completed"
    REVOKED = "revoked"


class ClaimCreated(Event, frozen=True, kw_only=True):
    """A runner holds the case at this revision until the lease expires."""

    TOPIC = "claim.created.v1"
    case_id: str
    case_revision: int
    automation_id: str
    runner_id: str
    receipt_id: str
    lease_epoch: int
    claimed_at: int
    lease_expires_at: int


class ClaimBound(Event, frozen=True):
    """The claim's run began; renewals end at its deadline."""

    TOPIC = "claim.bound.v1"
    run_id: str
    deadline_at: int


class ClaimRenewed(Event, frozen=True):
    """The lease was extended; its epoch stays."""

    TOPIC = "claim.renewed.v1"
    renewed_at: int
    lease_expires_at: int


class ClaimRested(Event, frozen=True):
    """A review of the run moved lease and deadline, and they rest, or run on from a rest (G-185)."""

    TOPIC = "claim.rested.v1"
    lease_expires_at: int
    deadline_at: int
    resting: bool
    at: int


class ClaimReleased(Event, frozen=True):
    """The runner or an owner gave the claim back."""

    TOPIC = "claim.released.v1"
    reason: str | None
    released_at: int


class ClaimExpired(Event, frozen=True):
    """The lease ended by time."""

    TOPIC = "claim.expired.v1"
    expired_at: int


class ClaimCompleted(Event, frozen=True):
    """The run of the claim is over."""

    TOPIC = "claim.completed.v1"
    completed_at: int


class ClaimRevoked(Event, frozen=True):
    """The run was cancelled, or the project is being deleted."""

    TOPIC = "claim.revoked.v1"
    revoked_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [ClaimCreated.TOPIC, Status.ABSENT, Status.ACTIVE],
        [ClaimBound.TOPIC, Status.ACTIVE, Status.ACTIVE],
        [ClaimRenewed.TOPIC, Status.ACTIVE, Status.ACTIVE],
        [ClaimRested.TOPIC, Status.ACTIVE, Status.ACTIVE],
        [ClaimReleased.TOPIC, Status.ACTIVE, Status.RELEASED],
        [ClaimExpired.TOPIC, Status.ACTIVE, Status.EXPIRED],
        [ClaimCompleted.TOPIC, Status.ACTIVE, Status.COMPLETED],
        [ClaimRevoked.TOPIC, Status.ACTIVE, Status.REVOKED],
    ],
)


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The state for decisions about a claim and for its record."""

    status: Status = Status.ABSENT
    case_id: str = ""
    case_revision: int = 0
    automation_id: str = ""
    runner_id: str = ""
    receipt_id: str = ""
    lease_epoch: int = 0
    lease_expires_at: int = 0
    claimed_at: int = 0
    renewed_at: int | None = None
    released_at: int | None = None
    run_id: str | None = None
    deadline_at: int | None = None
    resting: bool = False
    reason: str | None = None
    ended_at: int | None = None


class ClaimNotFound(Rejection):
    """There is no such claim."""

    code = "claim_not_found"


class ClaimNotActive(Rejection):
    """The claim was released, completed or revoked."""

    code = "claim_not_active"
    FINAL = True


class ClaimRequired(Rejection):
    """The caller is not the runner that holds the claim (R-CASE-14)."""

    code = "claim_required"


class StaleLeaseEpoch(Rejection):
    """The command carries another lease epoch than the live one (R-AUT-30)."""

    code = "stale_lease_epoch"


class LeaseOver(Rejection):
    """Time ended the lease (R-AUT-30)."""

    code = "lease_expired"
    FINAL = True


class Holder(NamedTuple):
    """The runner that asks: its automation and its own identity, both from its credential."""

    automation_id: str
    runner_id: str


def lease_live(claim: Claim, lease: Lease, now: int) -> bool:
    """Whether the claim holds its case: active, in time, and still the one that the lease of the case points to."""
    return claim.status is Status.ACTIVE and now < claim.lease_expires_at and holds_lease(claim, lease)


def holds_lease(claim: Claim, lease: Lease) -> bool:
    """Whether the lease of the case still belongs to this claim."""
    return (lease.receipt_id, lease.epoch) == (claim.receipt_id, claim.lease_epoch)


def require_live(claim: Claim, lease: Lease, lease_epoch: int | None, now: int) -> None:
    """Refuse unless the lease is live and of this epoch (None: not asked).

    Raises ClaimNotFound, ClaimNotActive, LeaseOver, StaleLeaseEpoch.
    """
    if claim.status is Status.ABSENT:
        raise ClaimNotFound("There is no such claim.", next_action="Read the active claim of the case.")
    if lease_epoch is not None and lease_epoch != claim.lease_epoch:
        raise StaleLeaseEpoch(
            "The lease epoch is not the one of this claim.",
            next_action="Discard the work of the older lease, and read the active claim of the case.",
            current_lease_epoch=claim.lease_epoch,
        )
    ended_by_time = claim.status is Status.EXPIRED or (claim.status is Status.ACTIVE and now >= claim.lease_expires_at)
    if ended_by_time or (claim.status is Status.ACTIVE and not holds_lease(claim, lease)):
        raise LeaseOver(
            "The lease has ended.", next_action="Discard the work of this lease. You can claim a later receipt."
        )
    if claim.status is not Status.ACTIVE:
        raise ClaimNotActive("The claim is no longer active.", next_action="Wait for a new receipt for this case.")


def require_own(automation_id: str, holder: Holder) -> None:
    """Refuse a runner that reaches for another automation. Raises AutomationMismatch (R-AUT-55)."""
    if automation_id != holder.automation_id:
        raise AutomationMismatch(
            "The credential belongs to another automation.", next_action="Use the credential of this automation."
        )


def require_holder(claim: Claim, holder: Holder) -> None:
    """Refuse a runner of another automation; credentials of one automation hold together (G-138).

    Raises ClaimRequired.
    """
    if claim.automation_id != holder.automation_id:
        raise ClaimRequired(
            "The claim belongs to another automation.", next_action="Act with a credential of its automation."
        )


def decide_renew(
    claim: Claim, lease: Lease, authority: Authority, holder: Holder, lease_epoch: int, now: int
) -> list[Event]:
    """Extend the lease to 900 s from now, but not past the run's deadline. It never gets shorter (G-185).

    Raises DeadlineExceeded, and what require_live, require_holder and require_enabled raise.
    """
    if claim.status is not Status.ABSENT:
        require_holder(claim, holder)
    require_live(claim, lease, lease_epoch, now)
    require_enabled(authority)
    if claim.deadline_at is not None and now >= claim.deadline_at:
        raise DeadlineExceeded("The deadline of the run has passed.", next_action="Read the run for its outcome.")
    until = now + LEASE_SECONDS
    if claim.deadline_at is not None:
        until = min(until, claim.deadline_at)
    return [] if until <= claim.lease_expires_at else [ClaimRenewed(now, until)]


# The end of a lease: given back, over by time, its run over or cancelled (G-114). A lease that time has ended is
# recorded as that, whatever comes after.


def decide_release(
    claim: Claim, lease: Lease, holder: Holder | None, lease_epoch: int | None, reason: str | None, now: int
) -> list[Event]:
    """Give the claim back. An owner (`holder` None) needs no epoch. Open while paused (G-114)."""
    if claim.status is not Status.ABSENT and holder is not None:
        require_holder(claim, holder)
    require_live(claim, lease, lease_epoch, now)
    return [ClaimReleased(reason, now)]


def settle(claim: Claim, lease: Lease, now: int) -> list[Event]:
    """What time has made of a claim by `now`: expired, or nothing."""
    if claim.status is Status.ACTIVE and not lease_live(claim, lease, now):
        return [ClaimExpired(min(claim.lease_expires_at, now))]
    return []


def decide_complete(claim: Claim, lease: Lease, now: int) -> list[Event]:
    """End the claim because its run is over; a lease that time ended first is recorded as that."""
    if claim.status is not Status.ACTIVE:
        return []
    return settle(claim, lease, now) or [ClaimCompleted(now)]


def decide_revoke(claim: Claim, lease: Lease, now: int) -> list[Event]:
    """End the claim because its run was cancelled or its project is being deleted."""
    if claim.status is not Status.ACTIVE:
        return []
    return settle(claim, lease, now) or [ClaimRevoked(now)]


def evolve(state: Claim, event: Event) -> Claim:
    """Fold an event of a claim."""
    changes: dict[str, Any] = {}
    match event:
        case ClaimCreated():
            names = ("case_id", "case_revision", "automation_id", "runner_id", "receipt_id", "lease_epoch")
            changes = {name: getattr(event, name) for name in (*names, "claimed_at", "lease_expires_at")}
        case ClaimBound():
            changes = {"run_id": event.run_id, "deadline_at": event.deadline_at}
        case ClaimRenewed():
            changes = {"renewed_at": event.renewed_at, "lease_expires_at": event.lease_expires_at}
        case ClaimRested():
            moments = {"lease_expires_at": event.lease_expires_at, "deadline_at": event.deadline_at}
            changes = {**moments, "resting": event.resting}
        case ClaimReleased():
            changes = {"reason": event.reason, "released_at": event.released_at, "ended_at": event.released_at}
        case ClaimExpired():
            changes = {"ended_at": event.expired_at}
        case ClaimCompleted():
            changes = {"ended_at": event.completed_at}
        case ClaimRevoked():
            changes = {"ended_at": event.revoked_at}
    return msgspec.structs.replace(state, status=Status[destination(TABLE, event, state.status)], **changes)


MACHINE = StateMachine("claim", TABLE, Claim(), evolve, ClaimNotActive, Claim)
