"""What every machine shares: events, rejections, the table of transitions, and replay.

Two rules hold for this file and every module beside it. Nothing here reads a clock, a random source or the
outside world: time, ids and actors arrive in the command. And the table is law *before* an append only; replay
never consults it, so that a stricter table cannot make old history unreadable.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterable
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec
from msgspec import UnsetType
from transitions import Machine

from schemas.kernel.shape import EvidenceSource
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


class LimitReached(Rejection):
    """There are as many as there may be. No change of the body mends that, so the details name no member of it."""

    code = "invalid_payload"

    def __init__(self, message: str, *, next_action: str) -> None:
        super().__init__(
            message,
            next_action=next_action,
            missing_fields=[],
            invalid_fields=[],
            unknown_fields=[],
            request_body_schema=None,
        )


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
        return self[1:]


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


# What a decision raises when it was given the wrong streams: those that it needs were looked up before the locks.


class Moved(Exception):
    """What was looked up is no longer what the locked states say: look up again. Never shown to a client."""


# If-Match: the tag that a caller has read is compared with the present one here, byte for byte, and nowhere else.
# The edge reads the header and checks its form (service/http/declare/headers.py); a machine says what its
# present tag is, and what a caller whose tag is another one may do.


class PreconditionFailed(Rejection):
    """The If-Match names another revision than the current one (R-ERR-11)."""

    code = "precondition_failed"


class IfMatchRequired(Rejection):
    """The request changes something that exists and names no revision of it."""

    code = "if_match_required"


def require_none(if_match: str | None, message: str, next_action: str) -> None:
    """Refuse a tag where nothing exists that it could match. Raises PreconditionFailed."""
    if if_match is not None:
        raise PreconditionFailed(message, next_action=next_action, current_etag=None)


def require_given(if_match: str | None, etag: str, message: str, next_action: str) -> str:
    """Return the tag. Raises IfMatchRequired when there is none."""
    if if_match is None:
        raise IfMatchRequired(message, next_action=next_action, current_etag=etag)
    return if_match


def require_same(if_match: str | None, etag: str, message: str, next_action: str) -> None:
    """Refuse a tag that is not the present one. Raises PreconditionFailed."""
    if if_match != etag:
        raise PreconditionFailed(message, next_action=next_action, current_etag=etag)


# The outcome of reading a provider: a value, or a failure that cannot be mistaken for an empty value.

Cause = Literal[
    "unconfigured", "unauthorized", "unreachable", "timeout", "refused", "malformed", "too_much", "not_kept"
]

LATE_SECONDS = 120
"""So late a provider may show what came in there: until then a reading is not all of its time (G-182)."""
STALE_SECONDS = 600
"""What was read of a provider so long ago tells nothing of now (G-182)."""


def is_stale(read_to: int | None, connected_at: int, now: int) -> bool:
    """Whether a provider was read up to a moment too long ago, or never since it was connected (epoch seconds)."""
    return now - max(read_to or 0, connected_at) > STALE_SECONDS


def source_told(told: EvidenceSource | UnsetType) -> EvidenceSource:
    """The source as an event tells it. Events of older releases do not, and are of our own records."""
    return "local" if isinstance(told, UnsetType) else told


class ReadFailed(msgspec.Struct, frozen=True):
    """The read told nothing. It has no length and no truth: using it as a result is a type error.

    `unconfigured`: the operator took the adapter away; `unauthorized`: the grant is gone; `unreachable`: no answer or
    a server error; `timeout`: no answer in time; `refused`: the provider did not accept the query; `malformed`: the
    answer was not in the agreed form; `too_much`: the answer, or what it would rest on, was over its bound;
    `not_kept`: the time asked for is longer ago than records are kept.
    """

    cause: Cause

    def __bool__(self) -> bool:
        """Refuse: a failed read is neither true nor false."""
        raise TypeError("a failed read has no truth value; test for its type")


# What events of several machines hold.


class CiRun(msgspec.Struct, frozen=True):
    """The run of a workflow that acts by a CI binding. Its issuer vouches for everything but the binding."""

    binding_id: str
    issuer: str
    repository: str
    ref: str
    workflow: str
    environment: str | None
    run_id: str
