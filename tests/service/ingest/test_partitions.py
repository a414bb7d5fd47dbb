"""Day partitions are there in time (G-071)."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from service.ingest.kept import Partition, ensure_partitions, partitions
from tests.support.ingest import analytics_item, check_books, log_item, one, running, send

DAY = 86400


@pytest.fixture
async def connection(database_url):
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as made:
        yield made


def labels(sql, telemetry="log_events"):
    """The partitions that there are, by their days."""
    rows = sql.execute(
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid "
        "where i.inhparent = %s::regclass order by 1",
        (telemetry,),
    )
    return [name.removeprefix(telemetry + "_") for (name,) in rows]


def advance(sql, days):
    sql.execute("select advance_service_clock(%s)", (days * DAY,))


def placed(sql, telemetry="log_events"):
    """In which partitions the rows are, by their label."""
    found = sql.execute(f"select tableoid::regclass::text, count(*) from {telemetry} group by 1 order by 1").fetchall()
    return {name.removeprefix(telemetry + "_"): count for name, count in found}


def label(sql, days=0):
    return one(sql, "select to_char((service_now() + %s * interval '1 day') at time zone 'UTC', 'YYYYMMDD')", days)


async def test_the_first_days_have_partitions_from_the_beginning(database_url, sql):
    assert labels(sql) == [*(label(sql, days) for days in range(-1, 8)), "default"]
    async with running(database_url) as intake:
        await send(intake, log_item("m"), analytics_item())
    assert placed(sql) == placed(sql, "analytics_events") == {label(sql): 1}


async def test_partitions_are_made_ahead_and_only_once(connection, sql):
    advance(sql, 3)
    assert await ensure_partitions(connection)
    made = labels(sql)
    assert label(sql, 7) in made
    assert await ensure_partitions(connection)
    assert labels(sql) == made
    assert len(made) == 13


async def test_a_day_without_a_partition_is_caught_and_moved(database_url, connection, sql):
    async with running(database_url) as intake:
        advance(sql, 40)
        await send(intake, log_item("m"), analytics_item())
        assert placed(sql) == placed(sql, "analytics_events") == {"default": 1}
        assert await ensure_partitions(connection)
        await send(intake, log_item("m"))
    assert placed(sql) == {label(sql): 2}
    assert placed(sql, "analytics_events") == {label(sql): 1}
    indexes = "select count(*) from pg_indexes where tablename = %s"
    assert one(sql, indexes, f"log_events_{label(sql)}") == one(sql, indexes, "log_events_default") == 4
    check_books(sql)


async def test_a_day_that_caught_too_much_stays_where_it_is(database_url, sql):
    async with running(database_url) as intake:
        advance(sql, 40)
        await send(intake, *(log_item("m") for _ in range(3)))
        day = one(sql, "select floor(extract(epoch from service_now()) / 86400)::bigint * 86400")
        assert one(sql, "select ensure_partition('log_events', %s, 2)", day) is False
        assert placed(sql) == {"default": 3}
        assert one(sql, "select ensure_partition('log_events', %s, 3)", day) is True
        assert placed(sql) == {label(sql): 3}


async def test_ingest_goes_on_while_partitions_are_made(database_url, connection, sql):
    async with running(database_url) as intake:
        advance(sql, 40)
        stop = asyncio.Event()
        count = 0

        async def client():
            nonlocal count
            while not stop.is_set():
                [answer] = await send(intake, log_item("m"))
                assert answer["ok"]
                count += 1

        clients = asyncio.gather(*(client() for _ in range(8)))
        await asyncio.sleep(0.1)
        while not await ensure_partitions(connection):  # noqa: ASYNC110 - it gives way to ingest, and tries again
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.1)
        stop.set()
        await clients
    assert placed(sql) == {label(sql): count}
    check_books(sql)


async def test_a_lock_held_by_another_is_not_waited_for(database_url, connection, sql):
    advance(sql, 40)
    with psycopg.connect(database_url) as session:
        session.execute("lock table log_events_default in row exclusive mode")
        assert await ensure_partitions(connection, 0) is False
    assert label(sql) not in labels(sql)
    assert label(sql) in labels(sql, "analytics_events")
    assert await ensure_partitions(connection, 0)


async def test_a_partition_is_told_by_its_day(connection, sql):
    today = one(sql, "select floor(extract(epoch from service_now()) / 86400)::bigint * 86400")
    first, *others, last = await partitions(connection, "log_events")
    assert first == Partition("log_events", f"log_events_{label(sql, -1)}", today - DAY)
    assert [one_of.day for one_of in others] == [today + ahead * DAY for ahead in range(8)]
    assert (last.name, last.day) == ("log_events_default", None)
    assert first.ended_at(today)
    assert not first.ended_at(today - 1)
    assert not last.ended_at(1 << 60)
