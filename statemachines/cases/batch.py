"""A batch: one act on many cases, recorded once at its end.

Each case moves by a command of its own, in its own stream. The batch tells of the whole: receivers of webhooks are told
once. Its id is the correlation id of all those commands, so their events can be told apart from single acts.
"""

from enum import Enum

import msgspec

from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)

MAX_CASES = 1_000
"""Cases of a batch at most."""
PREFIX = "batch"


def batch_id(project_id: str, caller_id: str, key: str) -> str:
    """The id of the batch that a request with a key makes: its repeats name the same one."""
    return derived_id(PREFIX, project_id, caller_id, key)


def is_batch(correlation_id: str) -> bool:
    """Whether an event was recorded as part of a batch."""
    return correlation_id.startswith(f"{PREFIX}_")


def stream(project_id: str, batch_id: str) -> Stream:
    """History of a batch."""
    return Stream(MACHINE, project_id, batch_id)


class BatchAct(Enum):
    """An act on a case."""

    RESOLVE = "resolve"
    IGNORE = "ignore"
    SUPPRESS = "suppress"
    ASSIGN = "assign"


class Status(Enum):
    """Whether a batch was carried out to its end."""

    ABSENT = "absent"
    ENDED = "ended"


class CaseBatchEnded(Event, frozen=True):
    """Each case of a batch was tried. `moved` of the `cases` are otherwise now. `assignee` is set by `assign` alone."""

    TOPIC = "case_batch.ended.v1"
    action: str
    assignee: str | None
    cases: int
    moved: int
    ended_at: int


TABLE = transition_table(Status, Status.ABSENT, [[CaseBatchEnded.TOPIC, Status.ABSENT, Status.ENDED]])


class Batch(msgspec.Struct, frozen=True):
    """The state of a batch."""

    status: Status = Status.ABSENT


class BatchConflict(Rejection):
    """An event against the table. It never happens: an ended batch records nothing more."""

    code = "internal_error"


def decide_end(
    state: Batch, action: BatchAct, assignee: str | None, *, cases: int, moved: int, now: int
) -> list[Event]:
    """Record the end of a batch. A repeat records nothing, and neither does a batch that has moved no case."""
    if state.status is Status.ENDED or not moved:
        return []
    return [CaseBatchEnded(action.value, assignee, cases, moved, now)]


def evolve(state: Batch, event: Event) -> Batch:
    """Fold an event of a batch."""
    return Batch(Status[destination(TABLE, event, state.status)])


MACHINE = StateMachine(PREFIX, TABLE, Batch(), evolve, BatchConflict, Batch)
