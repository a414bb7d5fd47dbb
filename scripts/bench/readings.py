"""Figures of large projects: what reads, tries and deletes the most that a project may hold."""

from __future__ import annotations

from scripts.bench.console import visits
from scripts.bench.figures import Figures, console
from scripts.bench.intake import answers, backtests, caselists, namereads
from scripts.bench.work import controls, endings, publicreads
from scripts.load import worlds


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
    size = f"{int(caselists.CASES * share):,} cases and {int(caselists.EVENTS * share):,} errors"
    for promised in (caselists.PROMISED, caselists.PROMISED_ORDERED, caselists.PROMISED_FILTERED):
        slowest = max((timed for timed in found if timed.promised == promised), key=lambda timed: timed.p95)
        name = f"p95 of a page of {size} ({slowest.name})"
        figures.add(name, slowest.p95, "ms", yardstick=promised, promised=1, most=True)


def measure_console(figures: Figures, world: worlds.World, share: float) -> None:
    """Visit every page of the console, in a project with very many cases and errors and a long run."""
    found = visits.measure(world, share)
    visits.show(found, console)
    without, unopened = found.idle
    size = f"{int(caselists.CASES * share):,} cases and {int(caselists.EVENTS * share):,} errors"
    name = f"p95 of a page with {size} (/{found.slowest.place})"
    figures.add(name, found.slowest.p95, "ms", yardstick=visits.PROMISED, promised=1, most=True)
    wire = found.first_visit / 1000
    figures.add("first visit to the console", wire, "kB", yardstick=visits.FIRST_VISIT / 1000, promised=1, most=True)
    figures.add("the console, unopened (PSS)", unopened - without, "MB", yardstick=1, promised=visits.BEFORE, most=True)
    figures.add("all pages of it opened (PSS)", found.opened, "MB", yardstick=1, promised=visits.AFTER, most=True)


def measure_names(figures: Figures, world: worlds.World, events: int) -> None:
    """Read the names of events and the keys of their properties, in a project with very many events."""
    found = namereads.measure(world, events)
    for timed in found:
        console.print(f"  {timed.name}: p95 {timed.p95:.1f} ms; {timed.told}")
    slowest = max(found, key=lambda timed: timed.p95)
    name = f"p95 of names and keys of {events:,} events ({slowest.name})"
    figures.add(name, slowest.p95, "ms", yardstick=namereads.PROMISED, promised=1, most=True)


def measure_answers(figures: Figures, world: worlds.World, events: int) -> None:
    """Ask for a trend and for a funnel in a project with very many events, and by hand."""
    for sides in answers.measure(world, events):
        name = f"p95 of {sides.question} over {sides.matching:,} of {events:,} events"
        figures.add(name, sides.http, "ms", yardstick=answers.PROMISED, promised=1, most=True)
        name = f"{sides.question} over HTTP, to SQL by hand"
        figures.add(name, sides.http, "ms", yardstick=sides.hand, promised=answers.TO_HAND, most=True)


def measure_public_query(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Read a published query of ten rows that are kept, as anybody does."""
    found = publicreads.measure(world, seconds)
    figures.add("a kept public query of 10 rows, to an echo", found.public, "/s", yardstick=found.echo, promised=0.5)
