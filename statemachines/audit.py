"""The history of one read model's rebuilds: each leaves a receipt with the digests of the old and the new table."""

from enum import Enum
from typing import Any

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

SCOPE = "service"  # rebuilds belong to no project


def stream(projection: str) -> Stream:
    """History of a read model's rebuilds."""
    return Stream(MACHINE, SCOPE, derived_id("prj", projection))


class Status(Enum):
    """Whether the read model was ever rebuilt."""

    ORIGINAL = "original"
    REBUILT = "rebuilt"


class ProjectionRebuilt(Event, frozen=True):
    """A read model was folded anew from the log and swapped in; times in epoch seconds.

    Digests are order-independent sums of the hashes of all rows, hex.
    """

    TOPIC = "projection.rebuilt.v1"
    projection: str
    position: int
    events: int
    rows: int
    old_digest: str
    new_digest: str
    started_at: int
    finished_at: int


TABLE = transition_table(
    Status,
    Status.ORIGINAL,
    [
        [ProjectionRebuilt.TOPIC, Status.ORIGINAL, Status.REBUILT],
        [ProjectionRebuilt.TOPIC, Status.REBUILT, Status.REBUILT],
    ],
)


class Rebuilds(msgspec.Struct, frozen=True):
    """How often, and with which digest last."""

    status: Status = Status.ORIGINAL
    count: int = 0
    digest: str = ""


class RebuildConflict(Rejection):
    """A receipt that the table does not allow: never, by its only row."""

    code = "internal_error"


def evolve(state: Rebuilds, event: Any) -> Rebuilds:
    """Count a rebuild."""
    return Rebuilds(Status[destination(TABLE, event, state.status)], state.count + 1, event.new_digest)


MACHINE = StateMachine("prj", TABLE, Rebuilds(), evolve, RebuildConflict, Rebuilds)
