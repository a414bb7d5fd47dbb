"""The row of counting events by name and key as they are stored: the rate with and without it (G-155).

Two services, each on a database of its own, take turns in pairs: other load on the machine affects both alike. On one
of them nothing is summed, and the function that counts does nothing.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from copy import copy
from functools import partial
from statistics import median

from scripts.bench.figures import Figures, console
from scripts.bench.large import RequestCost, spent
from scripts.load import bench_server, loadgen, worlds

# What it costs to count analytics events by name and key as they are stored (G-155): the rate with and without it.

CLIENTS = 64
EVENTS = ("page_viewed", "cart_opened", "item_added", "checkout_started", "order_paid", "invite_sent")

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
        body = {"event": EVENTS[count % len(EVENTS)], "distinct_id": f"user-{count % 5000}", "properties": properties}
        yield ("POST", "/v1/analytics/", headers, json.dumps(body).encode())


def measure(world: worlds.World, pairs: int, seconds: float) -> list[RequestCost]:
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


def measure_names(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Store analytics events, beside a service that does not count them by name and key."""
    counted, uncounted = measure(world, NAME_PAIRS, 2 * seconds / NAME_PAIRS)
    for name, cost in (("counted", counted), ("uncounted", uncounted)):
        console.print(
            f"  {name}: processor time of the API process {cost.api:.0f} us, of the database {cost.database:.0f}"
        )
    name = "analytics events of 300 B, counted by name and key, to uncounted ones"
    figures.add(name, counted.rate, "/s", yardstick=uncounted.rate, promised=0.9)
