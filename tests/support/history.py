"""A journal of the operations of clients, and the checks of it against the store.

An operation ends `ok` (with the revision it was told), `fail` (refused for certain) or `info` (no definite answer: it
may have happened once or not at all). Every operation writes a marker of its own into its event, so that the
log shows which operation each event belongs to. All checks take linear time: an `ok` names its revision.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from service.eventstore.state.unit import Registry
from service.history.audit import check_history, check_projection
from service.history.rebuild import rebuild


@dataclass(slots=True)
class Op:
    """One operation of a client: its request and its result."""

    id: str  # also the marker in its event
    stream: str
    expected: int | None = None  # the revision that its fence names
    key: str | None = None
    principal: str = ""
    invoked: int = 0  # monotonic nanoseconds
    finished: int = 0
    outcome: str = "open"  # ok, fail, info
    status: int = 0
    revision: int | None = None  # of its event, from an `ok` answer
    answer: bytes = b""
    replayed: bool = False
    doubts: int = 0  # attempts that had no definite answer


@dataclass
class Journal:
    """All operations of a run, in the order in which they began."""

    ops: list[Op] = field(default_factory=list)

    def invoke(self, stream: str, **asked: Any) -> Op:
        """Begin an operation, before anything is sent."""
        op = Op(f"op-{len(self.ops)}", stream, invoked=time.monotonic_ns(), **asked)
        self.ops.append(op)
        return op

    def end(self, op: Op, outcome: str, status: int = 0, **told: Any) -> None:
        """End it, after the answer was read or given up."""
        op.finished, op.outcome, op.status = time.monotonic_ns(), outcome, status
        for name, value in told.items():
            setattr(op, name, value)

    @property
    def outcomes(self) -> Counter[str]:
        return Counter(op.outcome for op in self.ops)

    @property
    def statuses(self) -> Counter[int]:
        return Counter(op.status for op in self.ops)

    @property
    def doubts(self) -> int:
        """Attempts without a definite answer."""
        return sum(op.doubts for op in self.ops)

    def save(self, path: Path) -> None:
        """Write one line per operation, to look into a failed run."""
        lines = (msgspec.json.encode({n: getattr(op, n) for n in Op.__slots__ if n != "answer"}) for op in self.ops)
        path.write_bytes(b"\n".join(lines))


@dataclass(frozen=True, slots=True)
class Found:
    """An event as the store has it."""

    stream: str
    revision: int
    command_id: str
    marker: str | None
    position: int | None


def read_store(connection: psycopg.Connection[Any], marker: str) -> list[Found]:
    """Read the whole log; `marker` is the SQL of an operation's id in a payload."""
    rows = connection.execute(
        f"select e.stream_id, e.revision, e.command_id, substring({marker} from '^op-.*'), i.position from events e "
        "left join log_index i on i.seq = e.seq order by e.project_id, e.stream_id, e.revision".encode()
    )
    return [Found(*row) for row in rows.fetchall()]


def check_operations(ops: Sequence[Op], events: Iterable[Found]) -> list[str]:
    """I1 to I3 and I5: what was acknowledged is there once, what was refused is not, and time did not run backwards."""
    by_marker: dict[str, list[Found]] = defaultdict(list)
    for event in events:
        if event.marker is not None:
            by_marker[event.marker].append(event)
    wrong = []
    for op in ops:
        found = by_marker.pop(op.id, [])
        if len(found) > 1:
            wrong.append(f"I1 {op.id} ({op.outcome}) is in the log {len(found)} times: {found}")
        elif op.outcome == "ok" and not op.replayed and not found:
            wrong.append(f"I1 {op.id} was acknowledged at {op.stream}/{op.revision} and is not in the log")
        elif op.outcome == "fail" and found:
            wrong.append(f"I2 {op.id} was refused with {op.status} and is in the log: {found[0]}")
        if op.outcome == "ok" and found and (found[0].stream, found[0].revision) != (op.stream, op.revision):
            wrong.append(f"I1 {op.id} was told {op.stream}/{op.revision} and is {found[0]}")
        if op.outcome == "ok" and op.expected is not None and op.revision != op.expected + 1:
            wrong.append(f"I1 {op.id} expected revision {op.expected} and became {op.revision}")
        if found and op.expected is not None and found[0].revision != op.expected + 1:
            wrong.append(f"I3 {op.id} expected revision {op.expected} and is at {found[0].revision}")
    wrong += [f"I1 nobody asked for {marker}: {found}" for marker, found in by_marker.items()]
    return wrong + check_real_time(ops)


