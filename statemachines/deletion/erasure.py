"""An erasure: one person of a project's telemetry on the way out, from the fence to the receipt (G-197, R-DEL).

Its stream is the person's, in the scope of the project. Its id is made from a keyed hash of the person's main name, so
two requests for one person meet in one stream, and no event holds a name. Whoever comes by that name afterwards is
somebody new, and may be erased in turn: the stream then begins another round.

The names to erase are facts beside the stream, put down with the fence and taken away at the end. Nothing else is
fenced: the project goes on, and records after the fence stay.
"""

from enum import Enum

import msgspec

from statemachines.kernel.canonical import canonical_sha256
from statemachines.kernel.machine import Event, Rejection, StateMachine, Stream, destination, transition_table

MOST_RECEIPTS = 20
"""Ended rounds of one name whose receipts can be read again."""


def stream(project_id: str, person_hash: str) -> Stream:
    """History of the erasures of whoever is called by a name, by its keyed hash in hex."""
    return Stream(MACHINE, project_id, f"era_{person_hash[:40]}")


class Status(Enum):
    """Where an erasure stands. DELETED: nothing of the person is left, and another round may begin."""

    ABSENT = "absent"
    FENCED = "fenced"
    PURGING = "purging"
    DELETED = "deleted"


class ErasureFenced(Event, frozen=True):
    """The erasure of a person was accepted: all that was received until `fenced_at` goes, under `names` names.

    `person_hash` is the keyed hash of the name that the person is called by, `command_key_sha256` recognises a repeat
    of the request.
    """

    TOPIC = "erasure.fenced.v1"
    deletion_id: str
    person_hash: str
    command_key_sha256: str
    names: int
    fenced_at: int


class ErasureBegan(Event, frozen=True):
    """The erasure is in the ledger: rows go from here on."""

    TOPIC = "erasure.began.v1"
    began_at: int


class ErasureCompleted(Event, frozen=True):
    """Nothing of the person is left; `records` were removed."""

    TOPIC = "erasure.completed.v1"
    records: int
    deleted_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [ErasureFenced.TOPIC, Status.ABSENT, Status.FENCED],
        [ErasureFenced.TOPIC, Status.DELETED, Status.FENCED],
        [ErasureBegan.TOPIC, Status.FENCED, Status.PURGING],
        [ErasureCompleted.TOPIC, Status.PURGING, Status.DELETED],
    ],
)


class ErasureState(msgspec.Struct, frozen=True):
    """The basis of decisions: the round under way or the last one, and the requests of earlier ones."""

    status: Status = Status.ABSENT
    deletion_id: str = ""
    command_key_sha256: str = ""
    earlier: tuple[str, ...] = ()


class OtherErasure(Rejection):
    """Another request has begun to erase the same person, which goes on."""

    code = "person_deletion_in_progress"


class AskForErasure(msgspec.Struct, frozen=True):
    """A wish to erase a person: by which request, and until when what was received goes (None: now)."""

    deletion_id: str
    person_hash: str
    command_key_sha256: str
    until: int | None = None


def request_sha256(user_id: str, key: str, name_hash: str) -> str:
    """Recognise a request by who asks, its Idempotency-Key, and the hash of the name in it."""
    return canonical_sha256([user_id, key, name_hash])


def decide_fence(state: ErasureState, wish: AskForErasure, names: int, now: int) -> list[Event]:
    """Accept an erasure; a repeat of a request records nothing. Raises OtherErasure while another one is under way."""
    if state.command_key_sha256 == wish.command_key_sha256 or wish.command_key_sha256 in state.earlier:
        return []
    if state.status in {Status.FENCED, Status.PURGING}:
        raise OtherErasure(
            "Another request has begun to delete this person.", next_action="Repeat that request, with its key."
        )
    until = now if wish.until is None else wish.until
    return [ErasureFenced(wish.deletion_id, wish.person_hash, wish.command_key_sha256, names, until)]


def decide_begin(state: ErasureState, deletion_id: str, now: int) -> list[Event]:
    """Let the rows go; a repeat, or for another round, nothing is recorded. The table refuses it before the fence."""
    over = state.status in {Status.PURGING, Status.DELETED} or state.deletion_id != deletion_id
    return [] if over and state.status is not Status.ABSENT else [ErasureBegan(now)]


def decide_complete(state: ErasureState, deletion_id: str, records: int, now: int) -> list[Event]:
    """End an erasure; a repeat, or for another round, nothing is recorded. The table refuses it before the purge."""
    over = state.status is Status.DELETED or state.deletion_id != deletion_id
    return [] if over and state.status is not Status.ABSENT else [ErasureCompleted(records, now)]


def evolve(state: ErasureState, event: Event) -> ErasureState:
    """Fold an event of an erasure."""
    status = Status[destination(TABLE, event, state.status)]
    if isinstance(event, ErasureFenced):
        before = (*state.earlier, state.command_key_sha256) if state.command_key_sha256 else state.earlier
        return ErasureState(status, event.deletion_id, event.command_key_sha256, before[-MOST_RECEIPTS:])
    return msgspec.structs.replace(state, status=status)


MACHINE = StateMachine("era", TABLE, ErasureState(), evolve, OtherErasure, ErasureState)
