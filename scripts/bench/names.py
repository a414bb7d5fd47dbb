"""The rows of names and keys: what counting them costs (G-155), and how fast they are read.

Two services, each on a database of its own, take turns in pairs: other load on the machine affects both alike. On one
of them nothing is summed, and the function that counts does nothing.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from copy import copy
from functools import partial
from statistics import median, quantiles
from typing import NamedTuple

import psycopg

from scripts.bench.errors import RequestCost, spent
from scripts.bench.figures import Figures, console
from scripts.load import bench_server, loadgen, worlds

# The row of counting events by name and key as they are stored: the rate with and without it (G-155).

# What it costs to count analytics events by name and key as they are stored (G-155): the rate with and without it.

CLIENTS = 64
SENT = ("page_viewed", "cart_opened", "item_added", "checkout_started", "order_paid", "invite_sent")

_UNCOUNTED = """
create or replace function ingest_names(seconds bigint, new_usage json, new_analytics json) returns void
language plpgsql as $body$ begin end $body$
"""


def posting_events(dsn: str, number: int) -> loadgen.Client:
    """Send events of a small product: six names, each with eight or nine properties."""
    headers = {"authorization": f"Bearer {dsn}", "content-type": "application/json"}
    count = number
    while True:
        count += 1
        properties = {
            "path": f"/orders/{count % 977}",
            "referrer": "https://shop.example/",
            "plan": "pro",
            "price": 19.5 + count % 7,
            "items": count % 5,
            "is_mobile": count % 3 == 0,
            "campaign": None if count % 4 else "autumn",
            "release": "shop@2026.11.2",
            **({"coupon": "WELCOME"} if count % 2 else {}),
        }
        body = {"event": SENT[count % len(SENT)], "distinct_id": f"user-{count % 5000}", "properties": properties}
        yield ("POST", "/v1/analytics/", headers, json.dumps(body).encode())


def measure_counting(world: worlds.World, pairs: int, seconds: float) -> list[RequestCost]:
    """Let both services take so many turns after one to warm up; the medians with counting, then without."""
    with ExitStack() as stack:
        sides = [_side(stack, world, "names_counted"), _side(stack, world, "names_uncounted", bench_server.UNCOUNTED)]
        found: list[list[RequestCost]] = [[], []]
        for turn in range(1 + pairs):
            for (side, dsn), costs in zip(sides, found, strict=True):
                cost = _turn(side, dsn, seconds)
                costs.extend([cost] if turn else [])
        for (side, _), costs, expected in zip(sides, found, (True, False), strict=True):
            [[events, counted]] = side.query(
                "select (select count(*) from analytics_events), (select sum(row_count) from event_name_days)"
            )
            assert costs
            assert (counted == events) == expected, f"{events} stored, {counted} counted"
    return [RequestCost(*map(median, zip(*costs, strict=True))) for costs in found]


def _side(stack: ExitStack, world: worlds.World, name: str, *arguments: str) -> tuple[worlds.World, str]:
    """Run a service on a database of its own; returns it with the DSN of a project."""
    world.use_database(name)
    if arguments:
        world.query(_UNCOUNTED)
    stack.enter_context(world.api(*arguments))
    side = copy(world)
    return side, side.create_project("names")["dsn"]


def _turn(side: worlds.World, dsn: str, seconds: float) -> RequestCost:
    """Answers per second, and the processor time of each; one of the two API processes stands still meanwhile."""
    before = spent(side)
    stats = side.load(partial(posting_events, dsn), CLIENTS, seconds)
    api, database = (1e6 * (after - was) / len(stats.latencies) for after, was in zip(spent(side), before, strict=True))
    return RequestCost(stats.rate, api, database)


NAME_PAIRS = 5


def measure_counted_names(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Store analytics events, beside a service that does not count them by name and key."""
    counted, uncounted = measure_counting(world, NAME_PAIRS, 2 * seconds / NAME_PAIRS)
    for name, cost in (("counted", counted), ("uncounted", uncounted)):
        console.print(
            f"  {name}: processor time of the API process {cost.api:.0f} us, of the database {cost.database:.0f}"
        )
    name = "analytics events of 300 B, counted by name and key, to uncounted ones"
    figures.add(name, counted.rate, "/s", yardstick=uncounted.rate, promised=0.9)


