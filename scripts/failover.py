"""Lose database hosts under load: `make failover`, or cuts of it.

    python -m scripts.failover [--failovers 50] [--nemesis kill …] [--postgres 15] [--keep]

Three PostgreSQL under Patroni, three etcd, two API machines with their workers, programs with the official SDKs of
Sentry and PostHog and writers of fenced commands, all on loopback. The failovers take turns among the nemeses. It
prints a line for each, then the table. The exit code is 0 when nothing acknowledged was lost or doubled, the history
verifies, and writes came back in time.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import signal
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from service.embedded.layout import temporary_directory  # noqa: E402
from tests.failover.drill import Drill, clear, judge, table, unable  # noqa: E402
from tests.failover.nemeses import NEMESES  # noqa: E402
from tests.support.cluster import POSTGRES_15  # noqa: E402

FULL = 50
SHOWN = 40


def main() -> int:
    """Run the drill that was asked for; returns the exit code."""
    parser = argparse.ArgumentParser(description="Lose database hosts under load, and count what was lost.")
    parser.add_argument("--failovers", type=int, default=FULL, help="how many in all")
    parser.add_argument("--nemesis", action="append", choices=NEMESES, help="one of several; all without any")
    parser.add_argument("--postgres", choices=("wheel", "15"), default="wheel", help="whose programs")
    parser.add_argument("--keep", action="store_true", help="keep logs and books when all promises held, too")
    chosen = parser.parse_args()
    if (reason := unable()) is not None:
        print(reason)
        return 2
    names = chosen.nemesis or list(NEMESES)
    plan = [NEMESES[name] for name in itertools.islice(itertools.cycle(names), chosen.failovers)]
    directory = temporary_directory("failover-")
    began = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {line}", flush=True)

    drill = Drill(directory, POSTGRES_15 if chosen.postgres == "15" else None, tell)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        outcome = asyncio.run(drill.run(plan))
        wrong = judge(outcome)
        print(table(outcome))
    except AssertionError as failure:
        wrong = [str(failure), *drill.outcome.wrong]
    except KeyboardInterrupt:
        wrong = ["interrupted", *drill.outcome.wrong]
    for problem in wrong[:SHOWN]:
        print(f"WRONG: {problem}")
    print(f"{'held' if not wrong else f'BROKEN ({len(wrong)})'} after {time.monotonic() - began:.0f} s")
    if wrong or chosen.keep:
        print(f"see {directory}")
    else:
        clear(directory)
    return 1 if wrong else 0


def _interrupt(*_: object) -> None:
    """End as after Ctrl-C: on the way out the drill ends its hosts, machines and programs."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
