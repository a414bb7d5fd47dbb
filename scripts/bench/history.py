"""The rows of long histories: rebuilds, a command on a log a thousand times as long, and heavy streams."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from contextlib import ExitStack
from copy import copy
from statistics import median
from typing import Any, NamedTuple

import msgspec
import psutil
import psycopg

from scripts.bench import transitions
from scripts.bench.figures import Figures, console
from scripts.load import worlds
from service.eventstore.connect.connection import connect
from service.eventstore.declare.commands import Intent, system_command
from service.eventstore.state.cache import StateCache
from service.eventstore.store import EventStore
from service.eventstore.write.warming import load_into, load_stream
from service.registry import registry
from statemachines.kernel.machine import Stream
from statemachines.kernel.topics import EVENTS, declare, known_topics, lifts, parse_topic
from statemachines.onboarding.lifecycle import OnboardingPlanned, stream
from statemachines.onboarding.plan import Plan

# The row of rebuilds: read models folded from the whole log, beside the library's projection runner.

LIFTED_TURNS = 5
OLDER = "bench."  # before the topics of a history whose events are all lifted


def measure_rebuilds(figures: Figures, world: worlds.World, events: int) -> None:
    """Rebuild read models beside the library's runner, then with all events in their oldest form."""
    runner_rate = transitions.stock_projection(world.fresh_database("runner"))
    console.print(f"[bold]the library's ProjectionRunner[/bold]\n  {runner_rate:,.0f} events/s")
    measure_rebuild(figures, world, runner_rate, events)
    measure_lifted_rebuild(figures, world, events)


def measure_rebuild(figures: Figures, world: worlds.World, runner_rate: float, events: int) -> None:
    """Rebuild the read model of the cases from generated history, beside the library's ProjectionRunner.

    A rebuild takes about a second, so a disk that stalls for half of one would be the figure: the median of three is.
    """
    from service.history.rebuild import rebuild
    from service.registry import read_models

    world.generate_history(events)
    model = read_models()["cases"]
    rates = []
    for _ in range(3):
        began = time.perf_counter()
        receipt = rebuild(world.database_url, model)
        rates.append(receipt.events / (time.perf_counter() - began))
    console.print(f"  {', '.join(f'{rate:,.0f}' for rate in rates)} events/s")
    figures.add(
        f"rebuild of a read model, {receipt.events:,} events",
        median(rates),
        "ev/s",
        yardstick=runner_rate,
        promised=60,
    )


def measure_lifted_rebuild(figures: Figures, world: worlds.World, events: int) -> None:
    """Rebuild the same read model from events that are all one version old, beside one from events of the latest.

    No event of the product has a second version yet. So the bench declares older topics for those of the generated
    history, and the step that lifts each: it copies the payload and adds a member, as steps do. Both in turns.
    """
    from service.history.rebuild import rebuild
    from service.registry import read_models

    model = read_models()["cases"]
    rates: dict[str, list[float]] = {"": [], OLDER: []}
    urls: dict[str, str] = {}
    for topics in rates:
        world.use_database(f"history_{topics.rstrip('.') or 'latest'}")
        world.generate_history(events, topics)
        urls[topics] = world.database_url
    _declare_older([topic for topic in known_topics() if topic.startswith("case.")])
    for _ in range(LIFTED_TURNS):
        for topics, url in urls.items():
            began = time.perf_counter()
            receipt = rebuild(url, model)
            rates[topics].append(receipt.events / (time.perf_counter() - began))
            assert (receipt.events, receipt.old_digest == receipt.new_digest) == (events, len(rates[topics]) > 1)
    for topics, found in rates.items():
        console.print(f"  {topics or 'latest'}: {', '.join(f'{rate:,.0f}' for rate in found)} events/s")
    figures.add(
        f"rebuild, every event one version old, {events:,} events (steps of the bench)",
        median(rates[OLDER]),
        "ev/s",
        yardstick=median(rates[""]),
        promised=0.9,
    )


