"""Processor time of the API process that a world runs, with all processes below it."""

from __future__ import annotations

from collections.abc import Iterable

import psutil


def of_api() -> float:
    """Seconds of processor time that the API below this process has used so far. Exits where there is none."""
    for child in psutil.Process().children():
        if any("scripts.load.bench_server" in part for part in child.cmdline()):
            return of((child, *child.children(recursive=True)))
    raise SystemExit("there is no API process")


def of(processes: Iterable[psutil.Process]) -> float:
    """Seconds of processor time that processes have used so far."""
    return float(sum(times.user + times.system for times in (process.cpu_times() for process in processes)))
