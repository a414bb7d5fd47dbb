"""One round: one transaction that locks, loads, decides and writes for a batch of commands.

The order of the statements is the point of this file:

* gates, then names, then heads, then reads. All are tried, never waited for, except the heads that are written: they
  are taken in ONE sorted statement that may wait for a bounded time. A waiter can therefore only wait for a session
  that is past its own write pass or further on in the same order: no cycle.
* what is read is read in a later statement than the lock that protects it, idempotency records too. A connection may
  break, the batch run again, and the first attempt commit meanwhile; its locks make the second run busy, and once
  they are free its record is visible.
* service_now() is the last statement of the first pipeline: the clock is read after every wait. PostgreSQL arms the
  idle-in-transaction timer when it answers the Sync of a pipeline, and any message disarms it again: none may follow
  (the driver's own pipeline sends a Flush).
* the tag of COMMIT must read COMMIT: an aborted transaction answers ROLLBACK without an error. A warning beside it says
  that no standby may have it: the batch is in doubt then, as after a lost connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from service.eventstore.connect.connection import Connection
from service.eventstore.declare import names
from service.eventstore.declare.commands import (
    Answer,
    IdempotencyRecord,
    KeyReused,
    Outcome,
    Refused,
    StoredAnswer,
    replay,
)
from service.eventstore.declare.faults import StreamFault
from service.eventstore.state.cache import Entry, StateCache, StreamName
from service.eventstore.state.loading import Footprint, Loaded, fold_streams, lock_and_load
from service.eventstore.state.unit import Batch, Registry, UnitOfWork
from service.eventstore.write.warming import Wanted
from service.eventstore.write.writing import Accepted, confirm, write
from statemachines.kernel.machine import Rejection

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class RoundResult:
    """What became of each entry: done (an outcome or an exception), or busy with the names that held it up."""

    done: list[tuple[Entry, Outcome | Exception]] = field(default_factory=list)
    busy: list[tuple[Entry, list[str]]] = field(default_factory=list)
    busy_streams: dict[StreamName, int] = field(default_factory=dict)  # revision seen, for the stall detection
    heavy: dict[StreamName, Wanted] = field(default_factory=dict)  # to be loaded first, for some that are busy


class Round:
    """Runs batches on a connection. One per writing thread; `cache` belongs to that thread alone."""

    def __init__(self, registry: Registry, cache: StateCache) -> None:
        self._registry = registry
        self._cache = cache

    def run(
        self, connection: Connection, entries: Sequence[Entry], *, wait_ms: int | None, exclusive: Sequence[str] = ()
    ) -> RoundResult:
        """Carry out a batch. `wait_ms` bounds the wait for heads (None: skip what is locked).

        `exclusive` names gates to wait for, holding them exclusively: the fence lane's way. Raises psycopg.Error as
        it comes, with the transaction still open or the connection broken, and CommitNotConfirmed.
        """
        loaded = lock_and_load(
            connection, Footprint.of_commands(self._registry, self._cache, entries, exclusive), wait_ms
        )
        [moment] = loaded.told
        assert isinstance(moment, datetime)
        result = RoundResult()
        runnable = self._sort_out_busy(entries, loaded, result)
        touched = (stream for e in runnable for stream in (*e.command.streams, *e.command.reads))
        streams, faults = fold_streams(self._registry, self._cache, touched, loaded)
        batch = Batch(self._registry, moment, streams, loaded.rows, faults)
        accepted = self._decide(runnable, batch, loaded, result)
        if accepted:
            write(connection, batch, loaded, accepted, self._cache, self.write_more)
        elif loaded.records:
            confirm(connection)  # an answer from a record acknowledges what may have been lost
        else:
            connection.execute("rollback")
        return result

    def write_more(self, connection: Connection, batch: Batch) -> None:
        """Add statements of one's own just before COMMIT (the intake's telemetry and counters)."""

    def _sort_out_busy(self, entries: Sequence[Entry], loaded: Loaded, result: RoundResult) -> list[Entry]:
        runnable = []
        for entry in entries:
            command = entry.command
            blockers = [n for n in map(names.gate, command.gates) if n not in loaded.gates]
            if entry.key_name not in loaded.names:
                blockers.append(entry.key_name)
            for stream in (*command.streams, *command.reads):
                if stream.name in loaded.heavy and stream.name not in self._cache.faults:
                    result.heavy.setdefault(stream.name, Wanted(stream, entry.tenant))
                    blockers.append("/".join(stream.name))
                elif stream.name in loaded.seen and stream.name not in loaded.heads:
                    blockers.append("/".join(stream.name))
            for stream in command.streams:
                new_name = names.new_stream(*stream.name)
                if stream.name not in loaded.seen:
                    if new_name not in loaded.names:
                        blockers.append(new_name)
                elif stream.name not in loaded.heads:
                    # Reads do not count: they are always tried, and being busy for a moment is no stall.
                    result.busy_streams[stream.name] = loaded.seen[stream.name]
            if blockers:
                entry.blocked_by_key = blockers == [entry.key_name]
                result.busy.append((entry, blockers))
            else:
                runnable.append(entry)
        return runnable

    def _decide(self, runnable: Sequence[Entry], batch: Batch, loaded: Loaded, result: RoundResult) -> list[Accepted]:
        """Run the units in order; returns what goes into the log. Everything is answered in `result`."""
        accepted: list[Accepted] = []
        records = dict(loaded.records)
        for entry in runnable:
            if _is_own(entry, records.get(entry.record)):
                assert entry.kept is not None
                result.done.append((entry, entry.kept))
                continue
            unit = UnitOfWork(batch, entry.command, entry.command_id)
            try:
                if entry.command.authorize is not None:
                    entry.command.authorize(unit)
                repeated = _repeat(entry, records.get(entry.record), unit)
                if repeated is not None:
                    result.done.append((entry, repeated))
                    continue
                told, record = _lay_out(entry, entry.command.decide(unit))
            except (Rejection, KeyReused, StreamFault) as refusal:
                # Its traceback leads to this frame, and that to all that was loaded and sent, for as long as the
                # collector of cycles takes: of large documents, hundreds of megabytes.
                result.done.append((entry, refusal.with_traceback(None)))
                continue
            except Exception as bug:  # noqa: BLE001 - one command's bug must not fail its neighbours
                result.done.append((entry, bug))
                continue
            unit.accept()
            entry.kept = told
            records[entry.record] = record  # A twin later in this batch finds its answer here.
            accepted.append(Accepted(entry, record))
            result.done.append((entry, told))
        return accepted


def _is_own(entry: Entry, record: IdempotencyRecord | None) -> bool:
    """Whether this submission has committed already, and only the acknowledgement was lost.

    Asked before `authorize`: a command may take away its own right (revoke its key, fence its project), and must not
    be called refused when it was done.
    """
    return record is not None and record.command_id == entry.command_id and entry.kept is not None


def _lay_out(entry: Entry, decision: Answer | Refused) -> tuple[Outcome | Rejection, IdempotencyRecord]:
    """Lay out a decision: what the caller is told after COMMIT, and what is recorded under its key."""
    request_hash = entry.command.request_hash
    if isinstance(decision, Refused):
        return decision.rejection, IdempotencyRecord(request_hash, entry.command_id, None, b"", {})
    body = b"" if decision.body is None else _encode(decision.body)
    stored = body if decision.stored is None else _encode(decision.stored)
    status = None if decision.pending else decision.status
    told = Outcome(decision.status, body, decision.headers)
    return told, IdempotencyRecord(request_hash, entry.command_id, status, stored, decision.headers)


def _repeat(entry: Entry, record: IdempotencyRecord | None, unit: UnitOfWork) -> Outcome | None:
    """Answer from the record, in the command's own way if it has one. None: nothing is stored yet."""
    found = replay(record, entry.command.request_hash)
    if found is None or entry.command.on_replay is None:
        return found
    answer = entry.command.on_replay(unit, StoredAnswer(found.status, found.body, found.headers))
    body = b"" if answer.body is None else _encode(answer.body)
    return Outcome(answer.status, body, answer.headers, replayed=True)
