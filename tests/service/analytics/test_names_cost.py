"""What it costs a question to resolve names: nothing without links, one pass over them with many (G-197)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from service.analytics.blueprints import events
from service.analytics.bounded import MOST_ROWS, REACH
from service.eventstore.connect.facts import DAY
from tests.support.telemetry import PROJECT, Telemetry
from tests.support.telemetry import telemetry as telemetry  # noqa: PLC0414 (a fixture is found by name)

LINKS, EVENTS = 100_000, 20_000
QUESTIONS = {
    "event-count": events.EVENT_COUNT_SQL,
    "active-users": events.ACTIVE_USERS_SQL,
    "event-trend": events.EVENT_TREND_SQL,
    "top-events": events.TOP_EVENTS_SQL,
    "retention": events.RETENTION_SQL,
    "breakdown": events.BREAKDOWN_SQL,
    "top-errors": events.TOP_ERRORS_SQL,
    "errors-by-release": events.ERRORS_BY_RELEASE_SQL,
    "error-free-users": events.PEOPLE_WITH_ERRORS_SQL,
    "release-comparison": events.RELEASE_ERRORS_SQL,
}
STRUCTURED = """
select count(distinct case when %(linked)s then e.person else e.distinct_id end)
from (select distinct_id, person from queried_events where received_at >= %(since)s and received_at < %(until)s) e
"""


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for inner in node.get("Plans", ()):
        yield from nodes(inner)


def explained(telemetry: Telemetry, query: str, *, linked: bool, run: bool = False) -> list[dict[str, Any]]:
    """The nodes of a query's plan, made for its values."""
    [[now]] = telemetry.connection.execute("select service_seconds()").fetchall()
    names = ("event", "start_event", "return_event", "property", "environment")
    values = dict.fromkeys(names, "paid") | {"since": now - DAY, "until": now + 1, "most": MOST_ROWS, "linked": linked}
    values["reach"] = REACH
    values |= {"project_id": PROJECT, "characters": 200, "releases": ["1", "2"], "environment": None}
    how = "analyze, timing off, format json" if run else "format json"
    with telemetry.connection.transaction():
        telemetry.connection.execute("select set_config('service.project_id', %s, true)", (PROJECT,))
        [[[plan]]] = telemetry.connection.execute(f"explain ({how}) {query}".encode(), values).fetchall()
    return list(nodes(plan["Plan"]))


def looked_up(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [node for node in found if node.get("Relation Name") == "person_names"]


@pytest.mark.parametrize("query", [*QUESTIONS.values(), STRUCTURED], ids=[*QUESTIONS, "structured"])
async def test_nobody_is_looked_up_where_nobody_has_two_names(telemetry: Telemetry, query: str) -> None:
    """The plan is that of before there were links: it has no table of them."""
    assert looked_up(explained(telemetry, query, linked=False)) == []
    assert looked_up(explained(telemetry, query, linked=True))


async def test_a_hundred_thousand_links_are_read_once(telemetry: Telemetry) -> None:
    """Or each event looks its own up: no more rows of them are read than there are links and events."""
    sql = telemetry.connection
    sql.execute(
        "insert into person_names select %s, 'n' || n, 'n' || n - n %% 10, 0 from generate_series(1, %s) n",
        (PROJECT, LINKS),
    )
    sql.execute(
        "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties) "
        "select %s, service_seconds() - n %% 3600, 'evt_' || n, 'paid', 'n' || n, %s from generate_series(1, %s) n",
        (PROJECT, json.dumps({"plan": "pro"}), EVENTS),
    )
    sql.execute("analyze person_names, analytics_events")
    for query in (events.EVENT_COUNT_SQL, events.TOP_EVENTS_SQL, events.RETENTION_SQL, STRUCTURED):
        looks = looked_up(explained(telemetry, query, linked=True, run=True))
        assert looks
        assert all(node["Actual Rows"] * node["Actual Loops"] <= LINKS + EVENTS for node in looks)
