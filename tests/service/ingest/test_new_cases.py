"""New cases are bounded by project and hour, exactly; what is new beyond is one case of the hour (G-136)."""

from __future__ import annotations

import asyncio
from typing import Any

from service.eventstore.declare.commands import Answer, Command, Origin
from statemachines.cases import case
from statemachines.cases import suppression as suppressions
from statemachines.cases.suppression import Action
from statemachines.contracts.policy import Thresholds
from statemachines.runs.materiality import CaseFacts, decide_materiality
from tests.support.ingest import (
    OTHER,
    PROJECT,
    Sql,
    analytics_item,
    check_books,
    log_item,
    make_public,
    one,
    public_sender,
    running,
    send,
    sender,
)

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = [first + second for first in LETTERS for second in LETTERS]
HOUR = 3600


def news(start: int, stop: int, **more: Any) -> list[Any]:
    """Errors that are all different."""
    return [log_item(f"new {WORDS[number]}", user={"id": f"u{number}"}, **more) for number in range(start, stop)]


def hour_of(sql: Sql) -> int:
    return one(sql, "select hour from case_rates where project_id = %s", PROJECT)


def stay_in_an_hour(sql: Sql, hours: int = 1) -> None:
    """Move the clock to the beginning of a coming hour, so that none ends within a test."""
    sql.execute(
        "update service_clock set offset_seconds = offset_seconds + %s "
        "- floor(extract(epoch from service_now()))::bigint %% 3600",
        (hours * HOUR + 60,),
    )


def overflow_of(sql: Sql) -> str:
    return case.case_id(PROJECT, case.overflow_fingerprint(hour_of(sql)))


async def test_what_is_new_beyond_the_limit_is_one_case(database_url, sql):
    stay_in_an_hour(sql)
    async with running(database_url, new_cases_per_hour=3) as intake:
        answers = await send(intake, *news(0, 10), log_item("x", level="info"), analytics_item())
        own = {answer["case_id"] for answer in answers[:10]} - {overflow_of(sql)}
        assert len(own) == 3
        beyond = [answer for answer in answers[:10] if answer["case_id"] == overflow_of(sql)]
        assert len(beyond) == 7
        assert len({answer["fingerprint"] for answer in beyond}) == 7
        elsewhere = await send(intake, *news(0, 3, of=sender(OTHER)))
        assert len({answer["case_id"] for answer in elsewhere}) == 3
        again = await send(intake, *news(0, 10))
        assert [answer["case_id"] for answer in again] == [answer["case_id"] for answer in answers[:10]]
    assert sql.execute(
        "select status, fingerprint, case_revision from cases where id = %s", (overflow_of(sql),)
    ).fetchall() == [("overflow", f"overflow-{hour_of(sql)}", 1)]
    title, message, count, people = sql.execute(
        "select title, message, event_count, users_affected from case_stats where id = %s", (overflow_of(sql),)
    ).fetchone()
    assert title.startswith("The project reached its limit of new cases in this hour")
    assert "its own case" in message
    assert (count, people) == (14, 7)
    assert one(sql, "select opened from case_rates where project_id = %s", PROJECT) == 3
    assert one(sql, "select count(*) from events where topic = 'case.overflow_opened.v1'") == 1
    assert one(sql, "select sum(suppressed) from usage_days") == 0
    check_books(sql)


async def test_the_bound_is_exact_between_processes(database_url, sql):
    """Two intakes race for the last room, with different errors and with the same."""
    stay_in_an_hour(sql)
    async with (
        running(database_url, new_cases_per_hour=40, batch=7) as left,
        running(database_url, new_cases_per_hour=40, batch=5) as right,
    ):
        for turn in range(6):
            sides = await asyncio.gather(
                send(left, *news(20 * turn, 20 * turn + 14)), send(right, *news(20 * turn + 6, 20 * turn + 20))
            )
            assert all(answer["ok"] for side in sides for answer in side)
    assert one(sql, "select count(*) from cases where status = 'open'") == 40
    assert one(sql, "select count(*) from cases where status = 'overflow'") == 1
    assert one(sql, "select opened from case_rates") == 40
    assert one(sql, "select count(*) from events") == 41
    assert one(sql, "select count(*) from log_events") == 6 * 28
    check_books(sql)


