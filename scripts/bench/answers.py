"""The rows of questions: a trend, a funnel and a published query, beside SQL by hand and an echo.

The project has events of a month, by people at random. A tenth of them have the name whose trend is asked for, another
tenth the five names of the funnel, each rarer than the one before it. They are written past the intake.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median, quantiles
from typing import Any, NamedTuple

import psycopg

from scripts.bench.figures import Figures
from scripts.load import loadgen, worlds
from service.eventstore.connect.facts import DAY

# The bench of answers: a trend and a funnel over HTTP, beside the same questions as SQL by hand on a bare
# connection.

EVENTS = 10_000_000
PROMISED = 3000.0  # milliseconds, 95 of 100 answers
TO_HAND = 1.5  # as long as the SQL by hand takes, at most
TURNS = 10
DAYS = 30
TREND = "viewed"
STEPS = ["step 1", "step 2", "step 3", "step 4", "step 5"]

_PARTITIONS = """
select ensure_partition(telemetry => 'analytics_events', day => %(until)s - %(until)s %% 86400 - d * 86400)
from generate_series(0, %(days)s) d
"""
# A hash of the number makes the name, and another one the person: whoever is at a step has events of all kinds.
_EVENTS = """
insert into analytics_events (project_id, received_at, id, event, distinct_id, properties)
select %(project)s, %(until)s - %(days)s * 86400 + 60 + n * (%(days)s * 86400 - 120) / %(events)s, 'evt_' || n,
    case when kind < 100 then 'viewed' when kind < 140 then 'step 1' when kind < 165 then 'step 2'
        when kind < 180 then 'step 3' when kind < 192 then 'step 4' when kind < 200 then 'step 5'
        else 'other ' || kind %% 40 end,
    md5(person::text)::uuid::text,
    jsonb_build_object('path', '/p/' || n %% 1000, 'price', n %% 77, 'plan', 'pro', 'is_mobile', n %% 3 = 0)
from generate_series(1::bigint, %(events)s) n
cross join lateral (select (hashint8extended(n, 1) & 2147483647) %% 1000 as kind,
    (hashint8extended(n, 2) & 2147483647) %% greatest(%(events)s / 100, 10) as person) r
"""
_TREND_BY_HAND = """
select day, sum(times)::bigint, count(*)
from (
    select received_at - received_at %% 86400 as day, count(*) as times from analytics_events
    where project_id = %(project)s and event = %(event)s and received_at >= %(since)s and received_at < %(until)s
    group by 1, distinct_id) person
group by day order by day
"""
# Whoever has a step at the earliest time that the steps before it leave can go as far as anybody can. All events are
# read once, which is half the time of a scan for each step.
_MATCHING_BY_HAND = """
matching as materialized (
    select distinct_id, received_at, event from analytics_events
    where project_id = %(project)s and event = any(%(steps)s) and received_at >= %(since)s and received_at < %(until)s)
"""
_STEP_BY_HAND = """
step_{step} as materialized (
    select m.distinct_id, min(m.received_at) as at from matching m {join}
    where m.event = %(step_{step})s group by m.distinct_id)
