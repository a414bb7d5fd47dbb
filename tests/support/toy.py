"""A toy machine, its read models and its commands, for tests of the event store.

A toy is opened, bumped and closed. Its project has a flag that fences bumps, as a kill switch would. The tables are
made by `create_tables`, never by a migration.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar

import msgspec
import psycopg

from projections.kernel import Row, Table, projection
from service.eventstore.declare.commands import Answer, Command, Decide, Lookup, Origin, Unit
from service.eventstore.state.unit import Registry
from statemachines.kernel.machine import (
    Event,
    PreconditionFailed,
    Recorded,
    Rejection,
    StateMachine,
    Stream,
    destination,
    transition_table,
)
from statemachines.kernel.topics import Payload, lifts


class ToyConflict(Rejection):
    code = "toy_conflict"


class ToyFenced(Rejection):
    code = "toy_fenced"


# ---- the toy ------------------------------------------------------------------------------------------------------


class Status(Enum):
    ABSENT = "absent"
    OPEN = "open"
    CLOSED = "closed"


class ToyOpened(Event, frozen=True):
    TOPIC = "toy.opened.v1"
    label: str


class ToyBumped(Event, frozen=True):
    TOPIC = "toy.bumped.v1"
    by: int
    op: str = ""  # the client's name of the operation: what histories are checked by
    note: str | None = None


class ToyClosed(Event, frozen=True):
    TOPIC = "toy.closed.v3"
    reason: str = ""
    by: str = ""


@lifts("toy.closed.v1")
def lift_closed_v1(payload: Payload) -> Payload:
    """The first version had no reason."""
    return payload | {"why": "nobody said"}


@lifts("toy.closed.v2")
def lift_closed_v2(payload: Payload) -> Payload:
    """The second one called it otherwise, and did not know who."""
    return {"reason": payload["why"], "by": "somebody"}


class Toy(msgspec.Struct, frozen=True):
    status: Status = Status.ABSENT
    label: str = ""
    total: int = 0
    last_ops: list[str] = []


TOY_TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [ToyOpened.TOPIC, Status.ABSENT, Status.OPEN],
        [ToyBumped.TOPIC, Status.OPEN, Status.OPEN],
        [ToyClosed.TOPIC, Status.OPEN, Status.CLOSED],
    ],
)


def evolve(state: Toy, event: Event) -> Toy:
    status = Status[destination(TOY_TABLE, event, state.status)]
    match event:
        case ToyOpened(label):
            return Toy(status, label)
        case ToyBumped(by, op):
            return Toy(status, state.label, state.total + by, [*state.last_ops, op][-3:])
        case _:
            return msgspec.structs.replace(state, status=status)


TOY = StateMachine("toy", TOY_TABLE, Toy(), evolve, ToyConflict, Toy, version=1)


class ToyRow(Row, frozen=True, kw_only=True):
    """Shows every kind of column, and every part of the envelope that a fold may use."""

    label: str
    total: int
    closed: bool
    note: str | None
    ops: list[str]
    seen_at: int
    seen_by: str


class LiveToyRow(Row, frozen=True, kw_only=True):
    """Exists only while its toy is open."""

    total: int


def fold_toy(row: ToyRow | None, recorded: Recorded) -> ToyRow | None:
    base = {"revision": recorded.revision, "seen_at": recorded.recorded_at, "seen_by": recorded.actor}
    match recorded.event:
        case ToyOpened(label):
            names = {"project_id": recorded.project_id, "id": recorded.originator_id}
            return ToyRow(**names, **base, label=label, total=0, closed=False, note=None, ops=[])
        case ToyBumped(by, op, note):
            return msgspec.structs.replace(row, **base, total=row.total + by, note=note, ops=[*row.ops, op][-3:])
        case ToyClosed():
            return msgspec.structs.replace(row, **base, closed=True)
    return row


def fold_live_toy(row: LiveToyRow | None, recorded: Recorded) -> LiveToyRow | None:
    match recorded.event:
        case ToyOpened():
            return LiveToyRow(
                project_id=recorded.project_id, id=recorded.originator_id, revision=recorded.revision, total=0
            )
        case ToyBumped(by):
            return msgspec.structs.replace(row, revision=recorded.revision, total=row.total + by)
    return None


TOYS = projection("toys", ToyRow, ("toy",), fold_toy)
LIVE_TOYS = projection("live_toys", LiveToyRow, ("toy",), fold_live_toy)


# ---- the flag of a project ----------------------------------------------------------------------------------------


class FlagStatus(Enum):
    UP = "up"
    DOWN = "down"


class FlagLowered(Event, frozen=True):
    TOPIC = "toyflag.lowered.v1"


class FlagRaised(Event, frozen=True):
    TOPIC = "toyflag.raised.v1"


class Flag(msgspec.Struct, frozen=True):
    status: FlagStatus = FlagStatus.UP


FLAG_TABLE = transition_table(
    FlagStatus,
    FlagStatus.UP,
    [
        [FlagLowered.TOPIC, FlagStatus.UP, FlagStatus.DOWN],
        [FlagRaised.TOPIC, FlagStatus.DOWN, FlagStatus.UP],
    ],
)


def evolve_flag(state: Flag, event: Event) -> Flag:
    return Flag(FlagStatus[destination(FLAG_TABLE, event, state.status)])


FLAG = StateMachine("toyflag", FLAG_TABLE, Flag(), evolve_flag, ToyConflict, Flag)


class FlagRow(Row, frozen=True, kw_only=True):
    down: bool


def fold_flag(_: FlagRow | None, recorded: Recorded) -> FlagRow:
    return FlagRow(
        project_id=recorded.project_id,
        id=recorded.originator_id,
        revision=recorded.revision,
        down=isinstance(recorded.event, FlagLowered),
    )


FLAGS = projection("toy_flags", FlagRow, ("toyflag",), fold_flag)


class FactRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row outside streams: a counter that belongs to a toy."""

    project_id: str
    id: str
    count: int


