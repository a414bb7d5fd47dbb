"""What a handler hands to the command loop, and what a unit of work sees there.

A command declares everything it touches: the gates it holds, the streams it writes and reads, the rows it looks
up. The loop locks and loads exactly that, then runs `decide` as a pure function over it: no I/O, no clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec
import psycopg

from projections.kernel import Table
from service.eventstore.connect.connection import is_listed
from service.eventstore.connect.hosts import REPLICATED
from service.eventstore.declare import names
from service.fairness.turns import CommandNotDone
from service.ids import new_id
from statemachines.kernel.machine import Event, Moved, Rejection, Stream

R = TypeVar("R", bound=msgspec.Struct)


class Lookup(NamedTuple):
    """A row read under the locks of a command: of a read model, or a fact outside streams."""

    table: Table[Any]
    project_id: str
    id: str


@dataclass(frozen=True, slots=True)
class Origin:
    """The asker, and the names of the request."""

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
        """Number of the last event of a declared stream. 0 when it does not exist."""

    def append(self, stream: Stream, events: Sequence[Event]) -> Any:
        """Check each event against the table, append it, and return the new state."""

    def row(self, table: Table[R], project_id: str, id: str) -> R | None:
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


# What an area hands to a door: a command in full but for who asks; and the one command of the system itself. An intent
# declares its streams before it holds any lock, so whoever makes one first looks up where they are. What was looked up
# may have moved on by the time the locks are held: the decision then raises Moved, and the intent is made again from
# what is there now.

A = TypeVar("A")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

LOOKUPS = 5
"""How often a command looks its streams up before it gives up. Each time somebody else has moved on."""


@dataclass(frozen=True, slots=True)
class Intent(Generic[T_co]):
    """A command in full but for who asks: what it writes, reads and looks up, and how it decides.

    `decide` runs under the locks; its result is what the door shows. Refused instead commits what was appended and
    then refuses. `fence` makes it a fence of its project (True) or of another gate (its name, such as a user id):
    once it is answered, nothing that began before it under that gate can commit. Fences that stop or take away come
    before those that put something in place (`saves`). What it `drains` are further gates that it holds exclusively.
    `gates` are held shared, beside those of project and caller.
    """

    streams: Sequence[Stream]
    decide: Callable[[Unit], T_co | Refused]
    reads: Sequence[Stream] = ()
    lookups: Sequence[Lookup] = ()
    fence: bool | str = False
    saves: bool = False
    gates: Sequence[str] = ()
    drains: Sequence[str] = ()

    def shown_by(self, render: Callable[[T_co, Unit], A]) -> Intent[A]:
        """The same intent with its result rendered in the unit by `render`."""

        def decide(unit: Unit) -> A | Refused:
            result = self.decide(unit)
            return result if isinstance(result, Refused) else render(result, unit)

        return Intent(self.streams, decide, self.reads, self.lookups, self.fence, self.saves, self.gates, self.drains)


async def retry_moved(attempt: Callable[[], Awaitable[T]]) -> T:
    """Look up and carry out until the one still fits the other. Raises CommandNotDone when it never does."""
    for _ in range(LOOKUPS):
        try:
            return await attempt()
        except Moved:
            continue
    raise CommandNotDone


def system_command(
    actor: str,
    operation: str,
    intent: Intent[T],
    *,
    gates: Sequence[str] = (),
    exclusive: Sequence[str] = (),
    lookups: Sequence[Lookup] = (),
    authorize: Callable[[Unit], None] | None = None,
    told: Callable[[T], None] = lambda _: None,
) -> Command:
    """Make a command of the system itself, for what nobody asked over HTTP; there is no other way to make one.

    `actor` is who in the system acts (sweep, operator, provider) and `operation` what for, in words: both are recorded
    with the events. `told` hears each decision; the last one is what was committed.
    """

    def decide(unit: Unit) -> Answer | Refused:
        result = intent.decide(unit)
        if isinstance(result, Refused):
            return result
        told(result)
        return Answer(204, None)

    return Command(
        origin=Origin("system", actor, operation, new_id("req")),
        decide=decide,
        streams=intent.streams,
        reads=intent.reads,
        lookups=[*intent.lookups, *lookups],
        gates=[*gates, *intent.gates],
        exclusive=exclusive,
        saves=intent.saves,
        authorize=authorize,
    )


# Idempotency records, and the one rule by which a repeat is answered from them (G-008).


class IdempotencyRecord(msgspec.Struct, frozen=True):
    """An idempotency record. Without a status it binds key and request only: each repeat is decided again."""

    request_hash: str
    command_id: str
    status: int | None
    body: bytes
    headers: Mapping[str, str]


def replay(record: IdempotencyRecord | None, request_hash: str) -> Outcome | None:
    """Answer a request from the record of its key; None when it has to be decided: no record, or one without an answer.

    Raises KeyReused when the record is another request's.
    """
    if record is None:
        return None
    if record.request_hash != request_hash:
        raise KeyReused
    if record.status is None:
        return None
    return Outcome(record.status, record.body, record.headers, replayed=True)


# What long work in small steps shares: one process at a time does it, and after each step it leaves room.

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

REST = 2.0
"""How long is rested after a step, as a multiple of its time: a busy machine makes steps long, and so the rests."""
SETTINGS = (
    "statement_timeout = '10s'",
    "lock_timeout = '500ms'",
    # A step that a crash undoes is done again, and whatever ends such work waits for the disk: all that was written
    # before it is there with it. So the disk is left to those who wait for an answer.
    "synchronous_commit = off",
    # By the index always: a guess from old statistics would read everybody's rows for each step.
    "enable_seqscan = off",
    "enable_bitmapscan = off",
)
"""Of a session that works in such steps."""


async def prepare(connection: Connection) -> None:
    """Set a session up for work in small steps."""
    for setting in SETTINGS:
        await connection.execute(f"set {setting}")


async def replicate(connection: Connection) -> None:
    """Wait until what a session has done in such steps is on a standby. Nothing with one host (G-201).

    Else the end of the work, which another session records, could outlast the work itself. Raises psycopg.Error.
    """
    if is_listed(connection):
        async with connection.transaction():
            await connection.execute("set local synchronous_commit = on")
            await connection.execute(REPLICATED)


async def leave_room(began: float) -> None:
    """Rest after a step that began at a moment of the monotonic clock: disk and processors are everybody's."""
    await asyncio.sleep(REST * (time.monotonic() - began))


@asynccontextmanager
async def alone(connection: Connection, name: str) -> AsyncIterator[bool]:
    """Hold the lock of a name, if it is free, until the block ends; yields whether it was."""
    number = names.lock_number(name)
    [[free]] = await (await connection.execute("select pg_try_advisory_lock(%s)", (number,))).fetchall()
    try:
        yield free
    finally:
        if free and not connection.closed:
            await connection.execute("select pg_advisory_unlock(%s)", (number,))
