"""The row of names and keys: both reads in a project with very many events, by several lengths of the window.

Events of a month, forty names of which the most frequent has half, each with four properties. They are written past the
intake, and so is what it would have counted.
"""

from __future__ import annotations

import time
from statistics import quantiles
from typing import NamedTuple

import psycopg

from scripts.bench.figures import Figures, console
from scripts.load import worlds

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
