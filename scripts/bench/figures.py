"""The table of a run, processor time and memory of the API process, and turns of threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

# The table of a run: each figure beside its yardstick, and what was promised of their ratio.

console = Console(width=118)


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


# Processor time and memory of the API process that a world runs, with all processes below it.


def seconds_of_api() -> float:
    """Seconds of processor time that the API below this process has used so far. Exits where there is none."""
    return seconds_of(_api())


def weight_of_api() -> float:
    """Proportional set size in MB of the process of it that serves. Exits where there is none."""
    return float(_api()[-1].memory_full_info().pss / 1e6)


def _api() -> list[psutil.Process]:
    """The API below this process: the one that was started, and those below it."""
    for child in psutil.Process().children():
        if any("scripts.load.bench_server" in part for part in child.cmdline()):
            return [child, *child.children(recursive=True)]
    raise SystemExit("there is no API process")


def seconds_of(processes: Iterable[psutil.Process]) -> float:
    """Seconds of processor time that processes have used so far."""
    return float(sum(times.user + times.system for times in (process.cpu_times() for process in processes)))


# Measures threads in process, for the yardsticks of `make bench`.


def turns_per_second(turn: Callable[[int, int], object], *, threads: int, seconds: float) -> float:
    """Call `turn` in threads again and again for so many seconds, with the number of the thread and of the turn."""
    counts = [0] * threads
    began = time.perf_counter()

    def work(number: int) -> None:
        while time.perf_counter() < began + seconds:
            turn(number, counts[number])
            counts[number] += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - began)
