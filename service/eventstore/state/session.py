"""The session of a thread that writes: opened when it is needed, and opened again after it was lost."""

from __future__ import annotations

import time

import psycopg

from service.eventstore.connect.connection import Connection, connect
from service.eventstore.state.cache import MEBIBYTE, StateCache

CACHE_BYTES = 8 * MEBIBYTE
RECONNECT_PAUSE = 0.05  # seconds; nobody is refused meanwhile: what waits is parked until its deadline


class WritingSession:
    """Keeps one connection. Belongs to one thread.

    `first` is a statement that comes first on each connection; a transaction is ended by the server after
    `transaction_timeout_ms` (milliseconds, where the server has such a setting). `cache` is emptied when a transaction
    fails or the connection is lost.
    """

    def __init__(
        self,
        conninfo: str,
        application: str,
        *,
        first: str = "",
        transaction_timeout_ms: int = 2000,
        cache: StateCache | None = None,
    ) -> None:
        self.application = application
        self.cache = StateCache(max_bytes=CACHE_BYTES) if cache is None else cache
        self.connection: Connection | None = None
        self.pid = 0  # of the last connection
        self._conninfo = conninfo
        self._first = first.encode()
        self._transaction_timeout_ms = transaction_timeout_ms

    def open(self) -> Connection:
        """The connection, opened if there is none.

        Raises psycopg.OperationalError when the database is not there, after RECONNECT_PAUSE; there is no connection
        then.
        """
        if self.connection is None:
            try:
                connection = connect(
                    self._conninfo,
                    application=self.application,
                    transaction_timeout_ms=self._transaction_timeout_ms,
                )
            except psycopg.Error:
                time.sleep(RECONNECT_PAUSE)
                raise
            self.connection = connection
            self.pid = connection.info.backend_pid
            if self._first:
                connection.execute(self._first)
        return self.connection

    def rollback(self) -> None:
        """End a transaction that failed; a connection that cannot is closed."""
        self.cache.clear()
        try:
            if self.connection is not None:
                self.connection.execute("rollback")
        except psycopg.Error:
            self.close()

    def close(self) -> None:
        """Close the connection, and forget it."""
        self.cache.clear()
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()
