"""`make bench`: every number that the service promises, as ratios within one run on one machine.

Each figure stands beside its yardstick, measured minutes apart on the same PostgreSQL: the stock library, an echo
route of the same server, the library's own ProjectionRunner, a DBOS workflow; or beside a plain number, where that is
what was promised. Prints a table; exits 1 when a ratio falls short.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from rich.console import Console
from rich.table import Table

from scripts import (
    backtests,
    batches,
    caselists,
    chains,
    contention,
    controls,
    durable,
    endings,
    largeevents,
    loadgen,
    loads,
    scrubcost,
    stock,
    unmangling,
    worlds,
)
from service.embedded.layout import temporary_directory
from statemachines.kernel.topics import EVENTS, declare, known_topics, lifts, parse_topic
from tests.support.cluster import TestCluster
from tests.torture.neighbours import storm as neighbours
from tests.torture.neighbours.attacks import SHAPES
from tests.torture.neighbours.storm import Marks, Verdict, street
from tests.torture.neighbours.world import SHORT as EXTENT

console = Console(width=118)
RESTARTS = 20
GROWTH_TURNS = 4  # of two loads that are compared, after one to warm up
INGEST_TURNS = 16
BATCHERS = 8  # connections that send batches
LEAST_BATCHED = 15_000.0  # records a second
LIFTED_TURNS = 5
OLDER = "bench."  # before the topics of a history whose events are all lifted
LEAST_IDLE = 0.010  # seconds
STEADY = ("write", "read", "log")  # what a neighbour does all the time; a fence has a promise of its own
PARTS = (
    "transitions",
    "ingest",
    "batches",
    "scrubbing",
    "chains",
    "claims",
    "rebuild",
    "growth",
    "loads",
    "control",
    "backtest",
    "deletion",
    "lists",
    "unmangling",
    "start",
    "neighbours",
)


class Figures:
    """The table: name, measured, yardstick, ratio, what was promised."""

    def __init__(self) -> None:
        self.table = Table(title="make bench")
        for column in ("figure", "measured", "yardstick", "ratio", "promised", ""):
            self.table.add_column(column, justify="left" if column in {"figure", "promised"} else "right")
        self.short = 0
        self.plain: list[dict[str, Any]] = []

    def add(
        self, name: str, measured: float, unit: str, *, yardstick: float, promised: float, most: bool = False
    ) -> None:
        """Compare a figure's ratio to the yardstick with `promised`: at least that, or at most when `most`."""
        ratio = measured / yardstick
        good = ratio <= promised if most else ratio >= promised
        self.short += not good
        sign = "<=" if most else ">="
        self.table.add_row(
            name,
            f"{measured:,.1f} {unit}",
            f"{yardstick:,.1f} {unit}",
            f"{ratio:.2f}",
            f"{sign} {promised:g} x",
            "[green]ok[/green]" if good else "[red]short[/red]",
        )
        self.plain.append({"figure": name, "measured": measured, "yardstick": yardstick, "ratio": ratio, "ok": good})
        console.print(f"  {name}: {measured:,.1f} {unit}, ratio {ratio:.2f} ({sign} {promised:g})")


def measure_transitions(figures: Figures, world: worlds.World, seconds: float, stock_rate: float) -> None:
    """Replace onboarding plans under If-Match and Idempotency-Key, through the whole path."""
    projects = [world.create_project(f"bench {n}") for n in range(64)]
    for clients, promised in ((16, 1.3), (64, 1.8)):
        stats = world.load(lambda n: worlds.replacing_plans(world.owner_key, projects[n]), clients, seconds)
        console.print(f"  {clients} clients: {dict(stats.statuses)}, p50 {stats.percentile(0.5):.1f} ms")
        figures.add(
            f"fenced transitions over HTTP, {clients} clients",
            stats.rate,
            "/s",
            yardstick=stock_rate,
            promised=promised,
        )
        if clients == 16:
            figures.add(
                "p99 against p50, 16 clients",
                stats.percentile(0.99),
                "ms",
                yardstick=stats.percentile(0.5),
                promised=5,
                most=True,
            )


