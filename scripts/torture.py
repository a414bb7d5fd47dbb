"""The storms at full size: kills, lost answers, rivals, twins, readers of the log, races of automation, two releases.

    scripts/torture.py [store P1 … P27 releases deletion lists webhooks runners P25 P25-lists …] [--scale 0.2]

Each runs a service of its own on an embedded PostgreSQL, checks every promise over what its clients saw (P8, that read
models are the replay of their history, after each), and stops by itself. The exit code is 0 when all promises held.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import time
from dataclasses import replace
from math import ceil
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from service.embedded.layout import temporary_directory  # noqa: E402
from tests.support.cluster import TestCluster  # noqa: E402
from tests.torture import (  # noqa: E402
    automation,
    bounds,
    deliveries,
    edge,
    endings,
    fairness,
    plans,
    releases,
    runners,
    runs,
    schedules,
)
from tests.torture.neighbours import runs as neighbours  # noqa: E402
from tests.torture.outsiders import runs as outsiders  # noqa: E402
from tests.torture.runs import Size, Theatre  # noqa: E402

RUNS = {
    **runs.RUNS,
    **automation.RUNS,
    **bounds.RUNS,
    **edge.RUNS,
    **endings.RUNS,
    **fairness.RUNS,
    **releases.RUNS,
    **plans.RUNS,
    **schedules.RUNS,
    **deliveries.RUNS,
    **neighbours.RUNS,
    **outsiders.RUNS,
    **runners.RUNS,
}
CHOICES = {**RUNS, **neighbours.EACH}
FULL = {
    **runs.FULL,
    **automation.FULL,
    **bounds.FULL,
    **edge.FULL,
    **endings.FULL,
    **fairness.FULL,
    **releases.FULL,
    **plans.FULL,
    **schedules.FULL,
    **deliveries.FULL,
    **neighbours.FULL,
    **outsiders.FULL,
    **runners.FULL,
}


def scaled(size: Size, scale: float) -> Size:
    """The same storm with its duration scaled."""
    least = {name: max(1, int(number * scale)) for name, number in size.least.items()}
    return replace(size, seconds=size.seconds * scale, keys=ceil(size.keys * scale), least=least)


def run(name: str, scale: float, directory: Path) -> bool:
    """Run one storm; returns whether every promise held."""
    print(f"{name}  {(CHOICES[name].__doc__ or '').strip()}", flush=True)
    began = time.monotonic()
    cluster = TestCluster(directory / "data")
    try:
        theatre = Theatre(cluster, directory, lambda line: print(f"    {line}", flush=True))
        wrong = asyncio.run(CHOICES[name](theatre, scaled(FULL[name], scale)))
    except AssertionError as failure:
        wrong = [str(failure)]
    finally:
        cluster.close()
    for problem in wrong[:20]:
        print(f"    WRONG: {problem}")
    print(f"    {'held' if not wrong else f'BROKEN ({len(wrong)})'} after {time.monotonic() - began:.0f} s", flush=True)
    return not wrong


def main() -> int:
    """Run the requested storms, one after the other."""
    parser = argparse.ArgumentParser(description="Run the storms at full size.")
    parser.add_argument("storms", nargs="*", metavar="STORM", help=f"some of {' '.join(CHOICES)}; all without any")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full time and of what must happen in it")
    parser.add_argument("--keep", action="store_true", help="keep logs and journals when all promises held, too")
    chosen = parser.parse_args()
    unknown = set(chosen.storms) - set(CHOICES)
    if unknown:
        parser.error(f"there is no storm {', '.join(sorted(unknown))}")
    broken = []
    for name in chosen.storms or list(RUNS):
        directory = temporary_directory(f"torture-{name}-")
        held = run(name, chosen.scale, directory)
        if held and not chosen.keep:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            print(f"    see {directory}")
        if not held:
            broken.append(name)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
