"""Flushes that only count: one statement, checked under its locks, acknowledged after its commit (design §6)."""

from __future__ import annotations

import asyncio
import time

import msgspec
import psycopg
import pytest

from service.auth.refusals import Unauthenticated
from service.eventstore.declare.commands import Outcome, OutcomeUnknown
from service.ingest import locking
from service.ingest.flushing import Decider, Flush
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
from tests.support.proxy import Fault, in_order


@pytest.fixture
def undecided(monkeypatch):
    """A switch: from when it is thrown, whatever asks the decider fails."""

    async def decide(*_):
        raise AssertionError("nothing had to be decided")

    def throw():
        monkeypatch.setattr(Decider, "carry_out", decide)
        monkeypatch.setattr(Decider, "resolve", decide)

    return throw


async def test_what_is_known_is_counted_without_a_decision(database_url, sql, undecided):
    """Errors of known cases, events and plain logs, of several projects at once, and as much as fills a socket."""
    async with running(database_url) as intake:
        first = await send(intake, log_item("m"), log_item("n"), log_item("m", of=sender(OTHER)))
        undecided()
        items = [log_item("m", user={"id": "u"}), analytics_item(), log_item("x", level="info"), log_item("n")]
        again = await send(intake, *items, log_item("m", of=sender(OTHER)))
        assert [answer["id"] for answer in again[:4]] == [item.row.id for item in items]
        assert [again[n].get("case_id") for n in (0, 1, 2, 3, 4)] == [
            first[0]["case_id"],
            None,
            None,
            first[1]["case_id"],
            first[2]["case_id"],
        ]
        large = await send(intake, *(log_item("m", extra={"blob": "x" * 30_000}) for _ in range(100)))
        assert all(answer["ok"] for answer in large)
        alone = await send(intake, analytics_item())
        at = {answer["received_at"] for answer in [*again, *large]}
    assert alone[0]["ok"]
    assert {moment for (moment,) in sql.execute("select distinct received_at from log_events")} >= at
    assert one(sql, "select count(*) from log_events") == 107
    check_books(sql)


async def test_a_sender_that_has_changed_is_decided(database_url, sql):
    """The intake remembers a project as it was; what counts is read under the gate."""
    async with running(database_url) as intake:
        await know(intake)
        sql.execute("update memberships set user_id = 'usr_later' where project_id = %s", (PROJECT,))
        [answer] = await send(intake, log_item("m"))
        assert answer["ok"]
        assert one(sql, "select errors from usage_days where account_id = 'usr_later'") == 1
        sql.execute("update projects set dsn_hash = 'rotated' where project_id = %s", (PROJECT,))
        [refused] = await send(intake, log_item("m"))
        assert isinstance(refused, Unauthenticated)
    assert one(sql, "select count(*) from log_events") == 3
    check_books(sql)


async def test_what_fails_as_it_commits_is_not_acknowledged(database_url, sql, cluster):
    """The server has answered the statement by then; the commit comes after."""
    async with running(database_url) as intake:
        await know(intake)
        with psycopg.connect(cluster.admin_url(database_url), autocommit=True) as admin:
            admin.execute(
                "create function refuse() returns trigger language plpgsql as "
                "$$ begin raise exception 'not this one'; end $$;"
                "create constraint trigger refuse after insert or update on ingest_flushers "
                "deferrable initially deferred for each row execute function refuse()"
            )
            [answer] = await send(intake, log_item("m"))
            assert not isinstance(answer, dict | Outcome)
            admin.execute("drop trigger refuse on ingest_flushers")
        [answer] = await send(intake, log_item("m"))
        assert answer["ok"]
    assert one(sql, "select count(*) from log_events") == 3
    check_books(sql)


async def test_a_session_that_ended_while_it_was_idle_leaves_nothing_in_doubt(database_url, sql, undecided):
    async with running(database_url) as intake:
        await know(intake)
        ended = sql.execute(f"select count(pg_terminate_backend(pid)) {SESSIONS}").fetchone()
        assert ended == (2,)
        time.sleep(0.05)  # noqa: ASYNC251 - the loop must not see the end before the next flush does
        undecided()
        [answer] = await send(intake, log_item("m"))
        assert answer["ok"]
    assert one(sql, "select count(*) from log_events") == 3
    check_books(sql)


@pytest.mark.parametrize(("fault", "ends_it"), [(Fault.EAT, True), (Fault.ZOMBIE, True), (Fault.ZOMBIE, False)])
async def test_a_count_whose_answer_is_lost_is_found_again(proxy, sql, fault, ends_it, monkeypatch):
    """With the time of receipt that the lost answer told.

    Where the session that lost its connection cannot be ended, what it still does comes too late: its number has been
    given up.
    """
    if not ends_it:
        monkeypatch.setattr(locking, "END_SESSION", "select %s::bigint, %s::text")
    async with running(proxy.url) as intake:
        await know(intake)
        proxy.choose = in_order(fault)
        items = [log_item("m") for _ in range(5)]
        answers = await send(intake, *items)
        assert [answer["id"] for answer in answers] == [item.row.id for item in items]
        await eventually(lambda: proxy.fired[fault.value] == 1)
        for answer in answers:
            assert one(sql, "select received_at from log_events where id = %s", answer["id"]) == answer["received_at"]
        await eventually(lambda: one(sql, f"select count(*) {SESSIONS} and state <> 'idle'") == 0)
    assert one(sql, "select count(*) from log_events") == 7
    check_books(sql)


@pytest.mark.parametrize("broken", [(Flush, "count"), (Decider, "_carry_out")])
async def test_a_bug_costs_nobody_else_an_answer(database_url, sql, monkeypatch, broken):
    """Its records are told that nobody knows; the intake goes on."""
    async with running(database_url) as intake:
        await know(intake)
        with monkeypatch.context() as patch:
            patch.setattr(*broken, lambda *_: 1 // 0)
            [answer] = await send(intake, log_item("n"))
            assert isinstance(answer, OutcomeUnknown)
        [answer] = await send(intake, log_item("n"))
        assert answer["ok"]
        assert intake.depth == 0
    check_books(sql)


async def test_a_record_that_cannot_be_prepared_costs_only_its_own_answer(database_url, sql):
    async with running(database_url) as intake:
        await know(intake)
        bad = log_item("m")
        bad.body = msgspec.structs.replace(bad.body, level="none such")
        answers = await send(intake, log_item("m"), bad, log_item("m"))
        assert [isinstance(answer, dict) for answer in answers] == [True, False, True]
        assert intake.depth == 0
    assert one(sql, "select count(*) from log_events") == 4
    check_books(sql)


async def test_the_end_does_not_wait_for_a_database_that_says_nothing(proxy, sql, monkeypatch):
    """Who waits is told that nobody knows."""
    monkeypatch.setattr("service.ingest.intake.STOP_SECONDS", 0.2)
    async with running(proxy.url) as intake:
        await know(intake)
        proxy.freeze()
        flying = asyncio.gather(send(intake, log_item("m")))
        await asyncio.sleep(0.05)
        asked = time.monotonic()
        await intake.stop()
        assert time.monotonic() - asked < 1.0
        [[answer]] = await flying
        assert isinstance(answer, OutcomeUnknown)
        proxy.thaw()
    await eventually(lambda: one(sql, f"select count(*) {SESSIONS}") == 0)
    check_books(sql)
