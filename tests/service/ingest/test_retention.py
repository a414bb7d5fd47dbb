"""Old telemetry goes by the plan of each account, and does not take the case along (G-071)."""

from __future__ import annotations

import psycopg
import pytest
import structlog

from service.billing.plans import Retention
from service.eventstore.declare import commands
from service.ingest import kept as kepts
from service.ingest.kept import purge
from tests.service.ingest.test_partitions import advance, label, labels, placed
from tests.service.ingest.test_partitions import connection as connection  # noqa: PLC0414 (a fixture)
from tests.support.ingest import (
    OTHER,
    PROJECT,
    analytics_item,
    log_item,
    make_project,
    make_public,
    miscounted,
    one,
    public_sender,
    running,
    send,
    sender,
)

LONG = 400


def kept(days=None, longest=LONG, **payers):
    """How long projects are kept: those two of the tests, each of an account of its own."""
    days = days or {PROJECT: 30, OTHER: 30}
    return Retention(days, {project: payers.get(project, f"usr_{project}") for project in days}, longest)


def left(sql, table="log_events"):
    return dict(sql.execute(f"select project_id, count(*) from {table} group by 1").fetchall())


async def test_old_telemetry_goes_and_the_case_stays(database_url, connection, sql, monkeypatch):
    monkeypatch.setattr(kepts, "STEP", 2)
    async with running(database_url) as intake:
        await send(intake, *(log_item(f"m {n}", user={"id": "u"}, tags={"n": str(n)}) for n in range(5)))
        await send(intake, analytics_item(), log_item("m 9", of=sender(OTHER)))
        advance(sql, 20)
        [last] = await send(intake, log_item("m 7", tags={"last": "yes"}))
        await send(intake, log_item("m 8", level="info"))
        counted = "select event_count, users_affected, first_seen_at from case_stats order by 1"
        stats = sql.execute(counted).fetchall()
        assert await purge(connection, kept({PROJECT: 19})) == 6
        assert left(sql) == {PROJECT: 2, OTHER: 1}
        sample = one(sql, "select sample from case_stats where project_id = %s", PROJECT)
        assert sample["message"] in {f"m {n}" for n in range(5)}
        advance(sql, 30)
        assert await purge(connection, kept({PROJECT: 29})) == 2
    sample = one(sql, "select sample from case_stats where project_id = %s", PROJECT)
    assert (sample["id"], sample["message"], sample["tags"], sample["user_id"]) == (
        last["id"],
        "m 7",
        {"last": "yes"},
        None,
    )
    assert sample["received_at"] == last["received_at"]
    assert stats == sql.execute(counted).fetchall()
    assert one(sql, "select count(*) from cases") == 2
    assert miscounted(sql) == {}


def forbid_deletes(sql, partition):
    """Let every statement fail that deletes rows of a partition."""
    sql.execute(
        "create or replace function no_deletes() returns trigger language plpgsql as "
        "$$ begin raise exception 'rows were deleted from %', tg_table_name; end $$"
    )
    sql.execute(
        f"create trigger no_deletes before delete on {partition} for each statement execute function no_deletes()"
    )


async def test_a_day_that_no_plan_keeps_goes_whole(database_url, connection, sql, monkeypatch):
    """Without a row of it being deleted before; each case keeps its last error, however many went with the day."""
    monkeypatch.setattr(kepts, "CASES", 2)
    async with running(database_url) as intake:
        await send(
            intake, *(log_item(f"{word} {n}") for word in ("one", "two", "three", "four", "five") for n in (1, 2))
        )
        await send(intake, analytics_item(), log_item("m", of=sender(OTHER)), log_item("fine", level="info"))
        first = label(sql)
        advance(sql, 1)
        [later] = await send(intake, log_item("five 3"))
        for table in ("log_events", "analytics_events"):
            forbid_deletes(sql, f"{table}_{first}")
        advance(sql, 29)
        assert await purge(connection, kept(longest=30)) == 0
        assert placed(sql)[first] == 12  # kept to the end of its last day
        advance(sql, 1)
        assert await purge(connection, kept(longest=30)) == 0
    assert first not in labels(sql) + labels(sql, "analytics_events")
    assert left(sql) == {PROJECT: 1}
    samples = sql.execute(
        "select title, sample->>'message', event_count from case_stats where project_id = %s", (PROJECT,)
    )
    found = {title.split()[0]: (message, count) for title, message, count in samples.fetchall()}
    assert set(found) == {"one", "two", "three", "four", "five"}
    assert all(message.split()[0] == title for title, (message, _) in found.items())
    assert {count for _, count in found.values()} == {2, 3}
    assert miscounted(sql) == {}
    advance(sql, 1)
    assert await purge(connection, kept(longest=30)) == 0
    assert labels(sql)[-1] == "default"
    last = one(sql, "select sample from case_stats where title like 'five%%' and project_id = %s", PROJECT)
    assert last["id"] == later["id"]
    assert miscounted(sql) == {}


@pytest.mark.parametrize("whole", [False, True], ids=["rows of a plan", "a whole day"])
async def test_a_sample_says_by_which_dsn_its_error_came(database_url, connection, sql, whole):
    make_public(sql)
    async with running(database_url) as intake:
        for text, last in (("by a page", public_sender()), ("by a server", sender())):
            for of in (sender(), public_sender(), last):
                await send(intake, log_item(text, of=of))
        advance(sql, 31)
        await purge(connection, kept(longest=30) if whole else kept({PROJECT: 29}))
    assert left(sql) == {}
    assert dict(sql.execute("select sample->>'message', sample->>'dsn' from case_stats").fetchall()) == {
        "by a page": "public",
        "by a server": "server",
    }