FACTS: Table[FactRow] = Table("toy_facts", FactRow, ("project_id", "id"))

REGISTRY = Registry({"toy": TOY, "toyflag": FLAG}, {"toy": (TOYS, LIVE_TOYS), "toyflag": (FLAGS,)})
PROJECTIONS = (TOYS, LIVE_TOYS, FLAGS)

DDL = """
create table toys (project_id text collate "C" not null, id text collate "C" not null, revision bigint not null,
    label text not null, total bigint not null, closed boolean not null, note text, ops jsonb not null,
    seen_at bigint not null, seen_by text not null, primary key (project_id, id));
create index toys_total on toys (project_id, total);
create table live_toys (project_id text collate "C" not null, id text collate "C" not null, revision bigint not null,
    total bigint not null, primary key (project_id, id));
create table toy_flags (project_id text collate "C" not null, id text collate "C" not null, revision bigint not null,
    down boolean not null, primary key (project_id, id));
create table toy_facts (project_id text collate "C" not null, id text collate "C" not null, count bigint not null,
    primary key (project_id, id));
"""


def create_tables(url: str) -> None:
    """Make the tables in a migrated database."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(DDL)


# ---- commands -----------------------------------------------------------------------------------------------------


def toy_stream(number: int | str = 1, project: str = "proj_a") -> Stream:
    return Stream(TOY, project, f"toy_{number}")


def flag_stream(project: str = "proj_a") -> Stream:
    return Stream(FLAG, project, project.replace("proj", "toyflag"))


def origin(operation: str = "POST /toys", actor: str = "key:k1", request_id: str = "req_1") -> Origin:
    kind, _, name = actor.partition(":")
    return Origin(kind, name, operation, request_id)


def command(
    decide: Decide,
    *streams: Stream,
    key: str | None = None,
    request_hash: str = "f",
    operation: str = "POST /toys",
    actor: str = "key:k1",
    **more: Any,
) -> Command:
    """Build a command that holds the gates of its streams' projects."""
    gates = more.pop("gates", tuple(dict.fromkeys(stream.project_id for stream in streams)))
    return Command(
        origin=origin(operation, actor),
        decide=decide,
        streams=streams,
        gates=gates,
        key=key,
        request_hash=request_hash,
        **more,
    )


class Bump(msgspec.Struct, frozen=True):
    """The input of a command: what its request body would hold."""

    stream: str
    project: str = "proj_a"
    by: int = 1
    op: str = ""
    note: str | None = None
    expected: int | None = None  # If-Match: the revision at which the toy must be
    key: str | None = None
    actor: str = "key:k1"
    flagged: bool = False  # refuse while the project's flag is down

    OPERATION: ClassVar[str] = "POST /toys/bump"


class Bumped(msgspec.Struct, frozen=True):
    """The answer of a bump: the revisions it wrote, and the toy's current revision."""

    first: int
    revision: int
    total: int
    op: str


def bump(wish: Bump) -> Command:
    """Open the toy if need be and bump it, at the expected revision if one is named."""
    stream = Stream(TOY, wish.project, wish.stream)

    def decide(unit: Unit) -> Answer:
        revision = unit.revision(stream)
        if wish.expected is not None and wish.expected != revision:
            raise PreconditionFailed("The toy has moved.", current_etag=f'"{revision}"')
        events: list[Event] = [] if revision else [ToyOpened("new")]
        state = unit.append(stream, [*events, ToyBumped(wish.by, wish.op, wish.note)])
        return Answer(200, Bumped(revision + 1, unit.revision(stream), state.total, wish.op))

    return command(
        decide,
        stream,
        key=wish.key,
        request_hash=hashlib.sha256(repr((wish.stream, wish.by)).encode()).hexdigest(),
        operation=f"POST /toys/{wish.stream}/bump",
        actor=wish.actor,
        gates=(wish.project,),
        lookups=(flag_lookup(wish.project),) if wish.flagged else (),
        authorize=refuse_while_down(wish.project) if wish.flagged else None,
    )


def simple_bump(number: int | str = 1, project: str = "proj_a", **more: Any) -> Command:
    """Bump a toy by its number."""
    return bump(Bump(f"toy_{number}", project, **more))


def flag_lookup(project: str) -> Lookup:
    return Lookup(FLAGS, project, flag_stream(project).id)


def refuse_while_down(project: str) -> Callable[[Unit], None]:
    def authorize(unit: Unit) -> None:
        row = unit.row(FLAGS, project, flag_stream(project).id)
        if row is not None and row.down:
            raise ToyFenced("The flag of this project is down.")

    return authorize


def lower_flag(project: str = "proj_a", *, down: bool = True, key: str | None = None) -> Command:
    """Lower (or raise) the flag of a project: a fence."""
    stream = flag_stream(project)

    def decide(unit: Unit) -> Answer:
        wanted = FlagStatus.DOWN if down else FlagStatus.UP
        if unit.state(stream).status is not wanted:
            unit.append(stream, [FlagLowered() if down else FlagRaised()])
        return Answer(200, {"revision": unit.revision(stream)})

    return command(decide, stream, key=key, operation=f"PUT /flag/{project}", gates=(), exclusive=(project,))
