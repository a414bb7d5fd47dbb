"""A thread that repeats one thing on a connection of its own, and goes on after any error."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

import psycopg
import structlog

from service.eventstore.connect.connection import Connection
from service.eventstore.connect.fulldisk import FULL_DISK
from service.eventstore.connect.outage import OUTAGE
from service.eventstore.declare.faults import Meaning, judge
from service.eventstore.state.session import WritingSession

log = structlog.get_logger()

AGAIN_SECONDS = 0.2  # after something went wrong
STOP_SECONDS = 5.0

_GONE = frozenset({Meaning.NOT_CONNECTED, Meaning.IN_DOUBT, Meaning.OUT_OF_TIME})


class Repeating(ABC):
    """The thread: it takes turns until it is stopped, on a new connection after anything went wrong in one.

    `first` is a statement that comes before the first turn on each connection.
    """

    def __init__(self, name: str, conninfo: str, first: str = "") -> None:
        self._name = name
        self._session = WritingSession(conninfo, f"service-{name}", first=first)
        self._stopping = threading.Event()
        self._waking = threading.Event()
        self._thread = threading.Thread(target=self._main, name=f"service-{name}", daemon=True)

    @abstractmethod
    def turn(self, connection: Connection) -> float:
        """Do it once; returns how many seconds to rest before the next turn."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """End the present rest, or the next one where a turn runs. Any thread may call it."""
        self._waking.set()

    def stop(self) -> None:
        """Stop after the current turn."""
        self._stopping.set()
        self._waking.set()
        if self._thread.is_alive():
            self._thread.join(timeout=STOP_SECONDS)

    def _main(self) -> None:
        while not self._is_stopping():
            FULL_DISK.lasts  # noqa: B018 - its end is logged when somebody looks
            try:
                rest = self.turn(self._session.open())
            except Exception as error:  # noqa: BLE001 - whatever it is, the thread must survive
                self._log(error)
                self._session.close()
                rest = AGAIN_SECONDS
            if rest:
                self._waking.wait(rest)
        self._session.close()

    def _is_stopping(self) -> bool:
        # Cleared first: whoever wakes or stops it from here on ends the next rest.
        self._waking.clear()
        return self._stopping.is_set()

    def _log(self, error: Exception) -> None:
        """Say that the database went away or refused, without a stack; anything else is a bug.

        The transactions of these threads are short: one that took too long was held up by a server that stood still.
        """
        if judge(error, self._session.connection).meaning in _GONE:
            OUTAGE.began(error)
        elif FULL_DISK.met(error):
            return
        elif isinstance(error, psycopg.Error):
            log.warning("interrupted", thread=self._name, error=type(error).__name__, sqlstate=error.sqlstate)
        else:
            log.error("turn_failed", thread=self._name, exc_info=error)
