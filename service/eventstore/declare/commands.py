"""What a handler hands to the command loop, and what a unit of work sees there.

A command declares everything it touches: the gates it holds, the streams it writes and reads, the rows it looks
up. The loop locks and loads exactly that, then runs `decide` as a pure function over it: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from projections.kernel.projection import Table
from statemachines.kernel.machine import Event, Rejection, Stream

R = TypeVar("R", bound=msgspec.Struct)


class Lookup(NamedTuple):
    """A row that a command reads under its locks: a read-model row or a fact outside streams."""

    table: Table[Any]
    project_id: str
    id: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Who asks, and under which names the request is known."""

    actor_kind: str  # key, session, ci, runner, dsn, internal, test, anonymous, system
    actor_id: str
    operation: str  # "POST /v1/projects/proj_…/credentials": method and concrete path
    request_id: str
    correlation_id: str = ""  # the request that began the chain; defaults to request_id
    causation_id: str = ""  # the event that caused a follow-up command


@dataclass(frozen=True, slots=True)
class Answer:
    """What a unit answers: status, body and headers, in wire terms.

    `stored` replaces `body` in the idempotency record when the body shows a secret once. `pending` binds key and
    request but stores no answer: each repeat is decided again (G-008).
    """

    status: int
    body: msgspec.Struct | Mapping[str, Any] | Sequence[msgspec.Struct] | None
    headers: Mapping[str, str] = field(default_factory=dict)
    stored: msgspec.Struct | Mapping[str, Any] | None = None
    pending: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """What a unit returns to commit and then refuse: what it appended and put is committed, the caller is refused.

    The caller gets `rejection` as the Rejection of `execute`, after COMMIT only, even when the acknowledgement of that
    was lost. Its key is bound to its request, but nothing is stored under it: a repeat is decided again (G-008).
    """

    rejection: Rejection


class StoredAnswer(NamedTuple):
    """An answer found in the idempotency record."""

    status: int
    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the caller of `execute` gets: the answer (bytes already encoded) and whether it is a replay."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    replayed: bool = False


class Unit(Protocol):
    """What `decide` works on: loaded states and rows, under their locks, after the units before it."""

    @property
    def now(self) -> int:
        """Epoch seconds of service_now(), read after the locks: the clock of deadlines, leases and expiry."""

    def state(self, stream: Stream) -> Any:
        """State of a declared stream (the machine's initial state when it does not exist)."""

    def revision(self, stream: Stream) -> int:
        """Number of the last event of a declared stream; 0 when it does not exist."""

    def append(self, stream: Stream, events: Sequence[Event]) -> Any:
        """Check each event against the table, append it, and return the new state."""

    def row(self, table: Table[R], project_id: str, id: str) -> R | None:  # noqa: A002
        """A declared row, or the read-model row of a declared stream, as this unit has made it so far."""

    def put(self, stream: Stream, table: Table[R], row: R) -> None:
        """Upsert a fact row of a declared stream, locked for writing."""


Decide = Callable[[Unit], Answer | Refused]


@dataclass(slots=True, kw_only=True)
class Command:
    """One wish. A Rejection that `decide` or `authorize` raises leaves no trace; a Refused commits what was done."""

    origin: Origin
    decide: Decide
    streams: Sequence[Stream]  # written or created; a decision on the absence of a stream declares it here too
    reads: Sequence[Stream] = ()  # only read; fenced all the same
    lookups: Sequence[Lookup] = ()
    gates: Sequence[str] = ()  # held shared: the project, and the account whose key is used
    exclusive: Sequence[str] = ()  # held exclusively: makes this a fence, carried out by the lane
    saves: bool = False  # a fence that puts something in place: those that stop or take away come before it
    tenant: str = ""  # the account it counts for, which queues and the lane serve in turn; "": its first gate
    weight: int = 0  # bytes of what it was made from: a batch takes few that are heavy
    authorize: Callable[[Unit], None] | None = None  # runs first: principal and fence flags under the gates
    key: str | None = None  # Idempotency-Key; the server makes one when absent
    request_hash: str = ""  # hex SHA-256 of the canonical request
    on_replay: Callable[[Unit, StoredAnswer], Answer] | None = None  # overrides the verbatim replay


class KeyInProgress(Exception):
    """Another request with this idempotency key is still running: 409 idempotency_in_progress."""


class KeyReused(Exception):
    """The idempotency key was used for a different request: 422 idempotency_key_reused."""


class OutcomeUnknown(Exception):
    """A commit was in doubt and could not be resolved in time: 503, repeat with the same key."""


class CommandFailed(Exception):
    """The database refused the data of this command (SQLSTATE class 22, 23, 54): 400, nothing stored."""
