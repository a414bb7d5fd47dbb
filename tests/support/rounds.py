"""Rounds under the control of a test, which chooses the commands of a batch and when it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import psycopg

from service.eventstore.connect.connection import Connection, connect
from service.eventstore.declare import names
from service.eventstore.declare.commands import Command, Outcome
from service.eventstore.state.cache import Entry, StateCache
from service.eventstore.state.unit import Registry
from service.eventstore.write import round as round_module
from service.eventstore.write.round import Round, RoundResult
from service.eventstore.write.warming import load_into
from service.sql import Statement
from tests.support import toy


def entry_of(command: Command) -> Entry:
    """Make a submission without a loop: its answer is read from the round."""
    return Entry(command, Future())


class Bench:
    """A committing session of one's own: a connection, a cache, and rounds over them."""

    def __init__(self, url: str, registry: Registry = toy.REGISTRY) -> None:
        self.connection: Connection = connect(url, application="test-round")
        self.registry = registry
        self.cache = StateCache()
        self.round = Round(registry, self.cache)

    def run(self, *entries: Entry | Command, wait_ms: int | None = 200) -> RoundResult:
        """Run one round over these, in this order."""
        made = [e if isinstance(e, Entry) else entry_of(e) for e in entries]
        return self.round.run(self.connection, made, wait_ms=wait_ms)

    def load(self, result: RoundResult) -> None:
        """Load what a round found too heavy."""
        wanted = [stream for stream, _ in result.heavy.values()]
        load_into(self.connection, self.registry, self.cache, wanted)

    def answers(self, *entries: Entry | Command) -> list[Any]:
        """Run one round; its answers in the order of the commands: a decoded body, an exception, or "busy"."""
        made = [e if isinstance(e, Entry) else entry_of(e) for e in entries]
        result = self.run(*made)
        found: dict[int, Any] = {id(entry): answer for entry, answer in result.done}
        return [body(found.get(id(entry), "busy")) for entry in made]

    def close(self) -> None:
        self.connection.close()


def body(answer: Any) -> Any:
    """Decode an outcome's body; leave anything else as it is."""
    return msgspec.json.decode(answer.body or b"null") if isinstance(answer, Outcome) else answer


@contextmanager
def between_locks_and_decisions(act: Callable[[], None]) -> Iterator[None]:
    """For a block, run `act` in each round after its locks and loads, before its units."""
    original = round_module.lock_and_load

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        loaded = original(*args, **kwargs)
        act()
        return loaded

    round_module.lock_and_load = interrupted
    try:
        yield
    finally:
        round_module.lock_and_load = original


def history(connection: psycopg.Connection[Any], *, of: str = "%") -> list[tuple[str, int, str]]:
    """Whole history as (stream, revision, topic without its version), in the order of insertion."""
    rows = connection.execute(
        "select stream_id, revision, topic from events where stream_id like %s order by seq", (of,)
    ).fetchall()
    return [(stream, revision, topic.rpartition(".v")[0]) for stream, revision, topic in rows]


def count(connection: psycopg.Connection[Any], table: str) -> int:
    """Rows in a table."""
    [[number]] = connection.execute(f"select count(*) from {table}".encode()).fetchall()
    return int(number)


class Spy:
    """A connection that records its statements, and may return something else."""

    def __init__(self, connection: Connection, instead: dict[Statement, Statement] | None = None) -> None:
        self._connection = connection
        self._instead = instead or {}
        self.said: list[Statement] = []

    def execute(self, query: Statement, *args: Any, **kwargs: Any) -> Any:
        self.said.append(query)
        return self._connection.execute(self._instead.get(query, query), *args, **kwargs)

    @contextmanager
    def pipeline(self) -> Iterator[None]:
        self.said.append("[")
        with self._connection.pipeline():
            yield
        self.said.append("]")


def wait_until(true: Callable[[], object], timeout: float = 5.0) -> None:
    """Poll every few milliseconds until something is true."""
    end = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < end, "this did not come true in time"
        time.sleep(0.005)


def is_waiting(watcher: psycopg.Connection[Any], session: psycopg.Connection[Any]) -> bool:
    """Whether a session waits for a lock."""
    rows = watcher.execute("select wait_event_type from pg_stat_activity where pid = %s", (session.info.backend_pid,))
    return rows.fetchone() == ("Lock",)


@contextmanager
def holding(url: str, *statements: tuple[str, tuple[Any, ...]]) -> Iterator[psycopg.Connection[Any]]:
    """A stalled peer: a transaction that holds locks and sends nothing more. It may be ended from outside."""
    connection = psycopg.connect(url)
    try:
        for statement, parameters in statements:
            connection.execute(statement.encode(), parameters)
        yield connection
        with suppress(psycopg.OperationalError):
            connection.rollback()
    finally:
        connection.close()


def head(stream: str) -> tuple[str, tuple[Any, ...]]:
    """Hold the head of a stream, as a writer does."""
    return "select 1 from stream_heads where stream_id = %s for no key update", (stream,)


def name(name: str, *, shared: bool = False) -> tuple[str, tuple[Any, ...]]:
    """Hold a name: a gate, a key, a stream that does not exist."""
    return f"select pg_advisory_xact_lock{'_shared' if shared else ''}(%s)", (names.lock_number(name),)
