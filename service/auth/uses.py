"""When a key, session or credential was last used: noted in memory, written in the background (G-040).

Not a command and not an event: losing a note to a crash loses a minute of a hint. Nothing on the hot path waits for
it, and a row is rewritten at most once a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import psycopg
import structlog

from projections.accounts import key as keys
from projections.accounts import session as sessions
from projections.credentials import credential as credentials
from projections.kernel.projection import Table
from service.eventstore.connect.connection import has_ended
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore

log = structlog.get_logger(__name__)

FLUSH_SECONDS = 1.0
KEEP_SECONDS = 60  # a newer use within this time is not written
MOST_NOTES = 10_000

_WRITE: dict[Table[Any], str] = {
    keys.KEY_USES: load_sql("auth", "use_keys"),
    sessions.SESSION_USES: load_sql("auth", "use_sessions"),
    credentials.CREDENTIAL_USES: load_sql("auth", "use_credentials"),
}


class Uses:
    """The notes of one process, and the task that writes them."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._notes: dict[Table[Any], set[tuple[str, str]]] = {table: set() for table in _WRITE}
        self._connection: psycopg.AsyncConnection[tuple[Any, ...]] | None = None
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def note(self, table: Table[Any], scope_id: str, id: str) -> None:  # noqa: A002
        """Note a use; `table` is KEY_USES, SESSION_USES or CREDENTIAL_USES."""
        notes = self._notes[table]
        if len(notes) < MOST_NOTES:
            notes.add((scope_id, id))

    def start(self) -> None:
        """Write the notes every second from now on."""
        self._task = asyncio.create_task(self._run(), name="credential-uses")

    async def stop(self) -> None:
        """Write what is noted and close the connection."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self.flush()
        if self._connection is not None:
            await self._connection.close()

    async def flush(self) -> None:
        """Write what is noted now. A database that is not there costs the notes and nothing else."""
        async with self._lock:
            due = {table: sorted(notes) for table, notes in self._notes.items() if notes}
            for table in due:
                self._notes[table].clear()
            try:
                for table, names in due.items():
                    connection = await self._connected()
                    scopes, ids = [scope for scope, _ in names], [name for _, name in names]
                    values = {"scopes": scopes, "ids": ids, "kept": KEEP_SECONDS}
                    await connection.execute(_WRITE[table].encode(), values)
            except (psycopg.Error, OSError) as error:
                log.warning("uses_not_written", cause=type(error).__name__)

    async def _connected(self) -> psycopg.AsyncConnection[tuple[Any, ...]]:
        if self._connection is not None and has_ended(self._connection):
            await self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = await psycopg.AsyncConnection.connect(
                self._store.conninfo, autocommit=True, application_name="service-uses", connect_timeout=2
            )
            await self._connection.execute("set statement_timeout = '2s'")
        return self._connection

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await self.flush()
