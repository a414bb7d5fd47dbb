"""`make bench`: every number that the service promises, as ratios within one run on one machine.

Each figure stands beside its yardstick, measured minutes apart on the same PostgreSQL: the stock library, an echo
route of the same server, the library's own ProjectionRunner, a DBOS workflow, another tracker of errors; or beside a
plain number, where that is what was promised. Prints a table; exits 1 when a ratio falls short.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

from scripts.bench import (
    answers,
    caselists,
    chains,
    claims,
    control,
    deletion,
    deliveries,
    errors,
    history,
    listening,
    names,
    processes,
    scrubbing,
    signing,
    trackers,
    transitions,
    visits,
)
from scripts.bench.figures import Figures, console
from scripts.load import worlds


class Part(NamedTuple):
    """A part of the run: what measures it, a database of its own if it has one, whether an API process is up."""

    measure: Callable[[Figures, worlds.World, argparse.Namespace], None]
    database: str = ""
    served: bool = True


PARTS = {
    "transitions": Part(
        lambda figures, world, asked: transitions.measure_transitions(figures, world, asked.seconds), served=False
    ),
    "tree": Part(
        lambda figures, world, asked: signing.measure_signing(figures, world, asked.seconds), "tree", served=False
    ),
    "ingest": Part(lambda figures, world, asked: errors.measure_ingest(figures, world, asked.seconds)),
    "large": Part(lambda figures, world, asked: errors.measure_large_events(figures, world, asked.seconds)),
    "bugsink": Part(lambda figures, world, asked: trackers.measure_trackers(figures, world, asked.seconds), "bugsink"),
    "batches": Part(lambda figures, world, asked: errors.measure_batches(figures, world, asked.seconds)),
    "names": Part(
        lambda figures, world, asked: names.measure_counted_names(figures, world, asked.seconds), served=False
    ),
    "scrubbing": Part(lambda figures, world, asked: scrubbing.measure_scrubbing(figures, world, asked.seconds)),
    "chains": Part(
        lambda figures, world, asked: chains.measure_chains(figures, world, asked.seconds), "chains", served=False
    ),
    "claims": Part(lambda figures, world, _: claims.measure_claims(figures, world), "claims"),
    "rebuild": Part(lambda figures, world, _: history.measure_rebuilds(figures, world, 100_000), "log", served=False),
    "growth": Part(
        lambda figures, world, asked: history.measure_growth(figures, world, asked.seconds, asked.growth_events),
        served=False,
    ),
    "loads": Part(lambda figures, world, _: history.measure_loads(figures, world), "loads", served=False),
    "control": Part(lambda figures, world, asked: control.measure_control(figures, world, asked.seconds), "control"),
    "backtest": Part(lambda figures, world, _: control.measure_backtest(figures, world), "backtest"),
    "deletion": Part(
        lambda figures, world, asked: deletion.measure_deletion(figures, world, asked.deletion_rows), "deletion"
    ),
    "metadata": Part(lambda figures, world, asked: names.measure_names(figures, world, asked.named_events), "metadata"),
    "answers": Part(
        lambda figures, world, asked: answers.measure_answers(figures, world, asked.answered_events), "answers"
    ),
    "lists": Part(
        lambda figures, world, asked: caselists.measure_lists(figures, world, asked.lists_share), "caselists"
    ),
    "console": Part(
        lambda figures, world, asked: visits.measure_console(figures, world, asked.console_share),
        "console",
        served=False,
    ),
    "public": Part(lambda figures, world, asked: answers.measure_public_query(figures, world, asked.seconds), "public"),
    "unmangling": Part(
        lambda figures, world, asked: scrubbing.measure_unmangling(figures, world, asked.seconds), "unmangling"
    ),
    "webhooks": Part(
        lambda figures, world, asked: deliveries.measure_deliveries(figures, world, asked.seconds),
        "webhooks",
        served=False,
    ),
    "verifying": Part(lambda figures, *_: signing.measure_verifying(figures), served=False),
    "listening": Part(
        lambda figures, world, asked: listening.measure_listening(figures, world, asked.seconds), "listening"
    ),
    "start": Part(lambda figures, *_: processes.measure_start(figures), served=False),
    "neighbours": Part(lambda figures, _, asked: processes.measure_neighbours(figures, asked.seconds), served=False),
}


def main() -> int:
    """Run all or the named parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"{' '.join(PARTS)} (default: all)")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each load")
    parser.add_argument("--growth-events", type=int, default=1_000_000)
    parser.add_argument("--lists-share", type=float, default=1.0, help="of the promised number of cases and errors")
    parser.add_argument("--console-share", type=float, default=1.0, help="of the promised number of cases and errors")
    parser.add_argument("--named-events", type=int, default=names.EVENTS)
    parser.add_argument("--answered-events", type=int, default=answers.EVENTS)
    parser.add_argument("--deletion-rows", type=int, default=1_000_000)
    asked = parser.parse_args()
    if unknown := set(asked.parts) - PARTS.keys():
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    figures = Figures()
    with worlds.World() as world:
        for name, part in PARTS.items():
            if asked.parts and name not in asked.parts:
                continue
            if part.database:
                world.use_database(part.database)
            with world.api() if part.served else nullcontext():
                part.measure(figures, world, asked)
    console.print(figures.table)
    return 1 if figures.short else 0


if __name__ == "__main__":
    sys.exit(main())
