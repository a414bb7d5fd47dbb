"""What every machine shares: events, rejections, the table of transitions, and replay.

Two rules hold for this file and every module beside it. Nothing here reads a clock, a random source or the
outside world: time, ids and actors arrive in the command. And the table is law *before* an append only; replay
never consults it, so that a stricter table cannot make old history unreadable.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec
from transitions import Machine

from statemachines.kernel.topics import declare


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """A fact. TOPIC is its stored, versioned name and never changes its meaning.

    Fields hold strings, booleans, None, integers within +-(2**53 - 1), and lists or structs of these; a decimal is
    a string. So the canonical JSON of a payload survives JSONB unchanged.
    """

    TOPIC: ClassVar[str]
    DOCUMENT: ClassVar[bool] = False
    """Whether it carries a document of an owner, of which one stream takes so many bytes an hour (G-140)."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Register the topic; two events with one name fail at import."""
        super().__init_subclass__(**kwargs)
        topic = cls.__dict__.get("TOPIC")
        if topic is not None:
            declare(topic, cls)


class Recorded(NamedTuple):
    """An event at its place in a stream, with the envelope that folds may use (a DomainEventProtocol)."""

    originator_id: str
    originator_version: int
    event: Event
    project_id: str
    recorded_at: int  # epoch seconds, from service_now()
    actor: str  # "kind:id" of the principal

    @property
    def revision(self) -> int:
        """The number of this event in its stream, from 1."""
        return self.originator_version


class Rejection(Exception):
    """An expected refusal. `code` is listed in schemas/kernel/errors.py; str() is the message for the client."""

    code: ClassVar[str]
    FINAL: ClassVar[bool] = False
    """Whether what was asked of is over, so that nothing is left to do with it: `allowed_next` is empty (G-178)."""

    def __init__(self, message: str, *, next_action: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.next_action = next_action
        self.details: dict[str, Any] = {"allowed_next": [], **details} if self.FINAL else details


@runtime_checkable
class HasStatus(Protocol):
    """A state: a frozen struct whose `status` is a member of its machine's enum."""

    @property
    def status(self) -> Enum:
        """Where the machine stands."""


S = TypeVar("S", bound=HasStatus)


class StateMachine(NamedTuple, Generic[S]):
    """One machine: its stream prefix, table, initial state and fold.

    `kind` is the prefix of its stream ids and the event store's `kind` column. `version` is raised whenever
    `evolve` changes, which drops stored snapshots. `conflict` is the rejection raised for an event that the table
    does not allow.
    """

    kind: str
    table: Machine
    initial: S
    evolve: Callable[[S, Any], S]
    conflict: type[Rejection]
    state_type: type[S]
    version: int = 1

    @property
    def snapshot_version(self) -> int:
        """What stored snapshots are marked with: a positive number of 31 bits of `version`, topics and state.

        A snapshot of another form of the state is not taken up. Neither is that of a release that knows other topics:
        events that this one cannot read would be folded into it, and the stream would look as if it held none.
        """
        return _snapshot_version(self.table, self.version, self.state_type)


class Stream(NamedTuple):
    """One history: its machine, its scope (a project id; for streams of people the user id) and its id."""

    machine: StateMachine[Any]
    project_id: str
    id: str

    @property
    def name(self) -> tuple[str, str]:
        """What the locks are taken on."""
        return self.project_id, self.id


def transition_table(statuses: type[Enum], initial: Enum, rows: list[list[Any]]) -> Machine:
    """Build the one table of a machine from rows of [topic, source, destination] (sources may be a list)."""
    return Machine(None, statuses, initial, rows, auto_transitions=False)


def destination(table: Machine, event: Event, current: Enum) -> str:
    """Name of the status a recorded event leads to.

    A topic has one destination whatever its source, so replay ignores the source. `None` as destination in the
    table (an internal transition) keeps the current status.
    """
    name = _only_destination(table, event.TOPIC)
    return current.name if name is None else name


@lru_cache(maxsize=4096)
def _only_destination(table: Machine, topic: str) -> str | None:
    names = {row.dest for row in table.get_transitions(topic)}
    assert len(names) == 1, f"{topic} leads to {names or 'nowhere'}"
    [name] = names
    return None if name is None else str(name)


@lru_cache(maxsize=256)
def _snapshot_version(table: Machine, version: int, state: type[Any]) -> int:
    shape = msgspec.json.encode(msgspec.json.schema(state), order="sorted").decode()
    marks = " ".join([str(version), *sorted(table.events), shape])
    return zlib.crc32(marks.encode()) & 0x7FFFFFFF or 1


def permits(machine: StateMachine[Any], state: HasStatus, event: Event) -> bool:
    """Whether the table has a row for this event in this state."""
    return _has_row(machine.table, event.TOPIC, state.status)


@lru_cache(maxsize=4096)
def _has_row(table: Machine, topic: str, current: Enum) -> bool:
    return bool(table.get_transitions(topic, current))


def allowed_next(machine: StateMachine[Any], state: HasStatus) -> list[str]:
    """Topics that the table allows next: what a 409 tells that the state decides."""
    return sorted(machine.table.get_triggers(state.status))


def apply(machine: StateMachine[S], state: S, event: Event) -> S:
    """Check the event against the table, then evolve. Raises the machine's conflict when the table has no row."""
    if not permits(machine, state, event):
        raise machine.conflict(
            f"This is not possible while the status is {state.status.value}.",
            status=state.status.value,
            allowed_next=allowed_next(machine, state),
        )
    return machine.evolve(state, event)


def replay(machine: StateMachine[S], events: Iterable[Event]) -> S:
    """Fold a history into its state. Never refuses."""
    state = machine.initial
    for event in events:
        state = machine.evolve(state, event)
    return state


_BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"


@lru_cache(maxsize=16_384)
def derived_id(prefix: str, *parts: str) -> str:
    """Build an id in the form of G-002 from a natural key: rivals for one thing name the same stream."""
    digest = hashlib.sha256("\x00".join(parts).encode()).digest()
    number = int.from_bytes(digest[:16], "big")
    return prefix + "_" + "".join(_BASE32[(number >> shift) & 31] for shift in range(125, -5, -5))