async def test_pages_open_half_of_an_hour_s_cases_at_most(database_url, sql):
    """Whoever read the public DSN in a page cannot send the errors of servers to the overflow case (G-184)."""
    stay_in_an_hour(sql)
    make_public(sql)
    by_page = public_sender()
    async with running(database_url, new_cases_per_hour=7) as intake:
        answers = await send(intake, *news(0, 20, of=by_page))
        own = {answer["case_id"] for answer in answers} - {overflow_of(sql)}
        assert (len(own), sum(answer["case_id"] == overflow_of(sql) for answer in answers)) == (4, 16)
        known = await send(intake, *news(0, 4, of=by_page))
        assert {answer["case_id"] for answer in known} == own
        of_servers = await send(intake, *news(20, 23))
        assert overflow_of(sql) not in {answer["case_id"] for answer in of_servers}
        [shared] = await send(intake, *news(19, 20))
        assert shared["case_id"] == overflow_of(sql)
        stay_in_an_hour(sql)
        again = await send(intake, *news(16, 21, of=by_page))
        assert len({answer["case_id"] for answer in again} - {overflow_of(sql)}) == 5
        assert sql.execute("select opened, opened_public from case_rates").fetchall() == [(4, 4)]
    check_books(sql)


async def test_the_share_of_pages_is_exact_between_processes(database_url, sql):
    """Pages and servers race through two intakes: pages get their half, servers all the rest, none one too many."""
    stay_in_an_hour(sql)
    make_public(sql)
    by_page = public_sender()
    async with (
        running(database_url, new_cases_per_hour=40, batch=7) as left,
        running(database_url, new_cases_per_hour=40, batch=5) as right,
    ):
        for turn in range(6):
            start = 30 * turn
            sides = await asyncio.gather(
                send(left, *news(start, start + 10, of=by_page), *news(start + 20, start + 25)),
                send(right, *news(start + 5, start + 15, of=by_page), *news(start + 22, start + 27)),
            )
            assert all(answer["ok"] for side in sides for answer in side)
    assert sql.execute("select opened, opened_public from case_rates").fetchall() == [(40, 20)]
    assert one(sql, "select count(*) from cases where status = 'open'") == 40
    own = "select count(*) from case_stats s join cases c using (project_id, id) where c.status = 'open'"
    assert one(sql, f"{own} and s.public_count = s.event_count") == 20
    check_books(sql)


async def test_a_release_of_before_leaves_no_share_above_the_cases(database_url, sql):
    """Beside this one it begins an hour without setting the share of pages back: the cases of the hour bound it."""
    stay_in_an_hour(sql)
    make_public(sql)
    async with running(database_url, new_cases_per_hour=4) as intake:
        await send(intake, *news(0, 2, of=public_sender()))
        sql.execute("update case_rates set opened = 0")  # as that release does in a new hour
        answers = await send(intake, *news(5, 7, of=public_sender()))
        assert overflow_of(sql) not in {answer["case_id"] for answer in answers}
    assert sql.execute("select opened, opened_public from case_rates").fetchall() == [(2, 2)]


async def test_the_next_hour_has_room_again(database_url, sql):
    stay_in_an_hour(sql)
    async with running(database_url, new_cases_per_hour=2) as intake:
        first = await send(intake, *news(0, 4))
        old = overflow_of(sql)
        assert [answer["case_id"] for answer in first[2:]] == [old, old]
        stay_in_an_hour(sql)
        second = await send(intake, *news(2, 4))
        assert old not in {answer["case_id"] for answer in second}
        assert len({answer["case_id"] for answer in second}) == 2
        [beyond] = await send(intake, *news(5, 6))
        assert beyond["case_id"] == overflow_of(sql) != old
        third = await send(intake, *news(0, 4))
        assert [answer["case_id"] for answer in third[2:]] == [answer["case_id"] for answer in second]
    assert one(sql, "select opened from case_rates") == 2
    check_books(sql)


async def test_a_rule_may_ignore_an_overflow_case_and_nothing_opens_it_again(database_url, sql, store):
    stay_in_an_hour(sql)
    async with running(database_url, new_cases_per_hour=1) as intake:
        await send(intake, *news(0, 3))
        stream = case.stream(PROJECT, overflow_of(sql))

        def ignore(unit):
            rule = suppressions.Rule("sup_1", "*", Action.AUTO_IGNORE)
            unit.append(stream, case.decide_suppress(unit.state(stream), rule, unit.now))
            return Answer(200, {})

        origin = Origin("system", "test", "TEST", "req_test")
        await store.execute(Command(origin=origin, decide=ignore, streams=[stream], gates=[PROJECT]))
        await send(intake, *news(3, 6))
    assert one(sql, "select status from cases where id = %s", stream.id) == "ignored"
    assert one(sql, "select event_count from case_stats where id = %s", stream.id) == 5
    check_books(sql)


def test_an_overflow_case_is_never_material():
    facts = CaseFacts(
        case_id="case_1",
        revision=1,
        status=case.Status.OVERFLOW.value,
        trust="customer_provider",
        event_count=10**6,
        first_seen_at=0,
        last_seen_at=100,
    )
    thresholds = Thresholds(minimum_event_count=1, maximum_last_seen_age_seconds=3600)
    decision = decide_materiality(facts, thresholds, 100)
    assert [check.check for check in decision.checks if not check.passed] == ["lifecycle_active"]
    assert not decision.passed
