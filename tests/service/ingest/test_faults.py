"""Lost answers and lost connections: each record is stored once, and told the truth (design §4.6, §6)."""

from __future__ import annotations

import asyncio
import time

import psycopg
import pytest

from service.eventstore.declare import names
from service.eventstore.declare.commands import OutcomeUnknown
from service.fairness.turns import CommandNotDone
from service.ingest import flushing, locking
from service.ingest import intake as intake_module
from service.ingest.flushing import flusher_name
from service.ingest.intake import Intake
from service.registry import registry
from tests.support.ingest import (
    OTHER,
    PROJECT,
    SESSIONS,
    analytics_item,
    check_books,
    eventually,
    know,
    log_item,
    one,
    running,
    send,
    sender,
)
from tests.support.proxy import Fault, in_order, with_odds


def ids(sql):
    return {id_ for (id_,) in sql.execute("select id from log_events union all select id from analytics_events")}


@pytest.mark.parametrize(("fault", "ends_it"), [(Fault.EAT, True), (Fault.ZOMBIE, True), (Fault.ZOMBIE, False)])
async def test_a_commit_whose_answer_is_lost_is_found_again(proxy, sql, fault, ends_it, monkeypatch):
    """The flusher asks what became of its number before it does anything else.

    It ends the session that lost its connection; where it cannot, the lock on its own name makes it wait.
    """
    if not ends_it:
        monkeypatch.setattr(locking, "END_SESSION", "select %s::bigint, %s::text")
    async with running(proxy.url) as intake:
        assert all(answer["ok"] for answer in await send(intake, log_item("m"), analytics_item()))
        proxy.choose = in_order(fault)
        items = [*(log_item("m") for _ in range(5)), log_item("new"), log_item("k", of=sender(key="k"))]
        answers = await send(intake, *items)
        assert [answer["id"] for answer in answers] == [item.row.id for item in items]
        await eventually(lambda: proxy.fired[fault.value] == 1)
        [again] = await send(intake, log_item("k", of=sender(key="k")))
        assert again == answers[-1]
    assert one(sql, "select count(*) from log_events") == 8
    check_books(sql)


async def test_a_commit_that_stays_in_doubt_is_not_called_undone(proxy, sql, monkeypatch):
    """Nobody is told 202 or "not done" for what may be stored; the same key finds out later."""
    monkeypatch.setattr(flushing, "DOUBT_DEADLINE", 0.0)
    proxy.choose = in_order(Fault.EAT)
    intake = Intake(proxy.url, registry())
    twins = [log_item("k", of=sender(key="k")) for _ in range(2)]
    waiting = asyncio.gather(send(intake, log_item("m"), *twins))
    await asyncio.sleep(0.05)
    intake.start()  # All three are there: they come in one flush.
    [answers] = await waiting
    assert [type(answer) for answer in answers] == [OutcomeUnknown] * 3
    [found] = await send(intake, log_item("k", of=sender(key="k")))
    assert found["id"] == twins[0].row.id
    await intake.stop()
    assert one(sql, "select count(*) from log_events") == 2
    check_books(sql)


async def test_a_storm_of_lost_commits_stores_everything_once(proxy, sql):
    proxy.choose = with_odds({Fault.EAT: 0.1, Fault.ZOMBIE: 0.1}, seed=7)
    stored, unknown = set(), []
    async with running(proxy.url, batch=16) as intake:

        async def client(number):
            for turn in range(25):
                item = log_item(
                    f"kind {'abcdef'[(number + turn) % 6]}",
                    of=sender([PROJECT, OTHER][number % 2], key=f"k{number}-{turn}" if number % 3 else None),
                    user={"id": f"u{number}"},
                )
                [answer] = await send(intake, item)
                if isinstance(answer, dict):
                    stored.add(answer["id"])
                else:
                    unknown.append((item.row.id, answer))

        await asyncio.gather(*(client(number) for number in range(12)))
    assert sum(proxy.fired.values()) > 5
    assert len(stored) > 250
    assert all(isinstance(answer, CommandNotDone) for _, answer in unknown)
    assert ids(sql) == stored
    check_books(sql)


async def test_a_connection_cut_between_flushes_costs_nothing(proxy, sql):
    async with running(proxy.url) as intake:
        for _ in range(4):
            [answer] = await send(intake, log_item("m"))
            assert answer["ok"]
            proxy.cut()
    check_books(sql)


async def test_without_a_database_records_are_refused_in_time_and_later_ones_stored(database_url, sql, cluster):
    name = database_url.rpartition("@/")[2].partition("?")[0]
    async with running(database_url) as intake:
        [answer] = await send(intake, log_item("m"))
        assert answer["ok"]
        with psycopg.connect(cluster.attachment.layout.admin_url, autocommit=True) as admin:
            admin.execute(f'alter database "{name}" allow_connections false')
            sql.execute(f"select pg_terminate_backend(pid) {SESSIONS}")
            asked = time.monotonic()
            [refused] = await send(intake, log_item("m"))
            assert isinstance(refused, CommandNotDone)
            assert time.monotonic() - asked < 4.0
            admin.execute(f'alter database "{name}" allow_connections true')
        [answer] = await send(intake, log_item("m"))
        assert answer["ok"]
    assert one(sql, "select count(*) from log_events") == 2
    check_books(sql)


async def test_nobody_hangs_on_a_database_that_says_nothing(proxy, sql, monkeypatch):
    """What waits is told in time that it was not stored, what was on its way that nobody knows; then it goes on."""
    monkeypatch.setattr(intake_module, "LONGEST", 0.5)
    async with running(proxy.url) as intake:
        await know(intake)
        proxy.freeze()
        asked = time.monotonic()
        flying = asyncio.create_task(intake.submit(log_item("m")))
        await asyncio.sleep(0.2)
        [waiting] = await send(intake, log_item("m"))
        assert isinstance(waiting, CommandNotDone)
        with pytest.raises(OutcomeUnknown):
            await flying
        assert time.monotonic() - asked < 5
        proxy.thaw()
        assert (await send(intake, log_item("m")))[0]["ok"]
        assert intake.depth == 0
    assert one(sql, "select count(*) from log_events") == 4
    check_books(sql)


async def test_a_lock_on_a_counter_only_delays(database_url, sql):
    """The one wait of a flush: another flush holds a counter row, and is about to commit."""
    async with running(database_url) as intake:
        await send(intake, log_item("m"))
        with psycopg.connect(database_url) as session:
            session.execute("update usage_days set errors = errors")
            waiting = asyncio.gather(send(intake, log_item("m")))
            await asyncio.sleep(0.3)
            assert not waiting.done()
            session.rollback()
        [[answer]] = await waiting
        assert answer["ok"]
    check_books(sql)


async def test_a_stalled_transaction_of_its_own_is_waited_out(database_url, sql):
    """While a lost session still holds the flusher's name, nothing is flushed twice and nothing is lost."""
    async with running(database_url) as intake:
        await send(intake, log_item("m"))
        with psycopg.connect(database_url) as session:
            number = names.lock_number(flusher_name(one(sql, "select id from ingest_flushers")))
            session.execute("select pg_advisory_xact_lock(%s::bigint)", (number,))
            waiting = asyncio.gather(send(intake, log_item("m")))
            await asyncio.sleep(0.2)
            assert not waiting.done()
        [[answer]] = await waiting
        assert answer["ok"]
    check_books(sql)
