"""The intake on a real database: acknowledged is durable and in its case, once, whoever else is at it (design §6)."""

from __future__ import annotations

import asyncio
import time

import msgspec
import psycopg
import pytest

from service.auth.refusals import Unauthenticated
from service.eventstore.declare.commands import Command as StoreCommand
from service.eventstore.declare.commands import CommandFailed, KeyReused, Origin
from service.fairness.turns import CommandNotDone
from service.ingest.grouping import fingerprint as grouping
from service.ingest.intake import record_queue
from service.packing import unpack
from statemachines.cases import case
from statemachines.cases import suppression as suppressions
from statemachines.cases.suppression import Action
from statemachines.projects.project import ProjectDeletionInProgress
from tests.support.ingest import (
    OTHER,
    OWNER,
    PROJECT,
    analytics_item,
    check_books,
    holding_gate,
    holding_head,
    know,
    log_item,
    make_project,
    one,
    prepared,
    running,
    send,
    sender,
)


async def decide(store, stream, decision, reads=()):
    """Run a command on one stream, past every handler."""

    def run(unit):
        unit.append(stream, decision(unit.state(stream), unit.now))
        from service.eventstore.declare.commands import Answer

        return Answer(200, {})

    origin = Origin("system", "test", "TEST", "req_test")
    await store.execute(StoreCommand(origin=origin, decide=run, streams=[stream], reads=reads, gates=[PROJECT]))


async def add_rule(store, rule_id, pattern, action):
    stream = suppressions.stream(PROJECT)
    await decide(
        store,
        stream,
        lambda state, now: suppressions.decide_create(
            state, id=rule_id, fingerprint_pattern=pattern, action=action, reason=None, hint_text=None, now=now
        ),
    )


def case_rows(sql):
    return sql.execute("select status, case_revision, suppression_id from cases order by opened_at, id").fetchall()


async def test_an_error_is_stored_counted_and_in_its_case(database_url, sql):
    async with running(database_url) as intake:
        item = log_item(
            "Payment 17 failed",
            environment="staging",
            release="1.2",
            user={"id": "u1", "email": "u1@example.com", "plan": "pro"},
            tags={"region": "eu"},
            extra={"exception": {"type": "PaymentError"}, "cart": [1, 2.5, None]},
        )
        [answer] = await send(intake, item)
    assert answer == {
        "id": item.row.id,
        "project_id": PROJECT,
        "received_at": answer["received_at"],
        "level": "error",
        "case_id": case.case_id(PROJECT, answer["fingerprint"]),
        "fingerprint": answer["fingerprint"],
        "next_action": answer["next_action"],
        "ok": True,
        "accepted": True,
    }
    row = sql.execute("select row_to_json(e) from log_events e").fetchone()[0]
    assert row == {
        "project_id": PROJECT,
        "received_at": answer["received_at"],
        "occurred_at": answer["received_at"],
        "id": item.row.id,
        "level": "error",
        "message": "Payment 17 failed",
        "environment": "staging",
        "release": "1.2",
        "user_id": "u1",
        "user_data": {"id": "u1", "email": "u1@example.com", "plan": "pro"},
        "tags": {"region": "eu"},
        "extra": {"exception": {"type": "PaymentError"}, "cart": [1, 2.5, None]},
        "case_id": answer["case_id"],
        "fingerprint": answer["fingerprint"],
        "grouped_by": "v3:type+message",
        "marker_hash": None,
        "adjusted": None,
        "packed": None,
        "public": False,
    }
    stats = sql.execute("select row_to_json(s) from case_stats s").fetchone()[0]
    assert stats["title"] == "PaymentError: Payment 17 failed"
    assert (stats["environments"], stats["releases"], stats["unmarked"]) == (["staging"], ["1.2"], True)
    assert case_rows(sql) == [("open", 1, None)]
    assert sql.execute("select topic, actor_kind, actor_id, request_id, command_id from events").fetchall() == [
        ("case.opened.v1", "dsn", PROJECT, "req_1", item.row.id)
    ]
    assert sql.execute("select account_id, errors, suppressed from usage_days").fetchall() == [(OWNER, 1, 0)]
    check_books(sql)


