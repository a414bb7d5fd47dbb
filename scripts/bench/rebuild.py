"""The row of rebuilds: read models folded from the whole log, beside the library's projection runner."""

from __future__ import annotations

import time
from statistics import median

from scripts.bench import transitions
from scripts.bench.figures import Figures, console
from scripts.load import worlds
from statemachines.kernel.topics import EVENTS, declare, known_topics, lifts, parse_topic

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
