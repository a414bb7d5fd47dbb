"""A database that falls silent ends every command: it is asked beside whatever a command does, and has to answer.

What waits for a server that has stopped, or for a host that is gone, waits in many places: in the driver, in threads,
in other programs. So one thread asks on a connection of its own, and ends the wait of all of them from outside.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import click

ANSWER_SECONDS = 3.0
"""Within so many it has to answer, however busy it is."""
EVERY_SECONDS = 1.0
UNWIND_SECONDS = 0.7
"""So long a command may take to leave what it was doing; then its process ends."""
SENTENCE = (
    "The database does not answer, and the command has stopped. The database may still finish "
    "the last step, so check when it answers again."
)


class Silent(click.ClickException):
    """The database has stopped answering."""

    def __init__(self) -> None:
        super().__init__(SENTENCE)


class _Watch(threading.Thread):
    """Asks until the block is over; tells the main thread when no answer comes."""

    def __init__(self, url: str, exit_code: int, tell: Callable[[str], None]) -> None:
        super().__init__(name="service-cli-silence", daemon=True)
        self.over = threading.Event()
        self._url = url
        self._exit_code = exit_code
        self._tell = tell

    def run(self) -> None:
        """Ask, until the block is over or no answer has come in time."""
        while not self.over.is_set():
            if self._falls_silent():
                self._give_up()
                return
            self.over.wait(EVERY_SECONDS)

    def _falls_silent(self) -> bool:
        """Whether it takes questions and answers none. A refusal is an answer: the command has it too."""
        import psycopg

        from service.eventstore.connect.hosts import CONNECT_SECONDS, answering_within

        asked = time.monotonic()
        try:
            with psycopg.connect(
                self._url, autocommit=True, application_name="service-cli-silence", connect_timeout=CONNECT_SECONDS
            ) as connection:
                while not self.over.is_set():
                    asked = time.monotonic()
                    with answering_within(connection, ANSWER_SECONDS):
                        connection.execute("select 1")
                    self.over.wait(EVERY_SECONDS)
        except psycopg.errors.ConnectionTimeout:
            return True
        except psycopg.Error:
            return time.monotonic() - asked >= ANSWER_SECONDS
        return False

    def _give_up(self) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR2)
        if not self.over.wait(UNWIND_SECONDS):
            with suppress(OSError, ValueError):
                self._tell(f"Error: {SENTENCE}")
            os._exit(self._exit_code)


@contextmanager
def noticing_silence(url: str, exit_code: int, tell: Callable[[str], None]) -> Iterator[None]:
    """Raise Silent in a block, some four seconds after the database has fallen silent; main thread only.

    Where the block cannot be left, the process ends with the exit code instead; `tell` prints why.
    """
    watch = _Watch(url, exit_code, tell)

    def raise_silent(*_: object) -> None:
        if not watch.over.is_set():
            raise Silent

    # It stays in place: the signal may come in the moment in which the block ends.
    signal.signal(signal.SIGUSR2, raise_silent)
    watch.start()
    try:
        yield
    finally:
        watch.over.set()