# The row of names and keys: both reads in a project with very many events, by several lengths of the window. Events
# of a month, forty names of which the most frequent has half, each with four properties. They are written past the
# intake, and so is what it would have counted.

# The bench of names and keys: both reads in a project with very many events, by several lengths of the window.

EVENTS = 10_000_000
PROMISED = 1000.0  # milliseconds, 95 of 100 reads
READS = 40
DAYS = (1, 7, 30, 90)

_DAYS = """
select ensure_partition(telemetry => 'analytics_events', day => (%(now)s / 86400 - d) * 86400)
from generate_series(0, 31) d
"""
_EVENTS = """
insert into analytics_events (project_id, received_at, id, event, distinct_id, properties)
select %(project)s, %(now)s - n * 30 * 86400 / %(events)s, 'evt_' || n, 'event_' || floor(40 / (1 + n * 7919 %% 79)),
    'user_' || n * 6101 %% 50000, jsonb_build_object('path', '/p/' || n %% 1000, 'price', n %% 77, 'plan', 'pro',
    'is_mobile', n %% 3 = 0)
from generate_series(1::bigint, %(events)s) n
"""
_NAMES = """
insert into event_name_days (project_id, day, event, row_count, first_at, last_at)
select project_id, received_at - received_at %% 86400, event, count(*), min(received_at), max(received_at)
from analytics_events where project_id = %(project)s group by 1, 2, 3
"""
_KEYS = """
insert into event_key_days (project_id, day, event, key, row_count, types)
select n.project_id, n.day, n.event, k.key, n.row_count, k.types
from event_name_days n, (values ('path', 32), ('price', 8), ('plan', 32), ('is_mobile', 2)) k(key, types)
where n.project_id = %(project)s
"""
_TOTALS = """
insert into event_days (project_id, day, names, keys, other_rows, other_values, whole)
select project_id, day, count(*), count(*) * 4, 0, 0, true from event_name_days
where project_id = %(project)s group by 1, 2
"""


class ReadTimes(NamedTuple):
    """How long a read took, in milliseconds: 95 of 100 at most; and what it says of itself."""

    name: str
    p95: float
    told: str


def fill(world: worlds.World, project_id: str, events: int) -> None:
    """Generate events, and what is counted of them."""
    values = {"project": project_id, "events": events, "now": int(time.time())}
    with psycopg.connect(world.database_url, autocommit=True) as connection:
        for statement in (_DAYS, _EVENTS, _NAMES, _KEYS, _TOTALS):
            connection.execute(statement.encode(), values)
        connection.execute("vacuum analyze analytics_events, event_days, event_name_days, event_key_days")


def measure(world: worlds.World, events: int) -> list[ReadTimes]:
    """Read names and keys one after the other."""
    project_id = world.create_project("names")["id"]
    fill(world, project_id, events)
    return [
        _timed(world, f"/v1/projects/{project_id}/{read}?days={days}", f"{read} of {days} days")
        for read in ("event-names", "event-property-keys")
        for days in DAYS
    ]


def _timed(world: worlds.World, path: str, name: str) -> ReadTimes:
    took = []
    for _ in range(READS):
        began = time.perf_counter()
        shown = world.call("GET", path, None, world.owner_key)
        took.append(1000 * (time.perf_counter() - began))
    uncounted = sum(row.get("unique_users", 0) is None for row in shown.get("analytics_events", []))
    told = f"{shown['count']} rows, complete: {shown['complete']}, people not counted of {uncounted}"
    return ReadTimes(name, quantiles(took, n=20)[-1], told)


def measure_names(figures: Figures, world: worlds.World, events: int) -> None:
    """Read the names of events and the keys of their properties, in a project with very many events."""
    found = measure(world, events)
    for timed in found:
        console.print(f"  {timed.name}: p95 {timed.p95:.1f} ms; {timed.told}")
    slowest = max(found, key=lambda timed: timed.p95)
    name = f"p95 of names and keys of {events:,} events ({slowest.name})"
    figures.add(name, slowest.p95, "ms", yardstick=PROMISED, promised=1, most=True)
