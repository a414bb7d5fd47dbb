"""The lease of a case: the one stream that every receipt, claim and run of the case writes (design, fences).

Claims have streams of their own (one machine, one history, one row each); the lease is what makes them exclusive. It
holds pointers and counters only: the latest receipt, the latest claim with its epoch, the latest run, and the attempts
of the current case revision. A receipt, claim or run has force only while the lease still points to it, so a worker
whose time ran out is refused for good once the case has been offered again, whatever its clock or its own stream says:
the lease epoch is part of its fencing token, and the lease is what checks it (P5). Until when a claim holds the case is
the claim's to say: what ends one is in claim.py.

Attempts are counted here rather than in the automation's ledger because they never expire: revisions of a case only
rise, so the counts of the current one are all that can ever be asked for, and the lease stays small (G-107).
"""

from enum import Enum

import msgspec
from msgspec import UNSET, UnsetType

from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)


def lease_id(project_id: str, case_id: str) -> str:
    """Id of the one lease of a case."""
    return derived_id("lease", project_id, case_id)


def stream(project_id: str, case_id: str) -> Stream:
    """Name the history of the one lease of a case."""
    return Stream(MACHINE, project_id, lease_id(project_id, case_id))


class Status(Enum):
    """What the latest chain of the case has come to."""

    UNUSED = "unused"
    OFFERED = "offered"
    CLAIMED = "claimed"
    RUNNING = "running"


class LeaseOffered(Event, frozen=True):
    """A receipt was issued for the case. `ordinal` counts them from 1.

    `run_ended_at` is the end of the case's latest run, None if it never had one. Older offers do not tell.
    """

    TOPIC = "lease.offered.v1"
    case_id: str
    case_revision: int
    automation_id: str
    receipt_id: str
    ordinal: int
    offered_at: int
    run_ended_at: int | UnsetType | None = UNSET


class LeaseTaken(Event, frozen=True):
    """A claim took the offer. `epoch` counts the claims of the case from 1 (G-105)."""

    TOPIC = "lease.taken.v1"
    claim_id: str
    epoch: int
    taken_at: int


class LeaseSpent(Event, frozen=True):
    """The claim started its run: one attempt at this revision by this automation."""

    TOPIC = "lease.spent.v1"
    run_id: str
    automation_id: str
    case_revision: int
    spent_at: int


TABLE = transition_table(
    Status,
    Status.UNUSED,
    [
        [LeaseOffered.TOPIC, Status.UNUSED, Status.OFFERED],
        [LeaseOffered.TOPIC, Status.OFFERED, Status.OFFERED],
        [LeaseOffered.TOPIC, Status.CLAIMED, Status.OFFERED],
        [LeaseOffered.TOPIC, Status.RUNNING, Status.OFFERED],
        [LeaseTaken.TOPIC, Status.OFFERED, Status.CLAIMED],
        [LeaseSpent.TOPIC, Status.CLAIMED, Status.RUNNING],
    ],
)


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The lease of one case. Ids are None until the first of their kind; claim and run are those of the receipt.

    `claimed_at` is the latest claim, `run_ended_at` the end of the latest run that ended before the offer (G-188).
    """

    status: Status = Status.UNUSED
    case_id: str = ""
    case_revision: int = 0
    automation_id: str = ""
    receipt_id: str | None = None
    ordinal: int = 0
    offered_at: int | None = None
    claimed_at: int | None = None
    run_ended_at: int | None = None
    claim_id: str | None = None
    epoch: int = 0
    run_id: str | None = None
    attempts_revision: int = 0
    attempts: dict[str, int] = {}

    def attempts_of(self, automation_id: str, case_revision: int) -> int:
        """How many runs an automation has begun at a revision of the case."""
        return self.attempts.get(automation_id, 0) if case_revision == self.attempts_revision else 0


class CaseAlreadyClaimed(Rejection):
    """Another claim holds the case (G-105)."""

    code = "case_already_claimed"


def _run_end(state: Lease, event: LeaseOffered) -> int | None:
    """The end of the latest run. An older offer does not tell it, but a case was never offered before that end."""
    if not isinstance(event.run_ended_at, UnsetType):
        return event.run_ended_at
    return state.run_ended_at if state.run_id is None else event.offered_at


def evolve(state: Lease, event: Event) -> Lease:
    """Fold an event of a lease."""
    status = Status[destination(TABLE, event, state.status)]
    change = msgspec.structs.replace
    match event:
        case LeaseOffered():
            return change(
                state,
                status=status,
                case_id=event.case_id,
                case_revision=event.case_revision,
                automation_id=event.automation_id,
                receipt_id=event.receipt_id,
                ordinal=event.ordinal,
                offered_at=event.offered_at,
                run_ended_at=_run_end(state, event),
                claim_id=None,
                run_id=None,
            )
        case LeaseTaken():
            return change(state, status=status, claim_id=event.claim_id, epoch=event.epoch, claimed_at=event.taken_at)
        case LeaseSpent():
            earlier = state.attempts if state.attempts_revision == event.case_revision else {}
            attempts = {**earlier, event.automation_id: earlier.get(event.automation_id, 0) + 1}
            return change(
                state,
                status=status,
                run_id=event.run_id,
                attempts_revision=event.case_revision,
                attempts=attempts,
            )
    return state


MACHINE = StateMachine("lease", TABLE, Lease(), evolve, CaseAlreadyClaimed, Lease)