async def test_what_is_large_is_stored_packed(database_url, sql):
    """All of it, scrubbed, and the same as it would be unpacked; by every way into the table, in every partition."""
    sql.execute(
        "select ensure_partition(telemetry => 'log_events', "
        "day => extract(epoch from date_trunc('day', service_now()))::bigint)"
    )
    large = {"rows": [{"password": "x", "n": n, "text": f"ü {n}", "rate": n / 7} for n in range(50)]}
    scrubbed = {"rows": [row | {"password": "[scrubbed]"} for row in large["rows"]]}
    async with running(database_url) as intake:
        await know(intake)
        for key in (None, "a key"):  # counted, decided
            answers = await send(
                intake, log_item("m", extra=large, of=sender(key=key)), analytics_item("e", **large, of=sender(key=key))
            )
            assert [answer["ok"] for answer in answers] == [True] * 2
    rows = sql.execute("select extra, packed from log_events where packed is not null").fetchall()
    assert [(kept, unpack(packed)) for kept, packed in rows] == [({}, scrubbed)] * 2
    assert sql.execute("select properties from analytics_events").fetchall() == [(scrubbed,)] * 2
    kinds = "select distinct attstorage from pg_attribute where attname = 'packed' and attnum > 0"
    assert sql.execute(kinds).fetchall() == [("e",)], "what is compressed already is not tried again"


async def test_the_oldest_server_stores_it_too(any_database_url):
    with psycopg.connect(any_database_url, autocommit=True) as sql:
        make_project(sql)
        async with running(any_database_url) as intake:
            answers = await send(
                intake,
                log_item("a", user={"id": "u"}),
                log_item("a", user={"id": "u"}, release="1", of=sender(key="k")),
                analytics_item(total=1),
            )
            assert all(answer["ok"] for answer in answers)
            assert [answer["ok"] for answer in await send(intake, log_item("a", user={"id": "v"}))] == [True]
        check_books(sql)


async def test_everything_else_is_stored_without_a_case(database_url, sql):
    async with running(database_url) as intake:
        answers = await send(
            intake, log_item(level="warn"), analytics_item(total=3, note="tab\there \\ there"), analytics_item("x")
        )
    assert [answer.get("case_id") for answer in answers] == [None] * 3
    assert one(sql, "select count(*) from cases") == one(sql, "select count(*) from events") == 0
    assert sql.execute("select event, properties from analytics_events order by event").fetchall() == [
        ("order_placed", {"total": 3, "note": "tab\there \\ there"}),
        ("x", {}),
    ]
    assert sql.execute("select errors, analytics from usage_days").fetchall() == [(1, 2)]
    check_books(sql)


async def test_counts_follow_many_errors_of_many_people(database_url, sql):
    async with running(database_url) as intake:
        for turn in range(6):
            items = [
                log_item(
                    f"kind {'abc'[n % 3]}",
                    of=sender(OTHER if n % 5 == 0 else PROJECT),
                    user={"id": f"u{n % 7}"} if n % 4 else None,
                    environment=f"env{n % 2}",
                    release=f"r{turn}",
                )
                for n in range(40)
            ]
            assert all(answer["ok"] for answer in await send(intake, *items))
        assert intake.stored == 240
    check_books(sql)
    assert one(sql, "select count(*) from cases") == 6
    assert one(sql, "select max(array_length(releases, 1)) from case_stats") == 6
    assert one(sql, "select count(distinct account_id) from usage_days") == 2


async def test_first_errors_of_one_fingerprint_make_one_case(database_url, sql):
    """Two processes' intakes race for the same new cases, again and again."""
    async with running(database_url) as left, running(database_url) as right:
        for turn in range(15):
            message = f"race {'abcdefghijklmno'[turn]} happened"
            answers = await asyncio.gather(
                *(send(intake, *(log_item(message) for _ in range(5))) for intake in (left, right))
            )
            assert len({answer["case_id"] for side in answers for answer in side}) == 1
        assert min(left.stored, right.stored) == 75
    assert one(sql, "select count(*) from cases") == one(sql, "select count(*) from events") == 15
    check_books(sql)


