"""Measures threads in process, for the yardsticks of `make bench`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


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
