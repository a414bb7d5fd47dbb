"""Figures of a long history: rebuilds of read models, commands on a large log, heavy streams."""

from __future__ import annotations

import time
from contextlib import ExitStack
from copy import copy
from statistics import median
from typing import Any

from scripts.bench.figures import Figures, console
from scripts.bench.work import loads, stock, verifying
from scripts.load import worlds
from statemachines.kernel.topics import EVENTS, declare, known_topics, lifts, parse_topic

GROWTH_TURNS = 4  # of two loads that are compared, after one to warm up
LIFTED_TURNS = 5
OLDER = "bench."  # before the topics of a history whose events are all lifted


def measure_rebuilds(figures: Figures, world: worlds.World, events: int) -> None:
    """Rebuild read models beside the library's runner, then with all events in their oldest form."""
    runner_rate = stock.stock_projection(world.fresh_database("runner"))
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


def measure_loads(figures: Figures, world: worlds.World) -> None:
    """Load the heaviest stream cold, and fill caches of states beyond their bound."""
    found = loads.measure(world.database_url)
    figures.add("cold load of the heaviest stream", found.cold, "ms", yardstick=50, promised=1, most=True)
    figures.add("memory by a cache of heavy states", found.heavy, "x", yardstick=1, promised=1.3, most=True)
    figures.add("memory by a cache of small states", found.small, "x", yardstick=1, promised=1.3, most=True)


def measure_verifying(figures: Figures) -> None:
    """Verify a whole export as an outsider does, beside a plain number: 10,000 events a second."""
    rates = verifying.verifying_rates()
    console.print(f"  {', '.join(f'{rate:,.0f}' for rate in rates)} events/s")
    figures.add(
        f"verifier over an export of {verifying.EVENTS:,} events", median(rates), "ev/s", yardstick=10_000, promised=1
    )