async def test_a_key_is_stored_once_and_answered_alike(database_url, sql):
    async with running(database_url) as intake:
        [first] = await send(intake, log_item("m", of=sender(key="k", request_hash="f")))
        [again] = await send(intake, log_item("m", of=sender(key="k", request_hash="f")))
        [other] = await send(intake, log_item("n", of=sender(key="k", request_hash="g")))
        [event] = await send(intake, analytics_item(of=sender(key="k", request_hash="h")))
        [elsewhere] = await send(intake, log_item("m", of=sender(OTHER, key="k", request_hash="f")))
    assert first == again
    assert isinstance(other, KeyReused)
    assert event["event"] == "order_placed"
    assert elsewhere["project_id"] == OTHER
    assert one(sql, "select count(*) from log_events") == 2
    records = "select project_id, principal, operation, key, client_key, status from idempotency order by 1, 3"
    assert sql.execute(records).fetchall() == [
        (PROJECT, f"dsn:{PROJECT}", "POST /v1/analytics/", "k", True, 202),
        (PROJECT, f"dsn:{PROJECT}", "POST /v1/logs/", "k", True, 202),
        (OTHER, f"dsn:{OTHER}", "POST /v1/logs/", "k", True, 202),
    ]
    check_books(sql)


async def test_twins_in_many_batches_of_two_processes_are_stored_once(database_url, sql):
    async with running(database_url, batch=4) as left, running(database_url, batch=4) as right:
        for turn in range(10):
            answers = await asyncio.gather(
                *(send(side, *(log_item("m", of=sender(key=f"k{turn}")) for _ in range(6))) for side in (left, right))
            )
            assert len({msgspec.json.encode(answer) for side in answers for answer in side}) == 1
        assert left.stored + right.stored == 10
        assert left.repeated + right.repeated == 110
    check_books(sql)


async def test_a_dead_dsn_is_refused_at_the_commit(database_url, sql):
    """Authentication at the door may be a second old; what counts is read under the gate."""
    async with running(database_url) as intake:
        sql.execute("update projects set dsn_hash = 'rotated' where project_id = %s", (PROJECT,))
        refused, stored = await send(intake, log_item("m"), log_item("m", of=sender(OTHER)))
        assert isinstance(refused, Unauthenticated)
        assert stored["ok"]
        sql.execute("update projects set status = 'fenced' where project_id = %s", (OTHER,))
        [fenced] = await send(intake, log_item("m", of=sender(OTHER)))
        assert isinstance(fenced, ProjectDeletionInProgress)
        [unknown] = await send(intake, log_item("m", of=sender("proj_unknown1")))
        assert isinstance(unknown, Unauthenticated)
    assert one(sql, "select count(*) from log_events") == 1
    check_books(sql)


@pytest.mark.parametrize("known", [False, True])
async def test_nothing_is_stored_while_a_fence_holds_the_gate(database_url, sql, known):
    """Neither what is decided nor what would only be counted."""
    async with running(database_url) as intake:
        if known:
            await know(intake)
            await send(intake, log_item("m", of=sender(OTHER)))
        before = one(sql, "select count(*) from log_events where project_id = %s", PROJECT)
        with holding_gate(database_url):
            waiting = asyncio.create_task(send(intake, log_item("m")))
            [other] = await send(intake, log_item("m", of=sender(OTHER)))
            assert other["ok"]
            await asyncio.sleep(0.1)
            assert not waiting.done()
            assert one(sql, "select count(*) from log_events where project_id = %s", PROJECT) == before
        [answer] = await waiting
        assert answer["ok"]
    check_books(sql)


async def test_a_held_case_holds_up_its_own_errors_only(database_url, sql):
    async with running(database_url) as intake:
        [held, _] = await send(intake, log_item("held"), log_item("free"))
        with holding_head(database_url, held["case_id"]):
            waiting = asyncio.gather(send(intake, *(log_item("held") for _ in range(20))))
            worst = 0.0
            for _ in range(20):
                asked = time.monotonic()
                [answer] = await send(intake, log_item("free"))
                worst = max(worst, time.monotonic() - asked)
                assert answer["ok"]
            assert not waiting.done()
        [answers] = await waiting
        assert all(answer["ok"] for answer in answers)
        assert worst < 1.0
    check_books(sql)
    assert one(sql, "select event_count from case_stats where id = %s", held["case_id"]) == 21


