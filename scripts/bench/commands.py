"""Figures of what commands do: transitions, whole chains, races for a case and a budget."""

from __future__ import annotations

from scripts.bench.figures import Figures, console
from scripts.bench.work import chains, contention, durable, signing, stock
from scripts.load import worlds


def measure_transitions(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Transitions of the service beside those of the stock library in one process."""
    console.print("[bold]stock Application in process, 8 threads[/bold]")
    stock_rate = stock.stock_transitions(world.fresh_database("stock"), seconds=seconds)
    console.print(f"  {stock_rate:,.0f}/s")
    with world.api():
        _measure_replacing(figures, world, seconds, stock_rate)


def _measure_replacing(figures: Figures, world: worlds.World, seconds: float, stock_rate: float) -> None:
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


def measure_signing(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Transitions with the signed log beside those without, and how late checkpoints and cosignatures are."""
    costs = signing.measure(world, seconds)
    console.print(f"  without {[round(rate) for rate in costs.plain]}, with {[round(rate) for rate in costs.signed]}")
    figures.add("transitions with the signed log, median of 5 pairs", costs.ratio, "", yardstick=1, promised=0.9)
    figures.add("commit to signed checkpoint, p99", costs.checkpoint, "ms", yardstick=250, promised=1, most=True)
    figures.add("commit to 2 of 3 cosignatures, p99", costs.cosigned, "ms", yardstick=1500, promised=1, most=True)


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
