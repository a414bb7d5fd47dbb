"""The sequencer: gives committed events their gap-free positions, after commit.

Writers never wait for each other to be numbered. Whoever holds the one row of log_state numbers; any process may
run this, several at once do no harm, and dying at any line loses nothing. The order is causal: an event that was
appended after another one committed drew a higher seq, and every snapshot that shows it shows the other one too.
"""

from __future__ import annotations

import threading
import time

import psycopg
import structlog

from service.eventstore.connection import Connection, connect

log = structlog.get_logger()

BATCH = 1000
BUSY_POLL = 0.010  # seconds between looks while events arrive
IDLE_POLL = 0.050  # once nothing has arrived for a second

_LOCK = "select size from log_state for update skip locked"
# A later statement than the lock, so that its snapshot shows what the last holder deleted.
_NUMBER = (
    "with took as (delete from unsequenced where seq in "
    "(select seq from unsequenced order by seq limit %s) returning seq), "
    "placed as (insert into log_index (position, seq) "
    "select %s + row_number() over (order by seq), seq from took returning 1) select count(*) from placed"
)
_GROW = "update log_state set size = size + %s"


def sequence_once(connection: Connection, limit: int = BATCH) -> int:
    """Number at most `limit` events; returns how many (0 when there are none, or when another one is at it)."""
    with connection.transaction():
        row = connection.execute(_LOCK, prepare=True).fetchone()
        if row is None:
            return 0
        [count] = connection.execute(_NUMBER, (limit, row[0]), prepare=True).fetchone() or (0,)
        if count:
            connection.execute(_GROW, (count,), prepare=True)
        return int(count)


def sequence_all(connection: Connection) -> int:
    """Number everything that is committed now; returns how many events that were."""
    total = 0
    while count := sequence_once(connection):
        total += count
    return total


class Sequencer:
    """Runs `sequence_once` for ever in a thread, reconnecting as needed."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._main, name="service-sequencer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current batch."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _main(self) -> None:
        connection: Connection | None = None
        active_until = 0.0
        while not self._stopping.is_set():
            try:
                if connection is None:
                    connection = connect(self._conninfo, application="service-sequencer")
                count = sequence_once(connection)
            except psycopg.Error as error:
                log.warning("sequencer_interrupted", error=type(error).__name__, sqlstate=error.sqlstate)
                if connection is not None:
                    connection.close()
                connection = None
                self._stopping.wait(0.2)
                continue
            now = time.monotonic()
            if count:
                active_until = now + 1.0
            if count < BATCH:
                self._stopping.wait(BUSY_POLL if now < active_until else IDLE_POLL)
        if connection is not None:
            connection.close()