async def test_a_record_whose_time_is_over_is_not_stored(database_url, sql):
    async with running(database_url) as intake:
        with holding_gate(database_url):
            asked = time.monotonic()
            [answer] = await send(intake, log_item("m"))
            assert isinstance(answer, CommandNotDone)
            assert 2.0 < time.monotonic() - asked < 4.0
    assert one(sql, "select count(*) from log_events") == 0


async def test_a_resolved_case_comes_back(database_url, sql, store):
    async with running(database_url) as intake:
        [first] = await send(intake, log_item("m"))
        stream = case.stream(PROJECT, first["case_id"])
        await decide(store, stream, lambda state, now: case.decide_resolve(state, "run_1", now))
        assert case_rows(sql) == [("resolved", 2, None)]
        answers = await send(intake, log_item("m"), log_item("m"))
        assert {answer["case_id"] for answer in answers} == {first["case_id"]}
        assert case_rows(sql) == [("open", 3, None)]
    assert [topic for (topic,) in sql.execute("select topic from events order by seq")] == [
        "case.opened.v1",
        "case.resolved.v1",
        "case.regressed.v1",
    ]
    check_books(sql)


async def test_a_case_that_others_closed_is_counted_on(database_url, sql, store):
    """What another process did to a case is seen, and costs one flush: then it is only counted again."""
    async with running(database_url) as intake:
        [first] = await send(intake, log_item("m"))
        stream = case.stream(PROJECT, first["case_id"])
        await decide(store, stream, lambda state, now: case.decide_mark_spurious(state, "arun_1", now))
        for _ in range(3):
            [answer] = await send(intake, log_item("m"))
            assert answer["case_id"] == first["case_id"]
        assert intake.suppressed == 3
        with psycopg.connect(database_url) as session:  # A shared lock on the head does not disturb counting.
            session.execute("select 1 from stream_heads where stream_id = %s for share", (first["case_id"],))
            [answer] = await asyncio.wait_for(send(intake, log_item("m")), 2)
            assert answer["ok"]
    assert case_rows(sql) == [("ignored", 2, None)]
    check_books(sql)


async def test_rules_decide_how_a_case_opens(database_url, sql, store):
    ignored, resolved = prepared(log_item("ignored")), prepared(log_item("resolved"))
    await add_rule(store, "sup_1", ignored.offered[0].grouping.fingerprint[:8] + "*", Action.AUTO_IGNORE)
    await add_rule(store, "sup_2", "*" + resolved.offered[1].grouping.fingerprint[-8:], Action.AUTO_RESOLVE)
    async with running(database_url) as intake:
        await send(intake, ignored, resolved, log_item("open"))
        await send(intake, log_item("ignored"), log_item("resolved"), log_item("open"))
        assert intake.suppressed == 4
    rows = dict(sql.execute("select id, (status, case_revision, suppression_id)::text from cases").fetchall())
    assert rows[ignored.offered[-1].case_id] == "(ignored,1,sup_1)"
    assert rows[resolved.offered[-1].case_id] == "(resolved,1,sup_2)"
    assert "(open,1,)" in rows.values()
    assert sql.execute("select errors, suppressed from usage_days").fetchall() == [(6, 4)]
    check_books(sql)


async def test_a_rule_and_a_first_error_have_an_order(database_url, sql, store):
    """While somebody writes the rules of a project, none of its cases opens; counting goes on."""
    await add_rule(store, "sup_1", "nothing", Action.AUTO_IGNORE)
    async with running(database_url) as intake:
        await send(intake, log_item("known"))
        with holding_head(database_url, suppressions.stream(PROJECT).id):
            waiting = asyncio.create_task(send(intake, log_item("new")))
            [counted] = await send(intake, log_item("known"))
            assert counted["ok"]
            await asyncio.sleep(0.1)
            assert not waiting.done()
        [answer] = await waiting
        assert answer["ok"]
    check_books(sql)


