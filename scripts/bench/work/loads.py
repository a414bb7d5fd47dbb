"""What a cold load of the heaviest stream costs, and what a full cache of states weighs (P26).

The stream is an onboarding whose plan is as large as a body may be and full of small values, replaced again and again:
the heaviest history that a tenant can make by the interface. Caches are filled with many such streams, and with many
small ones, beyond their bound; the process is weighed before and after.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from statistics import median
from typing import Any, NamedTuple

import msgspec
import psutil
import psycopg

from scripts.load import worlds
from service.eventstore.connect.connection import connect
from service.eventstore.declare.commands import Intent, system_command
from service.eventstore.state.cache import StateCache
from service.eventstore.store import EventStore
from service.eventstore.write.warming import load_into, load_stream
from service.registry import registry
from statemachines.kernel.machine import Stream
from statemachines.onboarding.lifecycle import OnboardingPlanned, stream
from statemachines.onboarding.plan import Plan

REPLACED = 30
HEAVY_PROJECTS = 40
SMALL_PROJECTS = 6_000
TURNS = 9
CACHE_BYTES = 32 * 1024 * 1024


class Loads(NamedTuple):
    """Milliseconds of a cold load, and the growth in memory by a full cache as a ratio to its bound."""

    cold: float
    heavy: float
    small: float


def large_plan(milestones: int) -> Plan:
    """Make a valid plan with a hundred names in each milestone: 220 of them are half a megabyte."""
    plan = worlds.plan("Who pays?")
    one = plan["milestones"][0]
    plan["milestones"] = [
        one | {"event": f"event {n}", "properties": [f"property {n:04} {m:05}" for m in range(100)]}
        for n in range(milestones)
    ]
    return msgspec.convert(plan, Plan)


def measure(database_url: str) -> Loads:
    """Fill an empty database with the service's tables, and measure. Its clock is moved on by hours."""
    store = EventStore(database_url, registry())
    store.start_writing()
    with psycopg.connect(database_url, autocommit=True) as sql:
        for turn in range(REPLACED):
            plant(store, "proj_longest1", large_plan(220))
            if turn % 10 == 9:
                sql.execute("select advance_service_clock(3600)")
        for n in range(HEAVY_PROJECTS):
            plant(store, f"proj_heavy{n:04}", large_plan(120))
        for n in range(SMALL_PROJECTS):
            plant(store, f"proj_small{n:04}", large_plan(1))
    store.stop_writing()
    return Loads(
        cold_load(database_url),
        growth(database_url, "heavy", HEAVY_PROJECTS),
        growth(database_url, "small", SMALL_PROJECTS),
    )


def plant(store: EventStore, project_id: str, plan: Plan) -> None:
    """Append a plan to a project's onboarding, as its replacement does."""
    onboarding = stream(project_id)

    def decide(unit: Any) -> None:
        unit.append(onboarding, [OnboardingPlanned(onboarding.id, plan, "0" * 64, unit.now)])

    store.execute_sync(system_command("bench", "plant a plan", Intent([onboarding], decide)))


def cold_load(database_url: str) -> float:
    """Median milliseconds until a process that knows nothing has the longest stream in memory."""
    taken = []
    with connect(database_url, application="bench") as connection:
        for _ in range(1 + TURNS):
            began = time.perf_counter()
            assert load_stream(connection, registry(), stream("proj_longest1")) is not None
            taken.append(1000 * (time.perf_counter() - began))
    return median(taken[1:])


def growth(database_url: str, kind: str, projects: int) -> float:
    """Fill a cache in a process of its own, whose memory nothing else has used before."""
    command = [sys.executable, "-m", "scripts.bench.work.loads", database_url, kind, str(projects), str(CACHE_BYTES)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def fill(database_url: str, kind: str, projects: int, max_bytes: int) -> float:
    """Memory that a cache filled beyond its bound adds to this process (PSS), as a ratio to the bound."""
    cache = StateCache(max_bytes=max_bytes)
    streams: list[Stream] = [stream(f"proj_{kind}{n:04}") for n in range(projects)]
    with connect(database_url, application="bench") as connection:
        before = pss()
        for one in streams:
            load_into(connection, registry(), cache, [one])
        grown = pss() - before
    assert cache.bytes > 0.8 * max_bytes, f"the cache holds {cache.bytes} bytes only"
    return grown / max_bytes


def pss() -> float:
    """Bytes of this process's proportional set."""
    gc.collect()
    return float(psutil.Process().memory_full_info().pss)


if __name__ == "__main__":
    address, of, count, bound = sys.argv[1:]
    print(fill(address, of, int(count), int(bound)))
