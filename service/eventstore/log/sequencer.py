"""The sequencer: gives committed events their gap-free positions, after commit.

Writers never wait for each other to be numbered. Whoever holds the one row of log_state numbers; any process may
run this, several at once do no harm, and dying at any line loses nothing. The order is causal: an event that was
appended after another one committed drew a higher seq, and every snapshot that shows it shows the other one too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import psycopg
from psycopg.types.json import Jsonb

from service.eventstore.connect.connection import COMMITTED, Bell, Connection
from service.eventstore.log.reactor import Job, Repeating
from service.sql import load_query

BATCH = 1000
BUSY_POLL = 0.010  # seconds between looks while events arrive, or another process numbers
IDLE_POLL = 0.250  # while nobody rings: for commits of other services and of commands

_LOCK = load_query("eventstore", "lock_log")
# A later statement than the lock, so that its snapshot shows what the last holder deleted.
_NUMBER = load_query("eventstore", "number")
_GROW = load_query("eventstore", "grow")


class Numbered(NamedTuple):
    """The outcome of a look: so many events were numbered, and the log has this size now."""

    events: int
    size: int


def sequence_once(connection: Connection, limit: int = BATCH) -> Numbered | None:
    """Number at most `limit` events. None: another process is numbering."""
    with connection.transaction():
        row = connection.execute(_LOCK, prepare=True).fetchone()
        if row is None:
            return None
        [count] = connection.execute(_NUMBER, (limit, row[0]), prepare=True).fetchone() or (0,)
        if count:
            connection.execute(_GROW, (count,), prepare=True)
        return Numbered(int(count), int(row[0]) + int(count))


def sequence_all(connection: Connection) -> int:
    """Number everything that is committed now; returns how many events that were."""
    total = 0
    while (done := sequence_once(connection)) and done.events:
        total += done.events
    return total


class Sequencer(Repeating):
    """Runs `sequence_once` for ever, and at each ring of `bell`.

    `numbered` is called whenever the log has another size than before, whoever numbered its events.
    """

    def __init__(self, conninfo: str, numbered: Callable[[], None] = lambda: None, bell: Bell = COMMITTED) -> None:
        super().__init__("sequencer", conninfo)
        self._numbered = numbered
        self._bell = bell
        self._size: int | None = None

    def start(self) -> None:
        """Start the thread. From now on the bell wakes it."""
        super().start()
        self._bell.listen(self.wake)

    def turn(self, connection: Connection) -> float:
        """Number a batch. Look again at once after a full one, and soon while events arrive: they come in batches."""
        self._bell.expect()  # before the look: see Bell
        done = sequence_once(connection)
        if done is None:
            self._bell.cover()
            return BUSY_POLL
        if done.size != self._size:
            self._size = done.size
            self._numbered()
        if done.events == 0:
            return IDLE_POLL
        self._bell.cover()
        return 0.0 if done.events == BATCH else BUSY_POLL


# Deferring a job outside of the log, as the test clock does; what history causes is a reaction (reactor.py).

TODO = "todo"
"""Status of a job that waits, as procrastinate.jobs.Status has it. Only who runs jobs loads the library."""

_DEFER = load_query("eventstore", "defer_job")


async def defer(connection: psycopg.AsyncConnection[Any], job: Job) -> None:
    """Defer a job outside of the log (the test clock, an operator); one with `once` may be waiting already.

    The connection must be allowed to write. Not for commands: what history causes is a reaction.
    """
    with suppress(psycopg.errors.UniqueViolation):  # another has deferred it meanwhile
        async with connection.transaction():
            values = (job.queue, job.task, job.once, Jsonb(dict(job.args)), job.once, job.once, TODO)
            await connection.execute(_DEFER, values)