def check_real_time(ops: Sequence[Op]) -> list[str]:
    """I5: on one stream, what ended before another began has the lower revision."""
    streams: dict[str, list[Op]] = defaultdict(list)
    for op in ops:
        if op.outcome == "ok" and not op.replayed and op.revision is not None:
            streams[op.stream].append(op)
    wrong = []
    for stream, done in streams.items():
        latest: Op | None = None  # of those with lower revisions, the one that began last
        for op in sorted(done, key=lambda op: op.revision or 0):
            if latest is not None and latest.revision == op.revision:
                wrong.append(f"I1 {latest.id} and {op.id} were both told {stream}/{op.revision}")
            if latest is not None and latest.invoked > op.finished:
                wrong.append(f"I5 {op.id} ended before {latest.id} began, and is behind it in {stream}")
            if latest is None or op.invoked > latest.invoked:
                latest = op
    return wrong


def check_log(events: Sequence[Found]) -> list[str]:
    """I4, I6 and I7: revisions 1..n, positions 1..N, and inside a stream both in one order."""
    wrong = []
    previous: Found | None = None
    for event in events:
        same = previous is not None and previous.stream == event.stream
        if event.revision != (previous.revision + 1 if same and previous else 1):
            wrong.append(f"I4 {event.stream} goes on at {event.revision}")
        if event.position is None:
            wrong.append(f"I6 {event.stream}/{event.revision} has no position")
        elif same and previous and previous.position is not None and event.position <= previous.position:
            wrong.append(f"I7 {event.stream}/{event.revision} stands before its predecessor")
        previous = event
    positions = sorted(event.position for event in events if event.position is not None)
    if positions != list(range(1, len(positions) + 1)):
        wrong.append("I6 the positions have holes or twins")
    return wrong


def check_records(connection: psycopg.Connection[Any], ops: Sequence[Op], events: Iterable[Found]) -> list[str]:
    """I9: each keyed `ok` has one record, whose bytes are its answer, and which names the command of its event."""
    keyed = [op for op in ops if op.key is not None]
    rows = connection.execute(
        "select principal, key, status, body, command_id from idempotency where key = any(%s)",
        ([op.key for op in keyed],),
    ).fetchall()
    records: dict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)
    for principal, key, *rest in rows:
        records[(principal, key)].append(tuple(rest))
    commands = {event.marker: event.command_id for event in events if event.marker is not None}
    wrong = []
    for op in keyed:
        found = records.get((op.principal, op.key or ""), [])
        if len(found) > 1:
            wrong.append(f"I9 {op.id}: {len(found)} records for one key")
        elif op.outcome == "ok" and not found:
            wrong.append(f"I9 {op.id}: no record of its key")
        elif op.outcome == "ok" and (found[0][0], bytes(found[0][1] or b"")) != (op.status, op.answer):
            wrong.append(f"I9 {op.id}: the record is not what was answered")
        elif op.id in commands and (not found or found[0][2] != commands[op.id]):
            wrong.append(f"I9 {op.id}: its event was written by another command than its record says")
    return wrong


def check_read_models(connection: psycopg.Connection[Any], registry: Registry) -> list[str]:
    """I8: each row is the fold of its stream; and every chain, head and hash of history holds."""
    wrong = [f"I11 {problem}" for problem in check_history(connection)]
    for projection in {p.name: p for inline in registry.inline.values() for p in inline}.values():
        wrong += [f"I8 {projection.name}: {difference}" for difference in check_projection(connection, projection)]
    return wrong


def check_rebuild(url: str, registry: Registry) -> list[str]:
    """P8: every read model built anew in a shadow table is what the commands wrote, by the digest of all its rows."""
    receipts = [rebuild(url, p) for p in {p.name: p for inline in registry.inline.values() for p in inline}.values()]
    return [
        f"P8 {receipt.projection} was {receipt.old_digest[:8]} and folds to {receipt.new_digest[:8]}"
        for receipt in receipts
        if receipt.old_digest != receipt.new_digest
    ]


def check_all(url: str, journal: Journal, registry: Registry, marker: str) -> list[str]:
    """Every invariant, over a store that is idle and fully numbered."""
    with psycopg.connect(url, autocommit=True) as connection:
        events = read_store(connection, marker)
        wrong = check_operations(journal.ops, events) + check_log(events)
        wrong += check_records(connection, journal.ops, events) + check_read_models(connection, registry)
    return wrong + check_rebuild(url, registry)
