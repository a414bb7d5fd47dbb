"""Processor time and memory of the API process that a world runs, with all processes below it."""

from __future__ import annotations

from collections.abc import Iterable

import psutil


def of_api() -> float:
    """Seconds of processor time that the API below this process has used so far. Exits where there is none."""
    return of(_api())


def weight_of_api() -> float:
    """Proportional set size in MB of the process of it that serves. Exits where there is none."""
    return float(_api()[-1].memory_full_info().pss / 1e6)


def _api() -> list[psutil.Process]:
    """The API below this process: the one that was started, and those below it."""
    for child in psutil.Process().children():
        if any("scripts.load.bench_server" in part for part in child.cmdline()):
            return [child, *child.children(recursive=True)]
    raise SystemExit("there is no API process")


def of(processes: Iterable[psutil.Process]) -> float:
    """Seconds of processor time that processes have used so far."""
    return float(sum(times.user + times.system for times in (process.cpu_times() for process in processes)))
