"""A preview says what evaluations at those times would have said, and what it has no time for (G-092, G-162)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.alerts import MOST_LOOKS, CreateAlert
from service import alerts as alertss
from service.alerts import PastLooks
from service.analytics.queries import QueriesBusy
from service.eventstore.connect.facts import DAY
from service.history.audit import check_projection
from service.history.rebuild import rebuild
from service.registry import read_models
from statemachines.kernel.machine import ReadFailed
from tests.service.alerts.scene import AlertScene
from tests.support.ingest import make_project
from tests.support.questions import PROJECT, TENANT, Event, Questions
from tests.support.questions import questions as questions  # noqa: PLC0414 (a fixture is found by name)

SPANS = st.integers(1, 3)
AGES = st.integers(0, 4 * DAY)
SEEN = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["ann", "bob"]), AGES), max_size=8)
OPS = st.sampled_from(["gt", "gte", "lt", "lte", "eq", "neq"])


async def look_back(questions: Questions, days: int, **members: Any) -> PastLooks | ReadFailed:
    body = {"blueprint_id": "event-count", "params": {"event": "a"}, "threshold_column": "row_count"}
    body |= {"threshold_op": "gte", "threshold_value": 1} | members
    wish = alertss.wish_of(CreateAlert(**body), {})
    return await alertss.look_back(questions.queries, PROJECT, TENANT, wish, days)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(seen=SEEN, span=SPANS, op=OPS, value=st.integers(0, 3), column=st.sampled_from(["row_count", "unique_users"]))
async def test_a_preview_is_what_evaluations_would_have_said(
    questions: Questions, seen: list[tuple[str, str, int]], span: int, op: str, value: int, column: str
) -> None:
    """Against counting rows by hand: at each look those that had come in by its second, of so many days."""
    questions.connection.execute("delete from analytics_events")
    now = questions.now
    questions.receive([Event(event, person, now - age) for event, person, age in seen])
    found = await look_back(
        questions, 2, params={"event": "a", "days": span}, threshold_op=op, threshold_value=value,
        threshold_column=column,
    )  # fmt: skip
    assert isinstance(found, PastLooks)
    assert (len(found.looks), found.every_seconds, found.left_out) == (MOST_LOOKS, 1800, 0)
    assert {late.at - early.at for late, early in pairwise(found.looks)} == {1800}
    for look in found.looks:
        people = [p for e, p, age in seen if e == "a" and look.at - span * DAY < now - age <= look.at]
        number = len(people) if column == "row_count" else len(set(people))
        crossed = {
            "gt": number > value,
            "gte": number >= value,
            "lt": number < value,
            "lte": number <= value,
            "eq": number == value,
            "neq": number != value,
        }[op]
        assert (look.verdict.crossed, look.verdict.observed) == (crossed, number)


async def test_an_evaluation_now_is_the_first_look_of_a_preview(questions: Questions) -> None:
    make_project(questions.connection, PROJECT)
    scene = AlertScene(questions)
    made = await scene.make(PROJECT, params={"event": "a"})
    questions.receive([Event("a", "ann", questions.now - 60)] * 2)
    evaluated = await scene.record(made, await scene.read(made))
    previewed = await look_back(questions, 1, threshold_value=2)
    assert isinstance(previewed, PastLooks)
    first = previewed.looks[0].verdict
    assert (evaluated.row.status, evaluated.look.value) == ("triggered", "2")
    assert (first.crossed, first.observed) == (True, 2)


@pytest.mark.parametrize(("days", "every"), [(1, 900), (7, 6300), (30, 27000)])
async def test_looks_are_spread_over_the_days(questions: Questions, days: int, every: int) -> None:
    """Whole periods of the schedule; a look whose window reaches beyond what is kept says so."""
    make_project(questions.connection, PROJECT)
    found = await look_back(questions, days, params={"event": "a", "days": 2})
    assert isinstance(found, PastLooks)
    assert (found.every_seconds, len(found.looks)) == (every, MOST_LOOKS)
    assert every % 300 == 0
    assert found.looks[0].complete
    assert found.looks[-1].complete is (days < 30)


@pytest.mark.parametrize("end", [ReadFailed("timeout"), QueriesBusy(), TimeoutError()])
async def test_out_of_time_the_oldest_looks_are_left_out(
    questions: Questions, monkeypatch: pytest.MonkeyPatch, end: Any
) -> None:
    """But none at all is no answer; and any other failure of a read fails the whole."""
    run = alertss.run_blueprint
    looks = 3

    async def some(*args: Any, **named: Any) -> Any:
        nonlocal looks
        looks -= 1
        if looks >= 0:
            return await run(*args, **named)
        if isinstance(end, Exception):
            raise end
        return end

    monkeypatch.setattr(alertss, "run_blueprint", some)
    found = await look_back(questions, 1)
    assert isinstance(found, PastLooks)
    assert (len(found.looks), found.left_out) == (3, MOST_LOOKS - 3)
    looks = 0
    if isinstance(end, QueriesBusy):
        with pytest.raises(QueriesBusy):
            await look_back(questions, 1)
    else:
        assert await look_back(questions, 1) == ReadFailed("timeout")
    looks, end = 3, ReadFailed("unreachable")
    assert await look_back(questions, 1) == end


async def test_rows_rebuilt_are_the_rows(questions: Questions) -> None:
    """Those of alerts in every status; a deleted one has none."""
    make_project(questions.connection, PROJECT)
    scene = AlertScene(questions)
    made = [await scene.make(PROJECT, threshold_value=value) for value in range(3)]
    for row in made[:2]:
        await scene.record(row, await scene.read(row))
    await scene.delete(await scene.make(PROJECT))
    read = "select * from alerts order by id"
    before = scene.sql.execute(read).fetchall()
    assert sorted(row[-2] for row in before) == ["created", "evaluated_clear", "triggered"]
    alerts = read_models()["alerts"]
    assert list(check_projection(scene.sql, alerts)) == []
    rebuild(questions.store.conninfo, alerts)
    assert scene.sql.execute(read).fetchall() == before
    assert list(check_projection(scene.sql, alerts)) == []