def _declare_older(topics: list[str]) -> None:
    """Let each event have a first version under a name of the bench, which a step lifts to the class it has."""
    for topic in topics:
        declare(f"{OLDER}{parse_topic(topic).at(2)}", EVENTS[topic])
        lifts(f"{OLDER}{parse_topic(topic).at(1)}")(lambda payload: payload | {"lifted": True})


# The rows of long histories: a command on a log a thousand times as long, and cold loads and caches of heavy ones.

# The row of growth: a command on a log a thousand times as long.


GROWTH_TURNS = 4  # of two loads that are compared, after one to warm up


def measure_growth(figures: Figures, world: worlds.World, seconds: float, events: int) -> None:
    """Compare the median of fenced transitions on a log of 1,000 events with that on a thousandfold one.

    Two services, each on a database of its own, take turns: other load on the machine affects both alike.
    """
    latencies: list[list[float]] = [[], []]
    with ExitStack() as stack:
        sides = [_grown(stack, world, size) for size in (1_000, events)]
        world.settle()
        for turn in range(1 + GROWTH_TURNS):
            for (side, projects), seen in zip(sides, latencies, strict=True):
                stats = side.load(
                    lambda n, side=side, projects=projects: worlds.replacing_plans(side.owner_key, projects[n]),
                    len(projects),
                    seconds / GROWTH_TURNS,
                )
                seen.extend(stats.latencies if turn else ())  # The first turn warms up.
        side, projects = sides[-1]
        # Each project has had its plan replaced some hundred times: a stream as long as its readers will meet.
        past = side.load(lambda n: worlds.looking_back(side.owner_key, projects[n]), 2, seconds / GROWTH_TURNS)
    small, large = (1000 * median(seen) for seen in latencies)
    figures.add(
        f"p50 of a fenced transition at {events:,} events", large, "ms", yardstick=small, promised=1.2, most=True
    )
    console.print(f"  looking back: {dict(past.statuses)}, p50 {past.percentile(0.5):.1f} ms")
    slow = past.percentile(0.95)
    figures.add(
        f"p95 of a read as of any revision at {events:,} events", slow, "ms", yardstick=50, promised=1, most=True
    )


def _grown(stack: ExitStack, world: worlds.World, events: int) -> tuple[worlds.World, list[dict[str, Any]]]:
    """Run a service on a log of so many events; returns it with its sixteen projects."""
    world.use_database(f"growth_{events}")
    stack.enter_context(world.api())
    side = copy(world)
    projects = [side.create_project(f"growth {n}") for n in range(16)]
    [[stored]] = side.query("select count(*) from events")
    side.generate_history(events - stored)
    side.catch_up()
    side.query("analyze")
    return side, projects


# What a cold load of the heaviest stream costs, and what a full cache of states weighs (P26). The stream is an
# onboarding whose plan is as large as a body may be and full of small values, replaced again and again: the heaviest
# history that a tenant can make by the interface. Caches are filled with many such streams, and with many small
# ones, beyond their bound; the process is weighed before and after.

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
    command = [sys.executable, "-m", "scripts.bench.history", database_url, kind, str(projects), str(CACHE_BYTES)]
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


def measure_loads(figures: Figures, world: worlds.World) -> None:
    """Load the heaviest stream cold, and fill caches of states beyond their bound."""
    found = measure(world.database_url)
    figures.add("cold load of the heaviest stream", found.cold, "ms", yardstick=50, promised=1, most=True)
    figures.add("memory by a cache of heavy states", found.heavy, "x", yardstick=1, promised=1.3, most=True)
    figures.add("memory by a cache of small states", found.small, "x", yardstick=1, promised=1.3, most=True)


if __name__ == "__main__":
    address, of, count, bound = sys.argv[1:]
    print(fill(address, of, int(count), int(bound)))
