"""A watch over the event loop of a test: how much processor time of its thread each of its steps takes."""

from __future__ import annotations

import asyncio
import gc
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

LONGEST = 0.050
"""Seconds of processor time that one step may take."""
LOOK = 0.035
"""Seconds of processor time of the process, after which it is noted where a step is."""


class Step(NamedTuple):
    """A step that took too long: what was read meanwhile, the seconds, and where it was after LOOK."""

    read: str
    seconds: float
    at: str


class Watch:
    """What was found so far. `reading` is what is read now, `longest` the seconds of the longest step of all."""

    def __init__(self) -> None:
        self.reading = ""
        self.found: list[Step] = []
        self.steps = 0
        self.longest = 0.0
        self.at = ""

    async def read(self, what: str) -> None:
        """Say what is read from here on, in a step of its own."""
        await asyncio.sleep(0)
        self.reading = what

    def step(self, run: Any, handle: asyncio.Handle) -> None:
        """Carry out one step."""
        self.at = ""
        signal.setitimer(signal.ITIMER_VIRTUAL, LOOK)
        begun = time.thread_time()
        try:
            run(handle)
        finally:
            taken = time.thread_time() - begun
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            self.steps += 1
            self.longest = max(self.longest, taken)
            if taken > LONGEST:
                self.found.append(Step(self.reading, round(taken, 3), self.at))

    def look(self, _: int, frame: Any) -> None:
        """Note the innermost places of the step."""
        stack = traceback.extract_stack(frame)[::-1]
        ours = [one for one in stack if "/service/" in one.filename and "/tests/" not in one.filename]
        places = [stack[0], *ours[:5]]
        self.at = " < ".join(f"{one.filename.rpartition('/')[2]}:{one.lineno} {one.name}" for one in places)


@contextmanager
def watched() -> Iterator[Watch]:
    """Watch every step of the loop in a block, without the collector of cycles: its heap is that of the tests."""
    watch, run = Watch(), asyncio.Handle._run
    before = signal.signal(signal.SIGVTALRM, watch.look)
    gc.collect()
    gc.disable()
    asyncio.Handle._run = lambda handle: watch.step(run, handle)  # type: ignore[method-assign]
    try:
        yield watch
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        gc.enable()