def measure_ingest(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Store error events with grouping, beside an echo of the same validated body.

    The two take short turns, and the median turn of each counts: other load on the machine affects both alike,
    and a disk that stalls for a moment costs a turn and not the figure.
    """
    project = world.create_project("ingest")
    sides = {"echo": ("/v1/bench-echo", "error"), "grouped": ("/v1/logs/", "error"), "plain": ("/v1/logs/", "info")}
    turns: dict[str, list[loadgen.Stats]] = {side: [] for side in sides}
    for _ in range(1 + INGEST_TURNS):
        for side, (path, level) in sides.items():
            make = partial(worlds.posting_logs, project["dsn"], path, level=level)
            turns[side].append(world.load(make, 64, 2 * seconds / INGEST_TURNS))
    stored = turns["grouped"]
    rates = [f"{more.rate:,.0f} to {less.rate:,.0f}" for less, more in zip(turns["echo"], stored, strict=True)]
    console.print(f"  {', '.join(rates)}; p99 {median(turn.percentile(0.99) for turn in stored):.1f} ms")
    acknowledged = sum(len(turn.latencies) for turn in (*stored, *turns["plain"]))
    [[kept]] = world.query("select count(*) from log_events where project_id = %s", project["id"])
    assert kept >= acknowledged, f"{acknowledged} acknowledged, {kept} stored"
    # The first turn warms up.
    echo, grouped, plain = (median(turn.rate for turn in turns[side][1:]) for side in ("echo", "grouped", "plain"))
    figures.add("durable ingest with grouping, 64 connections", grouped, "/s", yardstick=echo, promised=0.5)
    figures.add("the same against records of no case", grouped, "/s", yardstick=plain, promised=0.87)


def measure_large_events(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Store errors of 15 kB, beside an echo of the same validated body; and what each costs of processor time."""
    found = largeevents.measure(world, INGEST_TURNS // 2, 2 * seconds / INGEST_TURNS)
    echo, stored = found.values()
    for path, cost in found.items():
        console.print(
            f"  {path}: processor time of the API process {cost.api:.0f} us, of the database {cost.database:.0f}"
        )
    name = "durable errors of 15 kB, 64 connections"
    figures.add(name, stored.rate, "/s", yardstick=echo.rate, promised=0.4)
    figures.add(f"{name}: processor time", stored.processor, "us", yardstick=echo.processor, promised=2.5, most=True)


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


def measure_scrubbing(figures: Figures, world: worlds.World, seconds: float) -> None:
    """What scrubbing costs of an event, by size; beside it, what it costs of one whose frames nobody has seen."""
    for size, frames in scrubcost.FRAMES.items():
        cost = scrubcost.measure(world, frames, seconds / 2)
        name = f"processor time of scrubbing, of an event of {size}"
        figures.add(name, cost.scrubbing, "us", yardstick=cost.whole, promised=0.15, most=True)
    cost = scrubcost.measure(world, frames, seconds / 2, fresh=True)
    name = f"the same of {size}, all of it new"
    figures.add(name, cost.scrubbing, "us", yardstick=cost.whole, promised=0.15, most=True)


def measure_chains(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Take cases from their first error to a verified deploy, beside DBOS workflows of as many trivial steps.

    A transition is one row of a machine's table, taken and recorded durably; so is the result of a DBOS step. Most
    commands make several transitions at once, on several streams: their own rate is told beside the figure.
    """
    with world.api(test_clock=True):
        tally, stats = chains.measure(world, seconds)
    length = round(tally.events / tally.chains)
    console.print(f"[bold]DBOS workflows of {length} steps, 8 threads[/bold]")
    steps = durable.durable_steps(world.fresh_database("durable"), steps=length, seconds=seconds)
    chain_rate, command_rate = tally.chains / tally.seconds, tally.chains * chains.STEPS / tally.seconds
    console.print(
        f"  {steps:,.0f} steps/s; {tally.chains} chains of {chains.STEPS} commands and {length} transitions, "
        f"{command_rate:,.0f} commands/s ({command_rate / steps:.2f} of the steps), p50 {stats.percentile(0.5):.1f} ms"
    )
    figures.add("self-healing chains, 16 runners", chain_rate, "/s", yardstick=40, promised=1)
    figures.add("their transitions against DBOS steps", chain_rate * length, "/s", yardstick=steps, promised=2)


def measure_claims(figures: Figures, world: worlds.World) -> None:
    """Race runners for one case, and for the budget of one automation."""
    slowest, claims = contention.measure_claims(world)
    console.print(f"  {contention.RIVALS} rivals, {contention.ROUNDS} races: {dict(claims)}")
    figures.add("64 rivals for one case, slowest race", slowest, "s", yardstick=1, promised=1, most=True)
    rate, starts = contention.measure_starts(world)
    console.print(f"  {contention.STARTS} starts on a budget of {contention.CAP}: {dict(starts)}")
    figures.add("starts on one ledger, 32 at once", rate, "/s", yardstick=200, promised=1)


def measure_rebuild(figures: Figures, world: worlds.World, runner_rate: float, events: int) -> None:
    """Rebuild the read model of the cases from generated history, beside the library's ProjectionRunner.

    A rebuild takes about a second, so a disk that stalls for half of one would be the figure: the median of three is.
    """
    from service.eventstore.rebuild import rebuild
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
    from service.eventstore.rebuild import rebuild
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


def measure_control(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Read control of a project with 1,000 live runs and 10,000 entries in its ledger."""
    found = controls.measure(world, seconds)
    console.print(f"  control: {dict(found.statuses)}, p50 {found.percentile(0.5):.1f} ms")
    slow = found.percentile(0.95)
    figures.add("p95 of control, 1,000 runs, 10,000 entries", slow, "ms", yardstick=50, promised=1, most=True)


def measure_backtest(figures: Figures, world: worlds.World) -> None:
    """Try a contract on ninety days in which looks considered 100,000 cases, over HTTP."""
    found = backtests.measure(world)
    told = found.told
    console.print(f"  {told['looks']:,} looks, {told['considered']:,} considered, {len(told['decisions']):,} decisions")
    figures.add(
        "a back-test of 90 days, 100,000 considered cases", found.seconds, "s", yardstick=5, promised=1, most=True
    )


def measure_deletion(figures: Figures, world: worlds.World, rows: int) -> None:
    """Delete a project with so many rows of telemetry, and a fifth as many events, beside another tenant."""
    ended = endings.measure(world, rows, rows // 5)
    figures.add(f"rows deleted, of {rows + rows // 5:,}", ended.rate, "/s", yardstick=30_000, promised=1)
    figures.add(
        "p95 of another tenant meanwhile", ended.meanwhile, "ms", yardstick=ended.alone, promised=1.5, most=True
    )


def measure_lists(figures: Figures, world: worlds.World, share: float) -> None:
    """Read pages of the list of cases by each of its filters, in a project with very many cases and errors."""
    found = caselists.measure(world, share)
    for timed in found:
        console.print(f"  {timed.name}: p95 {timed.p95:.1f} ms, most {timed.most:.1f} ms")
    slowest = max(found, key=lambda timed: timed.p95)
    size = f"{int(caselists.CASES * share):,} cases and {int(caselists.EVENTS * share):,} errors"
    figures.add(
        f"p95 of a page of {size} ({slowest.name})",
        slowest.p95,
        "ms",
        yardstick=caselists.PROMISED,
        promised=1,
        most=True,
    )


def measure_unmangling(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Lead the frames of errors back to their sources, with a warm cache."""
    rate = unmangling.measure(world, seconds)
    figures.add("frames led back to their sources", rate, "/s", yardstick=10_000, promised=1)


def measure_cases(figures: Figures, world: worlds.World, wanted: set[str], arguments: argparse.Namespace) -> None:
    """Measure those parts that are wanted of what is done with cases, each on a database of its own."""
    if "lists" in wanted:
        world.use_database("caselists")
        with world.api():
            measure_lists(figures, world, arguments.lists_share)
    if "unmangling" in wanted:
        world.use_database("unmangling")
        with world.api():
            measure_unmangling(figures, world, arguments.seconds)


def measure_start(figures: Figures) -> None:
    """Start `service serve` on an existing embedded database; measure the memory of its idle API process.

    Then kill it again and again, with its database, and measure how long it takes to be ready.
    """
    directory = temporary_directory("service-bench-")
    environment = worlds.service_environment(directory, port := worlds.free_port())
    process = None
    try:
        times, weights = [], []
        for attempt in range(4):
            began = time.perf_counter()
            process = _serve(environment)
            worlds.wait_until_ready(port, process, path="/health/live")
            if attempt:  # The first start makes the database.
                times.append(time.perf_counter() - began)
            worlds.wait_until_ready(port, process)
            time.sleep(2)
            weights.append(max(worlds.pss_of_api(process.pid)))
            process.terminate()
            process.wait(30)
        figures.add("start to first 2xx, existing database", max(times), "s", yardstick=1, promised=3, most=True)
        figures.add("idle API process (PSS)", min(weights), "MB", yardstick=1, promised=140, most=True)
        process = _serve(environment)
        times = []
        for _ in range(RESTARTS):
            worlds.wait_until_ready(port, process)
            time.sleep(0.5)
            worlds.kill_everything(process, directory)
            began = time.perf_counter()
            process = _serve(environment)
            worlds.wait_until_ready(port, process)
            times.append(time.perf_counter() - began)
        slow = quantiles(times, n=20, method="inclusive")[-1]
        console.print(f"  restarts: median {median(times):.2f} s, slowest {max(times):.2f} s")
        figures.add("restart after a kill of all, p95", slow, "s", yardstick=1, promised=3, most=True)
    finally:
        if process is not None:
            process.terminate()
            process.wait(30)
        shutil.rmtree(directory)


def _serve(environment: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "service", "serve"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def measure_neighbours(figures: Figures, seconds: float) -> None:
    """Let one tenant do the worst that is legal, in each shape; measure the p95 of the others beside their idle one.

    The slowest kind of request counts. Ten milliseconds are the least yardstick: five times less is nothing anybody
    could see.
    """
    marks = replace(neighbours.FULL, idle=seconds, attack=seconds, through=10, memory_back=False)
    with tempfile.TemporaryDirectory(prefix="service-bench-") as directory, ExitStack() as stack:
        Path(directory).chmod(0o711)
        cluster = TestCluster(Path(directory) / "data")
        stack.callback(cluster.close)
        verdicts = asyncio.run(_attacked(cluster, Path(directory), marks))
    for verdict in verdicts:
        if not verdict.built:
            console.print(f"  {verdict.shape}: not built")
            continue
        kind = max(STEADY, key=lambda kind: verdict.attacked[kind] / max(verdict.idle[kind], LEAST_IDLE))
        figures.add(
            f"neighbours' p95 under {verdict.shape}, {kind}s",
            1000 * verdict.attacked[kind],
            "ms",
            yardstick=1000 * max(verdict.idle[kind], LEAST_IDLE),
            promised=5,
            most=True,
        )


async def _attacked(cluster: TestCluster, directory: Path, marks: Marks) -> list[Verdict]:
    async with street(cluster, directory, EXTENT) as built:
        idle = await built.quiet(marks)
        verdicts = []
        for shape in SHAPES:
            verdicts.append(await built.attack(shape, idle, marks))
            console.print(f"  {verdicts[-1]}")
        return verdicts


def main() -> int:
    """Run all or the named parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"{' '.join(PARTS)} (default: all)")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each load")
    parser.add_argument("--growth-events", type=int, default=1_000_000)
    parser.add_argument("--lists-share", type=float, default=1.0, help="of the promised number of cases and errors")
    parser.add_argument("--deletion-rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    wanted = set(arguments.parts or PARTS)
    if unknown := wanted - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    figures = Figures()
    with worlds.World() as world:
        if "transitions" in wanted:
            console.print("[bold]stock Application in process, 8 threads[/bold]")
            stock_rate = stock.stock_transitions(world.fresh_database("stock"), seconds=arguments.seconds)
            console.print(f"  {stock_rate:,.0f}/s")
            with world.api():
                measure_transitions(figures, world, arguments.seconds, stock_rate)
        if "ingest" in wanted:
            with world.api():
                measure_ingest(figures, world, arguments.seconds)
                measure_large_events(figures, world, arguments.seconds)
        if "batches" in wanted:
            with world.api():
                measure_batches(figures, world, arguments.seconds)
        if "scrubbing" in wanted:
            with world.api():
                measure_scrubbing(figures, world, arguments.seconds)
        if "chains" in wanted:
            world.use_database("chains")
            measure_chains(figures, world, arguments.seconds)
        if "claims" in wanted:
            world.use_database("claims")
            with world.api():
                measure_claims(figures, world)
        if "rebuild" in wanted:
            world.use_database("log")
            runner_rate = stock.stock_projection(world.fresh_database("runner"))
            console.print(f"[bold]the library's ProjectionRunner[/bold]\n  {runner_rate:,.0f} events/s")
            measure_rebuild(figures, world, runner_rate, 100_000)
            measure_lifted_rebuild(figures, world, 100_000)
        if "growth" in wanted:
            measure_growth(figures, world, arguments.seconds, arguments.growth_events)
        if "loads" in wanted:
            world.use_database("loads")
            measure_loads(figures, world)
        if "control" in wanted:
            world.use_database("control")
            with world.api():
                measure_control(figures, world, arguments.seconds)
        if "backtest" in wanted:
            world.use_database("backtest")
            with world.api():
                measure_backtest(figures, world)
        if "deletion" in wanted:
            world.use_database("deletion")
            with world.api():
                measure_deletion(figures, world, arguments.deletion_rows)
        measure_cases(figures, world, wanted, arguments)
        if "start" in wanted:
            measure_start(figures)
        if "neighbours" in wanted:
            measure_neighbours(figures, arguments.seconds)
    console.print(figures.table)
    return 1 if figures.short else 0


if __name__ == "__main__":
    sys.exit(main())