"""
_JOIN_BY_HAND = "join step_{before} b on b.distinct_id = m.distinct_id and m.received_at >= b.at"
# The planner takes the result of a step for a few rows, and would go through all of them for each event.
_SETTINGS_BY_HAND = "set jit = off; set enable_nestloop = off"


class Sides(NamedTuple):
    """Milliseconds that 95 of 100 answers take at most, over HTTP and by hand, and how many events were counted."""

    question: str
    http: float
    hand: float
    matching: int


def funnel_by_hand() -> str:
    """One statement that counts who reached each of STEPS: a row of as many numbers."""
    steps = range(1, len(STEPS) + 1)
    parts = [
        _STEP_BY_HAND.format(step=step, join=_JOIN_BY_HAND.format(before=step - 1) if step > 1 else "")
        for step in steps
    ]
    counts = ", ".join(f"(select count(*) from step_{step})" for step in steps)
    return f"with {','.join([_MATCHING_BY_HAND, *parts])} select {counts}"


def fill(world: worlds.Service, project_id: str, events: int, until: int) -> None:
    """Generate events of DAYS days, of which `until` ends the last."""
    values = {"project": project_id, "events": events, "days": DAYS, "until": until}
    with psycopg.connect(world.database_url, autocommit=True) as connection:
        for statement in (_PARTITIONS, _EVENTS):
            connection.execute(statement.encode(), values)
        connection.execute("vacuum analyze analytics_events")


def measure(world: worlds.Service, events: int) -> list[Sides]:
    """Ask both questions by turns on either side, after one turn to warm up. Ends the program when they disagree."""
    project_id = world.create_project("answers")["id"]
    until = int(time.time())
    fill(world, project_id, events, until)
    since = until - DAYS * DAY
    values: dict[str, Any] = {"project": project_id, "event": TREND, "steps": STEPS, "since": since, "until": until}
    values |= {f"step_{step}": name for step, name in enumerate(STEPS, 1)}

    def over_http(blueprint: str, **params: Any) -> list[dict[str, Any]]:
        path = f"/v1/projects/{project_id}/query-blueprints/{blueprint}/run"
        body = {"params": params, "from": since, "to": until}
        answer = world.call("POST", path, body, world.owner_key)
        rows: list[dict[str, Any]] = answer["rows"]
        return rows

    with psycopg.connect(world.database_url, autocommit=True) as bare:
        bare.execute(_SETTINGS_BY_HAND)

        def by_hand(statement: str) -> list[tuple[Any, ...]]:
            return bare.execute(statement.encode(), values, prepare=False).fetchall()

        trend = _by_turns(
            lambda: [
                (row["day"], row["row_count"], row["unique_users"])
                for row in over_http("event-trend", event=TREND)
                if row["row_count"]
            ],
            lambda: by_hand(_TREND_BY_HAND),
        )
        funnel = _by_turns(
            lambda: [row["users"] for row in over_http("ordered-funnel", events=STEPS)],
            lambda: list(by_hand(funnel_by_hand())[0]),
        )
    return [
        Sides("a trend", *trend, _count(world, project_id, [TREND])),
        Sides("a funnel", *funnel, _count(world, project_id, STEPS)),
    ]


def _count(world: worlds.Service, project_id: str, events: list[str]) -> int:
    counted = "select count(*) from analytics_events where project_id = %s and event = any(%s)"
    [[count]] = world.query(counted, project_id, events)
    return int(count)


def _by_turns(http: Callable[[], list[Any]], hand: Callable[[], list[Any]]) -> tuple[float, float]:
    took: tuple[list[float], list[float]] = ([], [])
    for turn in range(1 + TURNS):
        found = []
        for side, ask in zip(took, (http, hand), strict=True):
            began = time.perf_counter()
            found.append(ask())
            if turn:
                side.append(1000 * (time.perf_counter() - began))
        if found[0] != found[1] or not found[0]:
            raise SystemExit(f"over HTTP the answer is {found[0]}, by hand {found[1]}")
    slow, slow_by_hand = (quantiles(times, n=20, method="inclusive")[-1] for times in took)
    return slow, slow_by_hand


def measure_answers(figures: Figures, world: worlds.World, events: int) -> None:
    """Ask for a trend and for a funnel in a project with very many events, and by hand."""
    for sides in measure(world, events):
        name = f"p95 of {sides.question} over {sides.matching:,} of {events:,} events"
        figures.add(name, sides.http, "ms", yardstick=PROMISED, promised=1, most=True)
        name = f"{sides.question} over HTTP, to SQL by hand"
        figures.add(name, sides.http, "ms", yardstick=sides.hand, promised=TO_HAND, most=True)


# How fast anybody reads a published query whose rows are kept, beside an echo of the same server.

ROWS = 10
PUBLIC_TURNS = 6
CLIENTS = 32


class PublicReads(NamedTuple):
    """Answers a second of each side, as the median of turns that took place by turns."""

    public: float
    echo: float


def _reading(path: str, _: int) -> loadgen.Client:
    while True:
        yield ("GET", path, {}, b"")


def _events(dsn: str) -> Iterator[loadgen.Request]:
    headers = {"authorization": f"Bearer {dsn}", "content-type": "application/json"}
    for number in range(ROWS):
        body = {"event": f"step {number}", "distinct_id": "u1"}
        yield ("POST", "/v1/analytics/", headers, json.dumps(body).encode())


def measure_public_reads(world: worlds.World, seconds: float) -> PublicReads:
    """Publish the most frequent events, ten of them, and read them from so many connections."""
    project = world.create_project("public")
    for request in _events(project["dsn"]):
        loadgen.call(worlds.HOST, world.port, request)
    body = {"blueprint_id": "top-events", "cache_seconds": 86_400}
    made = world.call("POST", f"/v1/projects/{project['id']}/public-queries", body, world.owner_key)
    path = f"/v1/public/q/{made['publication_id']}"
    assert len(world.call("GET", path, None, None)["rows"]) == ROWS
    echo = partial(worlds.posting_logs, project["dsn"], "/v1/bench-echo")
    sides = {"public": partial(_reading, path), "echo": echo}
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(1 + PUBLIC_TURNS):  # The first turn warms up.
        for side, make in sides.items():
            found = world.load(make, CLIENTS, seconds / PUBLIC_TURNS)
            assert set(found.statuses) == {200 if side == "public" else 202}, found.statuses
            rates[side].append(found.rate)
    return PublicReads(median(rates["public"][1:]), median(rates["echo"][1:]))


def measure_public_query(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Read a published query of ten rows that are kept, as anybody does."""
    found = measure_public_reads(world, seconds)
    figures.add("a kept public query of 10 rows, to an echo", found.public, "/s", yardstick=found.echo, promised=0.5)
