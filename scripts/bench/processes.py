"""The rows of whole services: how long one takes to start, what it weighs, what one tenant does to the others."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles

from scripts.bench.figures import Figures, console
from scripts.load import worlds
from service.embedded.layout import temporary_directory
from tests.support.cluster import TestCluster
from tests.torture.neighbours import storm as neighbours
from tests.torture.neighbours.attacks import SHAPES
from tests.torture.neighbours.storm import Marks, Verdict, street
from tests.torture.neighbours.world import SHORT as EXTENT

RESTARTS = 20
LEAST_IDLE = 0.010  # seconds
STEADY = ("write", "read", "log")  # what a neighbour does all the time; a fence has a promise of its own


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