async def test_a_new_grouping_keeps_old_cases_whole(database_url, sql, monkeypatch):
    released = {1: grouping.GROUPINGS[1]}
    monkeypatch.setattr("service.ingest.items.group", lambda evidence: grouping.group(evidence, released))
    async with running(database_url) as intake:
        [old] = await send(intake, log_item("old 1"))
    monkeypatch.undo()
    async with running(database_url) as intake:
        [still, fresh, same] = await send(intake, log_item("old 2"), log_item("new 1e3"), log_item("new 2e-4"))
        [later] = await send(intake, log_item("new -3"))
    assert still["case_id"] == old["case_id"]
    assert still["fingerprint"] == old["fingerprint"]
    assert fresh["case_id"] == same["case_id"] == later["case_id"] != old["case_id"]
    assert dict(sql.execute("select message, grouped_by from log_events").fetchall()) == {
        "old 1": "v1:message",
        "old 2": "v1:message",
        "new 1e3": "v3:message",
        "new 2e-4": "v3:message",
        "new -3": "v3:message",
    }
    assert sql.execute("select grouping_version from cases order by 1").fetchall() == [(1,), (3,)]
    check_books(sql)


async def test_only_the_culprit_of_a_batch_fails(database_url, sql):
    poison = prepared(log_item("x"))
    poison.row.message = "a\x00b"
    async with running(database_url) as intake:
        answers = await send(intake, *(log_item("m") for _ in range(5)), poison, analytics_item())
    assert [type(answer) for answer in answers] == [dict] * 5 + [CommandFailed, dict]
    assert one(sql, "select count(*) from log_events") == 5
    assert one(sql, "select count(*) from cases") == 1
    check_books(sql)


async def test_a_full_queue_refuses_at_once_and_loses_nothing(database_url, sql):
    async with running(database_url, waiting=record_queue(capacity=8)) as intake:
        with holding_gate(database_url):
            tasks = [asyncio.create_task(send(intake, log_item("m"))) for _ in range(12)]
            await asyncio.sleep(0.05)
            refused = [task for task in tasks if task.done()]
            assert len(refused) == 9  # an account may fill half of the queue, a project three quarters of that
            assert all(isinstance(task.result()[0], CommandNotDone) for task in refused)
        kept = await asyncio.gather(*(task for task in tasks if task not in refused))
        assert [answer["ok"] for [answer] in kept] == [True] * 3
    assert one(sql, "select count(*) from log_events") == 3
    check_books(sql)


async def test_what_waits_at_the_end_is_stored(database_url, sql):
    async with running(database_url) as intake:
        tasks = [asyncio.create_task(send(intake, log_item("m"))) for _ in range(30)]
        while intake.depth + intake.stored < 30:  # noqa: ASYNC110 - the intake has no event for a test's sake
            await asyncio.sleep(0)
        await intake.stop()
        assert all(answer["ok"] for [answer] in await asyncio.gather(*tasks))
        [late] = await send(intake, log_item("m"))
        assert isinstance(late, CommandNotDone)
    check_books(sql)


async def test_a_caller_that_goes_away_changes_nothing(database_url, sql):
    async with running(database_url) as intake:
        task = asyncio.create_task(intake.submit(log_item("m")))
        await asyncio.sleep(0)
        task.cancel()
        await send(intake, log_item("m"))
    assert one(sql, "select count(*) from log_events") == 2
    check_books(sql)


async def test_many_records_of_one_request_take_no_more_than_their_share(database_url, sql):
    """They wait for each other outside of the queue, all are stored, and others find room meanwhile (G-143, P25)."""
    async with running(database_url, waiting=record_queue(capacity=16)) as intake, asyncio.TaskGroup() as group:
        await know(intake)
        many = group.create_task(intake.submit_all([log_item("m") for _ in range(200)]))
        await asyncio.sleep(0)
        assert intake.depth <= 8
        small = await asyncio.wait_for(intake.submit(log_item("m", of=sender(OTHER, account="usr_00000002"))), 5)
        assert not many.done()
    results = many.result()
    assert small.status == 202
    assert [result.status for result in results] == [202] * 200
    assert one(sql, "select count(*) from log_events where project_id = %s", PROJECT) == 202
    check_books(sql)


async def test_of_many_records_those_without_time_were_not_stored(database_url, sql):
    async with running(database_url) as intake:
        await know(intake)
        items = [log_item("m") for _ in range(4)]
        items[1].deadline = items[3].deadline = time.monotonic() - 1
        results = await intake.submit_all(items)
    assert [type(result).__name__ for result in results] == ["Outcome", "CommandNotDone"] * 2
    assert one(sql, "select count(*) from log_events where project_id = %s", PROJECT) == 4
