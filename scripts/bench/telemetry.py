"""Figures of what is reported: records of every size, one by one and in batches, what is done with each."""

from __future__ import annotations

from functools import partial
from statistics import median

from scripts.bench.figures import Figures, console
from scripts.bench.intake import batches, bugsink, namecost, scrubcost, trackers, unmangling
from scripts.bench.work import largeevents
from scripts.load import loadgen, worlds

INGEST_TURNS = 16
NAME_PAIRS = 5
BATCHERS = 8  # connections that send batches
LEAST_BATCHED = 15_000.0  # records a second
LEFT_BY_GROUPING = 0.87  # of the rate, so that it adds at most 15 % to what a record takes


def measure_ingest(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Store error events with grouping, beside an echo of the same validated body.

    The two take short turns, and the median turn of each counts: other load on the machine affects both alike,
    and a disk that stalls for a moment costs a turn and not the figure. Processor time is that of the API process and
    the database, so the rate includes the load generator and what stands still, and this does not.
    """
    project = world.create_project("ingest")
    sides = {"echo": ("/v1/bench-echo", "error"), "grouped": ("/v1/logs/", "error"), "plain": ("/v1/logs/", "info")}
    turns: dict[str, list[loadgen.Stats]] = {side: [] for side in sides}
    processor: dict[str, list[float]] = {side: [] for side in sides}  # microseconds of a request
    for _ in range(1 + INGEST_TURNS):
        for side, (path, level) in sides.items():
            make = partial(worlds.posting_logs, project["dsn"], path, level=level)
            before = sum(largeevents.spent(world))
            turns[side].append(world.load(make, 64, 2 * seconds / INGEST_TURNS))
            used = sum(largeevents.spent(world)) - before
            processor[side].append(1e6 * used / len(turns[side][-1].latencies))
    stored = turns["grouped"]
    rates = [f"{more.rate:,.0f} to {less.rate:,.0f}" for less, more in zip(turns["echo"], stored, strict=True)]
    console.print(f"  {', '.join(rates)}; p99 {median(turn.percentile(0.99) for turn in stored):.1f} ms")
    acknowledged = sum(len(turn.latencies) for turn in (*stored, *turns["plain"]))
    [[kept]] = world.query("select count(*) from log_events where project_id = %s", project["id"])
    assert kept >= acknowledged, f"{acknowledged} acknowledged, {kept} stored"
    # The first turn warms up.
    echo, grouped, plain = (median(turn.rate for turn in turns[side][1:]) for side in ("echo", "grouped", "plain"))
    figures.add("errors of 300 B, durable and in their cases, to an echo", grouped, "/s", yardstick=echo, promised=0.5)
    stored_us, echo_us = (median(processor[side][1:]) for side in ("grouped", "echo"))
    name = "processor time of an error of 300 B, to an echo"
    figures.add(name, stored_us, "us", yardstick=echo_us, promised=2.5, most=True)
    figures.add(
        "what grouping leaves: the same to records of no case",
        grouped,
        "/s",
        yardstick=plain,
        promised=LEFT_BY_GROUPING,
    )


def measure_large_events(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Store errors of 15 kB, beside an echo of the same validated body; and what each costs of processor time."""
    found = largeevents.measure(world, INGEST_TURNS // 2, 2 * seconds / INGEST_TURNS)
    echo, stored = found.values()
    for path, cost in found.items():
        console.print(
            f"  {path}: processor time of the API process {cost.api:.0f} us, of the database {cost.database:.0f}"
        )
    name = "errors of 15 kB, durable and in their cases, to an echo"
    figures.add(name, stored.rate, "/s", yardstick=echo.rate, promised=0.4)
    name = "processor time of an error of 15 kB, to an echo"
    figures.add(name, stored.processor, "us", yardstick=echo.processor, promised=2.5, most=True)


def measure_trackers(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Take envelopes of Sentry's SDKs beside Bugsink: what is accepted, and what is visible in its case."""
    with bugsink.running() as other:
        ours, theirs = trackers.measure(
            [trackers.of_service(world), other], seconds / 2, lambda line: console.print(f"  {line}")
        )
    name = f"envelopes of 15 kB, {trackers.CONNECTIONS} connections"
    figures.add(f"{name}, accepted, to {other.name}", ours.accepted, "/s", yardstick=theirs.accepted, promised=5)
    figures.add(f"{name}, visible, to {other.name}", ours.visible, "/s", yardstick=theirs.visible, promised=15)


def measure_batches(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Store records that come many in a request; each that was acknowledged is there."""
    for name, client in (
        ("batched records, durable and in their cases", batches.posting_lines),
        ("OpenTelemetry records, durable and in their cases", batches.exporting),
    ):
        project = world.create_project("batches")
        load = partial(client, project["dsn"])
        world.load(load, BATCHERS, seconds / 4)  # to warm up
        stats = world.load(lambda n, load=load: load(n + BATCHERS), BATCHERS, seconds)
        console.print(f"  {dict(stats.statuses)}, p99 {stats.percentile(0.99):.0f} ms a request")
        acknowledged = len(stats.latencies) * batches.SIZE
        [[kept]] = world.query("select count(*) from log_events where project_id = %s", project["id"])
        assert kept >= acknowledged, f"{acknowledged} acknowledged, {kept} stored"
        figures.add(name, stats.rate * batches.SIZE, "/s", yardstick=LEAST_BATCHED, promised=1)


def measure_names(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Store analytics events, beside a service that does not count them by name and key."""
    counted, uncounted = namecost.measure(world, NAME_PAIRS, 2 * seconds / NAME_PAIRS)
    for name, cost in (("counted", counted), ("uncounted", uncounted)):
        console.print(
            f"  {name}: processor time of the API process {cost.api:.0f} us, of the database {cost.database:.0f}"
        )
    name = "analytics events of 300 B, counted by name and key, to uncounted ones"
    figures.add(name, counted.rate, "/s", yardstick=uncounted.rate, promised=0.9)


def measure_scrubbing(figures: Figures, world: worlds.World, seconds: float) -> None:
    """What scrubbing costs of an event, by size; beside it, what it costs of one whose frames nobody has seen."""
    for size, frames in scrubcost.FRAMES.items():
        cost = scrubcost.measure(world, frames, seconds / 2)
        name = f"processor time of scrubbing, of an event of {size}"
        figures.add(name, cost.scrubbing, "us", yardstick=cost.whole, promised=0.15, most=True)
    cost = scrubcost.measure(world, frames, seconds / 2, fresh=True)
    name = f"the same of {size}, all of it new"
    figures.add(name, cost.scrubbing, "us", yardstick=cost.whole, promised=0.15, most=True)


def measure_unmangling(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Lead the frames of errors back to their sources, with a warm cache."""
    rate = unmangling.measure(world, seconds)
    figures.add("frames led back to their sources", rate, "/s", yardstick=10_000, promised=1)