async def test_what_people_wrote_goes_as_old_as_errors_go(database_url, connection, sql, monkeypatch):
    """Step by step, of each project by its own plan."""
    monkeypatch.setattr(kepts, "STEP", 2)
    sql.execute(
        "insert into feedback_reports (project_id, received_at, id, sent_key, source, message, public) "
        "select p, service_today() - d * 86400, p || d, d, 'feedback', '', false "
        "from unnest(array[%s, %s]) p, generate_series(15, 24) d",
        (PROJECT, OTHER),
    )
    assert await purge(connection, kept({PROJECT: 19, OTHER: 21})) == 0
    assert left(sql, "feedback_reports") == {PROJECT: 5, OTHER: 7}


async def test_a_day_in_use_waits_for_the_next_run(database_url, connection, sql, monkeypatch):
    """None of its rows is deleted meanwhile: it is to go whole."""
    monkeypatch.setattr("service.ingest.kept.DROP_TRIES", 1)
    async with running(database_url) as intake:
        await send(intake, log_item("m"))
    first = label(sql)
    forbid_deletes(sql, f"log_events_{first}")
    advance(sql, 40)
    with psycopg.connect(database_url) as reader:
        reader.execute(f"select from log_events_{first}")
        assert await purge(connection, kept(longest=30)) == 0
    assert first in labels(sql)
    await purge(connection, kept(longest=30))
    assert first not in labels(sql)


async def test_shorter_plans_end_within_days_that_longer_ones_keep(database_url, connection, sql):
    """Also where the day never got a partition; a project that is being deleted is left to those who delete it."""
    make_project(sql, "proj_00000003", "usr_third")
    senders = [sender(project) for project in (PROJECT, OTHER, "proj_00000003")]
    async with running(database_url) as intake:
        await send(intake, *(log_item("m", of=one_of) for one_of in senders))
        await send(intake, *(analytics_item(of=one_of) for one_of in senders))
        advance(sql, 60)
        await send(intake, *(log_item("m", of=one_of) for one_of in senders))
        assert set(placed(sql)) == {label(sql, -60), "default"}
        advance(sql, 31)
        await send(intake, *(log_item("m", of=one_of) for one_of in senders))
        days = {PROJECT: 30, OTHER: 365}
        assert await purge(connection, kept(days, longest=365)) == 3
    assert left(sql) == {PROJECT: 1, OTHER: 3, "proj_00000003": 3}
    assert left(sql, "analytics_events") == {OTHER: 1, "proj_00000003": 1}
    assert await purge(connection, kept(days, longest=365)) == 0
    assert miscounted(sql) == {}


async def test_accounts_take_turns_and_a_stopped_run_is_gone_on_with(database_url, connection, sql, monkeypatch):
    """One has very much to go, another little: it waits for one turn of each. A kill costs at most one step."""
    monkeypatch.setattr(kepts, "STEP", 2)
    async with running(database_url) as intake:
        await send(intake, *(log_item("m") for _ in range(9)), *(log_item("m", of=sender(OTHER)) for _ in range(3)))
    advance(sql, 40)
    seen = [(9, 3)]  # rows that are left of each, after every step

    async def look(_):
        rows = left(sql)
        seen.append((rows.get(PROJECT, 0), rows.get(OTHER, 0)))
        if seen[-1] == (5, 1):
            raise InterruptedError

    monkeypatch.setattr(kepts, "leave_room", look)
    with pytest.raises(InterruptedError):
        await purge(connection, kept())
    assert list(dict.fromkeys(seen)) == [(9, 3), (7, 3), (7, 1), (5, 1)]
    monkeypatch.undo()
    assert await purge(connection, kept()) == 6
    assert left(sql) == {}
    assert miscounted(sql) == {}


async def test_one_process_does_it_at_a_time(database_url, connection, sql):
    async with running(database_url) as intake:
        await send(intake, log_item("m"))
    advance(sql, 40)
    async with (
        await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other,
        commands.alone(other, "retention") as free,
    ):
        assert free
        assert await purge(connection, kept()) == 0
    assert await purge(connection, kept()) == 1


async def test_only_a_purge_that_took_something_is_logged(database_url, connection, sql, monkeypatch):
    logged = structlog.testing.CapturingLogger()
    monkeypatch.setattr(kepts, "log", logged)  # whatever another test has set up for a process
    async with running(database_url) as intake:
        await send(intake, log_item("m"))
    await purge(connection, kept())
    assert logged.calls == []
    advance(sql, 40)
    assert await purge(connection, kept()) == 1
    [call] = logged.calls
    assert (call.args, call.kwargs) == (("telemetry_purged",), {"rows": 1, "partitions": 0})


async def test_usage_outlives_telemetry_but_not_for_ever(database_url, connection, sql):
    async with running(database_url) as intake:
        await send(intake, log_item("m"))
    advance(sql, 300)
    await purge(connection, kept())
    assert one(sql, "select sum(errors) from usage_days") == 1
    assert one(sql, "select count(*) from ingest_flushers") == 0
    advance(sql, 101)
    await purge(connection, kept())
    assert one(sql, "select count(*) from usage_days") == 0
