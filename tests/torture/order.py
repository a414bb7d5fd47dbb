"""P7: readers of the log miss nothing, whatever happens to the sequencer."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

import psycopg

from service.eventstore.read.recorder import FencedRecorder
from tests.support.cluster import TestCluster
from tests.torture.registers import Writer
from tests.torture.stage import Stage

Place = tuple[int, str, int]


@dataclass
class Tailer:
    """Reads the log from `start`; records its events and the age of each when it was read."""

    url: str
    start: int = 0
    restarts: bool = False
    seen: list[Place] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Read in a thread of its own during a block."""
        stopped = threading.Event()
        thread = threading.Thread(target=self._read, args=(stopped,))
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()

    def _read(self, stopped: threading.Event) -> None:
        cursor = self.start
        while not stopped.is_set():
            with suppress(psycopg.OperationalError), psycopg.connect(self.url, autocommit=True) as connection:
                until = time.monotonic() + (2.0 if self.restarts else 1e9)
                while time.monotonic() < until and not stopped.is_set():
                    for event in FencedRecorder.over(connection).select_after(cursor, random.randint(1, 200)):
                        cursor = event.position or cursor
                        self.seen.append((cursor, event.stream_id, event.revision))
                        self.lags.append(time.time() - event.recorded_at.timestamp())
                    time.sleep(0.005)


@dataclass
class Order:
    """Compares what the readers saw with the final log."""

    wrong: list[str]
    lags: list[float]  # while a transaction was open elsewhere and nothing was killed
    events: int

    def lag(self, share: float) -> float:
        """Seconds from the clock of an event's batch to its being read."""
        ordered = sorted(self.lags)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def order(
    stage: Stage, cluster: TestCluster, *, seconds: float, gaps: tuple[float, float], **at_least: int
) -> Order:
    """Writers, some of them refused; a transaction open in another database; then the sequencer killed again and again.

    Three readers: from the beginning, from the middle, one that connects anew every two seconds.
    """

    async def turn(writer: Writer, _: int) -> None:
        register = random.choice(stage.registers)
        stale = random.random() < 0.1
        op = await writer.write(register, expected=register.revision - 1 if stale else None, persist=True)
        if op.outcome != "ok":
            await writer.read(register)

    [[start]] = await stage.world.sql("select size from log_state")
    first, middle, restarting = (
        Tailer(stage.url),
        Tailer(stage.url, start=start),
        Tailer(stage.url, restarts=True),
    )
    with ExitStack() as stack:
        elsewhere = stack.enter_context(psycopg.connect(stack.enter_context(cluster.database("template0"))))
        elsewhere.execute("create table something (id int)")
        stage.fired["transaction left open"] += 1
        for tailer in (first, middle, restarting):
            stack.enter_context(tailer.running())
        await stage.run(16, seconds / 3, turn, lambda: True)
        calm = len(middle.lags)
        async with (
            stage.struck(stage.kill_worker, gaps),
            stage.struck(stage.end_sessions, (gaps[0] / 2, gaps[1])),
        ):
            await stage.run(16, 2 * seconds / 3, turn, lambda: stage.counts(**at_least))
        await stage.settle()
        [[size]] = await stage.world.sql("select size from log_state")
        await asyncio.to_thread(_wait_for, [first, middle, restarting], size)
    assert stage.counts(**at_least), f"too little happened: {stage.summary()}"
    with psycopg.connect(stage.url, autocommit=True) as connection:
        log = [
            (event.position or 0, event.stream_id, event.revision) for event in FencedRecorder.over(connection).follow()
        ]
    wrong = [
        f"the reader {name} saw {len(tailer.seen)} of {len(log) - tailer.start} events, or not in their order"
        for name, tailer in (("from the beginning", first), ("from the middle", middle), ("that restarts", restarting))
        if tailer.seen != log[tailer.start :]
    ]
    return Order(wrong, middle.lags[:calm], len(log))


def _wait_for(tailers: Sequence[Tailer], size: int) -> None:
    until = time.monotonic() + 10
    while time.monotonic() < until and any(tailer.start + len(tailer.seen) < size for tailer in tailers):
        time.sleep(0.02)
