"""Turns and times of bounded queries, on a real database: a slow tenant keeps nobody else from an answer (G-151)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from service.analytics import queries as module
from service.analytics.bounded import Bounded, Rows, Window
from service.analytics.queries import QueriesBusy, QueryTime
from service.eventstore.store import QUERY_CONNECTIONS
from statemachines.kernel.machine import ReadFailed
from tests.support.questions import PROJECT, Questions
from tests.support.questions import questions as questions  # noqa: PLC0414 (a fixture is found by name)

GATE = 815
QUICK = "select 1 limit %(most)s"
SLOW = f"select pg_advisory_lock_shared({GATE})::text limit %(most)s"
"""Waits until the gate opens."""
GIVE_UP = 20.0


def asked(sql: str, source: str = "events") -> Bounded:
    return Bounded(
        source=source,  # type: ignore[arg-type]
        local=sql,
        connected=None,
        row=tuple[int],
        values={},
        window=Window(0, 1),
        as_of=1,
    )


@asynccontextmanager
async def closed_gate(questions: Questions) -> AsyncIterator[Callable[[], None]]:
    """A gate at which slow queries stand until the returned function opens it, at the end of the block at latest."""
    questions.connection.execute("select pg_advisory_lock(%s)", (GATE,))

    def unlock() -> None:
        questions.connection.execute("select pg_advisory_unlock_all()")

    try:
        yield unlock
    finally:
        unlock()


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something to be so."""
    async with asyncio.timeout(GIVE_UP):
        while not holds():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.01)


def standing(questions: Questions) -> int:
    """How many queries stand at the gate."""
    row = questions.connection.execute(
        "select count(*) from pg_locks where locktype = 'advisory' and not granted and database = "
        "(select oid from pg_database where datname = current_database())"
    ).fetchone()
    assert row is not None
    return int(row[0])


async def test_slow_queries_of_one_tenant_leave_a_connection_to_the_others(questions: Questions) -> None:
    """Of two connections a tenant has one, however much it asks; all the others are answered beside it."""
    async with closed_gate(questions) as unlock:
        slow = [asyncio.create_task(questions.queries.ask(PROJECT, "greedy", asked(SLOW))) for _ in range(4)]
        await until(lambda: standing(questions) == 1 and questions.queries.waiting == len(slow) - 1)
        for number in range(20):
            found = await questions.queries.ask(PROJECT, f"modest-{number % 3}", asked(QUICK))
            assert isinstance(found, Rows)
            assert found.rows == [(1,)]
            assert standing(questions) == 1, "the greedy one has one still, and no more"
        unlock()
        for task in slow:
            assert isinstance(await task, Rows)


async def test_a_turn_that_does_not_come_is_told_as_busy(questions: Questions, monkeypatch: pytest.MonkeyPatch) -> None:
    """429 with Retry-After, while the one before goes on; likewise at once when too many wait already."""
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.2)
    async with closed_gate(questions) as unlock:
        first = asyncio.create_task(questions.queries.ask(PROJECT, "one", asked(SLOW)))
        await until(lambda: standing(questions) == 1)
        with pytest.raises(QueriesBusy) as refused:
            await questions.queries.ask(PROJECT, "one", asked(QUICK))
        assert refused.value.code == "rate_limited"
        assert refused.value.headers["retry-after"]
        assert questions.queries.waiting == 0
        monkeypatch.setattr(module, "WAIT_SECONDS", GIVE_UP)
        crowd = [
            asyncio.create_task(questions.queries.ask(PROJECT, "one", asked(QUICK))) for _ in range(module.MOST_WAITING)
        ]
        await until(lambda: questions.queries.waiting == module.MOST_WAITING)
        with pytest.raises(QueriesBusy):
            await questions.queries.ask(PROJECT, "one", asked(QUICK))
        unlock()
        for task in (first, *crowd):
            assert isinstance(await task, Rows)


async def test_a_query_beyond_its_time_has_failed_and_is_ended_in_the_server(questions: Questions) -> None:
    """Whoever waits hears so, the next one has the connection, and nothing runs on."""
    async with closed_gate(questions):
        found = await questions.queries.ask(PROJECT, "one", asked(SLOW), QueryTime(0.3))
        assert found == ReadFailed("timeout")
        await until(lambda: standing(questions) == 0)
        assert isinstance(await questions.queries.ask(PROJECT, "one", asked(QUICK)), Rows)


async def test_the_queries_of_one_request_share_its_time(questions: Questions) -> None:
    """When the first has taken all of it, the second fails at once, and is not told to be busy."""
    async with closed_gate(questions):
        time = QueryTime(0.3)
        assert await questions.queries.ask(PROJECT, "one", asked(SLOW), time) == ReadFailed("timeout")
        assert await questions.queries.ask(PROJECT, "one", asked(QUICK), time) == ReadFailed("timeout")


async def test_who_goes_away_gives_the_turn_back(questions: Questions) -> None:
    """Also while waiting; no place is lost, whoever is cancelled when."""
    async with closed_gate(questions):
        for _ in range(3):
            tasks = [asyncio.create_task(questions.queries.ask(PROJECT, "one", asked(SLOW))) for _ in range(3)]
            await until(lambda: standing(questions) == 1 and questions.queries.waiting == 2)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await until(lambda: standing(questions) == 0)
        answers = [questions.queries.ask(PROJECT, f"tenant-{n}", asked(QUICK)) for n in range(2 * QUERY_CONNECTIONS)]
        assert {type(found) for found in await asyncio.gather(*answers)} == {Rows}


async def test_nothing_can_be_written(questions: Questions) -> None:
    """Whatever a query says: its connection is a read-only one."""
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        await questions.queries.ask(PROJECT, "one", asked("delete from deploys where project_id = %(project_id)s"))


async def test_waiting_and_reading_are_told_apart(questions: Questions) -> None:
    """In milliseconds, as they stand in Server-Timing."""
    async with closed_gate(questions) as unlock:
        first = asyncio.create_task(questions.queries.ask(PROJECT, "one", asked(SLOW)))
        await until(lambda: standing(questions) == 1)
        second = asyncio.create_task(questions.queries.ask(PROJECT, "one", asked(QUICK)))
        await until(lambda: questions.queries.waiting == 1)
        await asyncio.sleep(0.05)
        unlock()
        read, waited = await first, await second
    assert isinstance(read, Rows)
    assert isinstance(waited, Rows)
    assert read.database_ms >= 50 > read.waited_ms
    assert waited.waited_ms >= 50


@pytest.mark.parametrize("source", ["errors", "deploys"])
async def test_what_is_ours_is_never_asked_of_a_provider(questions: Questions, source: str, monkeypatch: Any) -> None:
    """Errors and deploys: the connection of a project is not even looked up (G-152)."""

    async def fail(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(questions.providers, "for_project", fail)
    found = await questions.queries.ask(PROJECT, "one", asked(QUICK, source))
    assert isinstance(found, Rows)
    assert found.kept_from is None or source == "errors"
