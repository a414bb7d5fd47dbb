"""Day partitions are there in time, and old telemetry goes without taking the case along (G-071)."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
import structlog

from service.ingest import retention
from service.ingest.retention import drop_empty_partitions, ensure_partitions, purge, purge_project
from tests.support.ingest import OTHER, PROJECT, analytics_item, check_books, log_item, one, running, send, sender

DAY = 86400


@pytest.fixture
async def connection(database_url):
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as made:
        yield made


def partitions(sql, telemetry="log_events"):
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
    assert partitions(sql) == [*(label(sql, days) for days in range(-1, 8)), "default"]
    async with running(database_url) as intake:
        await send(intake, log_item("m"), analytics_item())
    assert placed(sql) == placed(sql, "analytics_events") == {label(sql): 1}


async def test_partitions_are_made_ahead_and_only_once(connection, sql):
    advance(sql, 3)
    assert await ensure_partitions(connection)
    made = partitions(sql)
    assert label(sql, 7) in made
    assert await ensure_partitions(connection)
    assert partitions(sql) == made
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
    assert label(sql) not in partitions(sql)
    assert label(sql) in partitions(sql, "analytics_events")
    assert await ensure_partitions(connection, 0)


async def test_old_telemetry_goes_and_the_case_stays(database_url, connection, sql, monkeypatch):
    monkeypatch.setattr(retention, "STEP", 2)
    async with running(database_url) as intake:
        await send(intake, *(log_item(f"m {n}", user={"id": "u"}, tags={"n": str(n)}) for n in range(5)))
        await send(intake, analytics_item(), log_item("m 9", of=sender(OTHER)))
        advance(sql, 20)
        [last] = await send(intake, log_item("m 7", tags={"last": "yes"}))
        await send(intake, log_item("m 8", level="info"))
        counted = "select event_count, users_affected, first_seen_at from case_stats order by 1"
        stats = sql.execute(counted).fetchall()
        assert await purge_project(connection, PROJECT, 19) == 6
        assert one(sql, "select count(*) from log_events where project_id = %s", PROJECT) == 2
        assert one(sql, "select count(*) from log_events where project_id = %s", OTHER) == 1
        sample = one(sql, "select sample from case_stats where project_id = %s", PROJECT)
        assert sample["message"] in {f"m {n}" for n in range(5)}
        advance(sql, 30)
        assert await purge_project(connection, PROJECT, 29) == 2
    sample = one(sql, "select sample from case_stats where project_id = %s", PROJECT)
    assert (sample["id"], sample["message"], sample["tags"], sample["user_id"]) == (
        last["id"],
        "m 7",
        {"last": "yes"},
        None,
    )
    assert sample["received_at"] == last["received_at"]
    assert (
        stats == sql.execute("select event_count, users_affected, first_seen_at from case_stats order by 1").fetchall()
    )
    assert one(sql, "select count(*) from cases") == 2


async def test_empty_partitions_go_once_no_plan_keeps_them(database_url, connection, sql):
    async with running(database_url) as intake:
        await send(intake, log_item("m"), analytics_item())
    first, before = label(sql), label(sql, -1)
    advance(sql, 60)
    assert await drop_empty_partitions(connection, 40) == 2 * 9 - 2
    assert partitions(sql) == [first, "default"]
    assert await purge(connection, {PROJECT: 30, OTHER: 30}, 40) == 2
    assert partitions(sql) == partitions(sql, "analytics_events") == ["default"]
    assert before not in partitions(sql)


async def test_only_a_purge_that_took_something_is_logged(database_url, connection, sql, monkeypatch):
    logged = structlog.testing.CapturingLogger()
    monkeypatch.setattr(retention, "log", logged)  # whatever another test has set up for a process
    async with running(database_url) as intake:
        await send(intake, log_item("m"))
    await purge(connection, {PROJECT: 30}, 365)
    assert logged.calls == []
    advance(sql, 40)
    assert await purge(connection, {PROJECT: 30}, 365) == 1
    [call] = logged.calls
    assert (call.args, call.kwargs) == (("telemetry_purged",), {"rows": 1, "partitions": 0})


async def test_usage_outlives_telemetry_but_not_for_ever(database_url, connection, sql):
    async with running(database_url) as intake:
        await send(intake, log_item("m"))
    advance(sql, 300)
    await purge(connection, {PROJECT: 30}, 365)
    assert one(sql, "select sum(errors) from usage_days") == 1
    assert one(sql, "select count(*) from ingest_flushers") == 0
    advance(sql, 101)
    await purge(connection, {PROJECT: 30}, 365)
    assert one(sql, "select count(*) from usage_days") == 0
