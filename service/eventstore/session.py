"""The session of a thread that writes: opened when it is needed, and anew after it was lost."""

from __future__ import annotations

import time

import psycopg

from service.eventstore.connection import Connection, connect

RECONNECT_PAUSE = 0.05  # seconds; nobody is refused meanwhile: what waits is parked until its deadline


class WritingSession:
    """Keeps one connection. Belongs to one thread."""

    def __init__(self, conninfo: str, application: str) -> None:
        self.application = application
        self.connection: Connection | None = None
        self.pid = 0  # of the last connection
        self._conninfo = conninfo

    def open(self) -> Connection:
        """The connection, opened if there is none. Raises psycopg.OperationalError when the database is not there."""
        if self.connection is None:
            try:
                self.connection = connect(self._conninfo, application=self.application)
            except psycopg.Error:
                time.sleep(RECONNECT_PAUSE)
                raise
            self.pid = self.connection.info.backend_pid
        return self.connection

    def rollback(self) -> None:
        """End a transaction that failed; a connection that cannot is closed."""
        try:
            if self.connection is not None:
                self.connection.execute("rollback")
        except psycopg.Error:
            self.close()

    def close(self) -> None:
        """Close the connection."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()
