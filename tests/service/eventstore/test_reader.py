"""Reads for callers: in turn, and within the time that each has."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from service.eventstore.read.reader import Caller, Reader, read_as, reading_for
from service.eventstore.store import LONG_WAITING, EventStore
from service.fairness.turns import ReadNotDone

Sql = psycopg.Connection[Any]
SLOW = "select pg_sleep(60)"


async def read(store: EventStore, tenant: str, seconds: float, query: str = "select 1") -> Any:
    with reading_for(Caller(tenant, seconds)):
        return await store.fetch(query)


def asleep(sql: Sql) -> int:
    [(count,)] = sql.execute(
        "select count(*) from pg_stat_activity where datname = current_database() and state = 'active' and query = %s",
        (SLOW,),
    ).fetchall()
    return int(count)


async def test_slow_reads_of_one_leave_the_others_theirs(store: EventStore, sql: Sql):
    """Twelve at once: two run, the others wait; who only has something to look up is answered meanwhile."""
    slow = [asyncio.create_task(read(store, "slow", 3.0, SLOW)) for _ in range(12)]
    await asyncio.sleep(0.3)
    assert asleep(sql) == 2
    assert await read(store, "quick", 1.0) == [(1,)]
    assert await store.doors.fetch("select 2") == [(2,)]
    assert await store.fetch("select 3") == [(3,)]
    assert not any(task.done() for task in slow)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_a_read_ends_with_its_time_in_the_server_too(store: EventStore, sql: Sql):
    with pytest.raises(ReadNotDone):
        await read(store, "slow", 0.2, SLOW)
    async with asyncio.timeout(5):
        while asleep(sql):  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)
    assert await read(store, "slow", 1.0) == [(1,)]


async def test_reads_of_the_processs_own_wait_for_each_other(store: EventStore):
    """They take no turn, so more of them than there are connections come at once; each gets the next one given back."""
    answers = await asyncio.gather(*(store.fetch("select 1 from pg_sleep(0.02)") for _ in range(60)))
    assert answers == [[(1,)]] * 60


async def test_a_read_that_outlives_the_pool_leaves_no_connection(store: EventStore, sql: Sql):
    reader = Reader(store.conninfo, "outliving", connections=2, per_tenant=1)
    await reader.start()
    last = asyncio.create_task(reader.fetch("select 1 from pg_sleep(0.3)"))
    await asyncio.sleep(0.1)
    await reader.stop()
    assert await last == [(1,)]
    query = "select count(*) from pg_stat_activity where application_name = 'outliving'"
    async with asyncio.timeout(10):
        while sql.execute(query).fetchall() != [(0,)]:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.05)


async def test_the_time_is_that_of_all_reads_of_a_request(store: EventStore):
    """Neither two slow ones after another nor the time that something else took in between is what counts."""
    with reading_for(Caller("one", 0.5)):
        await store.fetch("select pg_sleep(0.3)")
        await asyncio.sleep(0.3)
        await store.fetch("select 1")
        with pytest.raises(ReadNotDone):
            await store.fetch(SLOW)
        with pytest.raises(ReadNotDone):
            await store.fetch("select 1")


async def test_a_caller_gets_its_name_when_it_is_known(store: EventStore, sql: Sql):
    """What is read until then counts to where the request comes from, and takes nothing of the tenant's share."""

    async def known_late() -> None:
        with reading_for(Caller("127.0.0.1", 3.0)):
            await store.doors.fetch("select 1")
            read_as("tenant")
            await store.fetch(SLOW)

    late = [asyncio.create_task(known_late()) for _ in range(4)]
    await asyncio.sleep(0.3)
    assert asleep(sql) == 2
    assert await read(store, "127.0.0.1", 1.0) == [(1,)]
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)


async def test_of_long_reads_each_tenant_has_one_at_a_time(store: EventStore):
    """However many it asks for: some wait, more are refused, and whoever else asks comes in at once."""
    begun: list[str] = []
    go_on = asyncio.Event()

    async def read(tenant: str) -> None:
        with reading_for(Caller(tenant, 5.0)):
            async with store.long_read():
                begun.append(tenant)
                await go_on.wait()

    rush = [asyncio.create_task(read("a")) for _ in range(2 + LONG_WAITING)]
    await asyncio.sleep(0)
    other = asyncio.create_task(read("b"))
    await asyncio.sleep(0.01)
    assert begun == ["a", "b"]
    go_on.set()
    answers = await asyncio.gather(*rush, other, return_exceptions=True)
    assert [type(answer) for answer in answers if answer is not None] == [ReadNotDone]
