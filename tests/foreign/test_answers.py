"""Blueprints beside ClickHouse's own functions, over the same rows (G-153).

Every blueprint over events is asked twice: of our own rows by our SQL, and of ClickHouse by the queries that a provider
gets, so that `windowFunnel` and `uniqExact` say the same as we do; `retention` is asked by itself.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.analytics.blueprints.asking import ask_for, run_blueprint
from service.analytics.bounded import Table
from service.analytics.queries import BoundedQueries
from service.eventstore.connect.facts import DAY
from tests.foreign import chdb
from tests.foreign.chdb import ClickHouse, literal
from tests.support.questions import PROJECT, TENANT, Error, Event, Questions
from tests.support.questions import questions as questions  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.foreign

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "clickhouse" / "window_funnel.json").read_text(encoding="utf-8")
)
VALUES = ["pro", "free", "naïve ✓", 7, 7.5, True, False, "", None, [1], {"a": 1}, "ü" * 205]
NAMES = ["a", "b", "c", "it's", "back\\slash"]
ROUNDS = 25


@pytest.fixture(scope="module")
def clickhouse() -> Iterator[ClickHouse]:
    with chdb.running() as running:
        yield running


def products(chance: random.Random, begin: int) -> list[Event]:
    """Some hundred events of a dozen people in four days, many of them in the same second."""
    moments = [begin + day * DAY + second for day in range(4) for second in (0, 1, 2, 3600, DAY - 1)]
    return [
        Event(
            chance.choice(NAMES),
            f"person-{chance.randrange(12)}",
            chance.choice(moments),
            {"plan": chance.choice(VALUES)}
            | ({"release": chance.choice(["1.0", "2.0"])} if chance.random() < 0.7 else {}),
        )
        for _ in range(chance.randrange(400))
    ]


async def both(
    questions: Questions, clickhouse: ClickHouse, name: str, params: Any, **more: Any
) -> tuple[Table, Table]:
    """The answers of ourselves and of ClickHouse."""
    theirs = BoundedQueries(questions.store, chdb.asked_of(clickhouse, questions))
    at = more.pop("at", None)
    found = await run_blueprint(theirs, PROJECT, TENANT, ask_for(name, params, **more), at)
    assert isinstance(found, Table), found
    assert found.evidence.source == "provider_cloud"
    return await questions.run(name, params, at=at, **more), found


async def test_clickhouse_answers_the_same(questions: Questions, clickhouse: ClickHouse) -> None:
    chance = random.Random(29)
    begin = questions.now - questions.now % DAY - 4 * DAY
    questions.deploy("dep_1", "2.0", begin + DAY)
    questions.open_case("case_0001", begin)
    questions.meet([Error(begin + DAY + 5, "2.0", "person-1"), Error(begin + 2, "1.0", "person-2")])
    compared = 0
    for _ in range(ROUNDS):
        events = products(chance, begin)
        questions.connection.execute("delete from analytics_events")
        questions.receive(events)
        clickhouse.receive(events)
        since = begin + chance.choice([0, 1, DAY, DAY + 3601])
        until = begin + chance.choice([2 * DAY, 3 * DAY + 2, 4 * DAY])
        steps = chance.sample(NAMES, chance.randrange(2, 6))
        window = {"since": since, "until": until}
        for name, params, more in (
            ("event-count", {"event": steps[0]}, window),
            ("top-events", {}, window),
            ("active-users", {}, window),
            ("event-trend", {"event": steps[0]}, window),
            ("ordered-funnel", {"events": steps}, window),
            ("ordered-funnel-period-compare", {"events": steps, "period_days": 2}, {"until": until}),
            ("retention", {"start_event": steps[0], "return_event": steps[1]}, window),
            ("retention", {"start_event": steps[0], "return_event": steps[0]}, window),
            ("breakdown", {"event": steps[0], "property": "plan"}, window),
            ("error-free-users", {}, window),
            ("release-comparison", {"release": "2.0", "base_release": "1.0"}, window),
            ("deploy-impact", {"deploy_id": "dep_1", "hours": 30}, {}),
            ("deploy-recurrence", {"deploy_id": "dep_1", "case_id": "case_0001"}, {"at": begin + 4 * DAY}),
        ):
            ours, theirs = await both(questions, clickhouse, name, params, **more)
            assert ours.rows == theirs.rows, (name, params)
            compared += len(ours.rows)
    assert compared > 30 * ROUNDS, "there was something to compare"


async def test_its_own_retention_says_the_same(questions: Questions, clickhouse: ClickHouse) -> None:
    """For each pair of days: how many people met the first condition, and how many both."""
    begin = questions.now - questions.now % DAY - 4 * DAY
    events = products(random.Random(30), begin)
    questions.receive(events)
    clickhouse.receive(events)
    params = {"start_event": "a", "return_event": "it's"}
    found = await questions.run("retention", params, since=begin, until=begin + 4 * DAY)
    for row in found.rows:
        conditions = ", ".join(
            f"event = {literal(event)} and intDiv(toUnixTimestamp(created_at), {DAY}) = {day // DAY}"
            for event, day in (("a", row["day"]), ("it's", row["returned_on"]))
        )
        [counts] = clickhouse.ask(
            f"select sum(r[1]), sum(r[2]) from (select retention({conditions}) as r from events group by distinct_id)"
        )
        assert counts == [row["cohort_size"], row["users"]]
    assert sum(row["users"] for row in found.rows) > 0


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
async def test_a_case_of_its_window_funnel_is_one_of_ours(
    questions: Questions, clickhouse: ClickHouse, case: dict[str, Any]
) -> None:
    begin = questions.now - questions.now % DAY - DAY
    since, until = begin + case["since"], begin + case["until"]
    events = [Event(name, "someone", begin + at) for at, name in case["events"]]
    questions.receive(events)
    clickhouse.receive(events)
    steps = ", ".join(f"event = {literal(step)}" for step in case["steps"])
    [[level]] = clickhouse.ask(
        f"select windowFunnel(100000)(created_at, {steps}) from events "
        f"where toUnixTimestamp(created_at) >= {since} and toUnixTimestamp(created_at) < {until}"
    )
    assert level == case["level"]
    params = {"events": case["steps"]}
    ours, theirs = await both(questions, clickhouse, "ordered-funnel", params, since=since, until=until)
    assert ours.rows == theirs.rows
    assert [row["users"] for row in ours.rows] == [int(step < level) for step in range(len(case["steps"]))]
