"""P1, P3 and P17 without HTTP: event stores in processes of their own, far faster than a service would call them.

Everything at once: processes killed (-9) and stopped at work, sessions ended, acknowledgements of COMMIT dropped and
late commits. A client without an answer repeats its request with the same key, mostly at another process.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import psycopg

from service.eventstore.log.sequencer import sequence_all
from tests.support import toy
from tests.support.history import Journal, Op, check_all
from tests.support.peer import Peer, PeerClient, PeerLost
from tests.support.proxy import Fault, PostgresProxy, with_odds
from tests.support.rounds import Bench
from tests.torture.stage import longest

MARKER = "e.payload->>'op'"
PRINCIPAL = "key:k1"
REFUSALS = {409, 412, 422}
_keys = itertools.count(1)


@dataclass
class PeerStage:
    """Two event stores behind a proxy that loses answers, and the journal of their clients."""

    url: str
    directory: Path
    journal: Journal = field(default_factory=Journal)
    fired: Counter[str] = field(default_factory=Counter)
    peers: list[Peer] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)

    async def run(
        self, *, streams: int, clients: int, seconds: float, gaps: tuple[float, float], least: dict[str, int]
    ) -> None:
        """Run the storm for so long, and longer (see `longest`) until the minimum counts are reached.

        Every client repeats until its answer is definite.
        """
        self._open(streams)
        odds = with_odds({Fault.EAT: 0.004, Fault.ZOMBIE: 0.002})
        proxy = PostgresProxy(self.url, self.directory / "proxy", odds)
        self.peers = [Peer(proxy.url, self.directory / f"peer{n}.sock", sequence=True) for n in range(2)]
        for peer in self.peers:
            peer.start()
        for peer in self.peers:
            await asyncio.to_thread(peer.wait_ready)
        stopping = asyncio.Event()
        strikes = asyncio.create_task(self._strike(gaps, stopping))
        callers = [PeerClient(peer.path) for peer in self.peers]
        try:
            began = time.monotonic()

            def over() -> bool:
                passed = time.monotonic() - began
                return passed >= longest(seconds) or (passed >= seconds and self.has(least, proxy.fired))

            await asyncio.gather(*(self._client(callers, over) for _ in range(clients)))
            stopping.set()
            await strikes
        finally:
            strikes.cancel()
            await asyncio.gather(strikes, return_exceptions=True)
            for caller in callers:
                await caller.close()
            for peer in self.peers:
                peer.kill()
            self.fired.update(proxy.fired)
            proxy.close()

    def _open(self, streams: int) -> None:
        toy.create_tables(self.url)
        bench = Bench(self.url)
        self.known = {f"toy_{n}": 2 for n in range(streams)}
        bench.run(*(toy.bump(toy.Bump(stream)) for stream in self.known))
        bench.close()

    def has(self, least: dict[str, int], fired: Mapping[str, int]) -> bool:
        """Whether there are so many results, doubtful attempts and faults; some of these the proxy counts."""
        seen = Counter({**self.journal.outcomes, "doubts": self.journal.doubts}) + self.fired + Counter(fired)
        return all(seen[name] >= number for name, number in least.items())

    async def _client(self, callers: list[PeerClient], over: Callable[[], bool]) -> None:
        hot = list(self.known)[: max(1, len(self.known) // 8)]
        while not over():
            stream = random.choice(hot if random.random() < 0.5 else list(self.known))
            fenced = random.random() < 0.6
            op = self.journal.invoke(
                stream,
                expected=self.known[stream] if fenced else None,
                key=f"key-{next(_keys)}",
                principal=PRINCIPAL,
            )
            await self._ask(callers, op)

    async def _ask(self, callers: list[PeerClient], op: Op) -> None:
        wish = toy.Bump(op.stream, op=op.id, expected=op.expected, key=op.key)
        async with asyncio.timeout(60):
            while True:
                try:
                    reply = await random.choice(callers).bump(wish)
                except PeerLost:
                    op.doubts += 1
                    continue
                if reply.status == 200:
                    told = msgspec.json.decode(reply.bytes, type=toy.Bumped)
                    self.known[op.stream] = max(self.known[op.stream], told.revision)
                    self.journal.end(op, "ok", 200, revision=told.revision, answer=reply.bytes)
                    return
                if reply.status in REFUSALS:
                    self.journal.end(op, "fail", reply.status)
                    return
                assert reply.status in {425, 503, 504}, reply.error
                op.doubts += 1
                await asyncio.sleep(random.uniform(0.005, 0.05))

    async def _strike(self, gaps: tuple[float, float], stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            await asyncio.sleep(random.uniform(*gaps))
            peer = random.choice(self.peers)
            if random.random() < 0.5:
                await asyncio.to_thread(peer.kill)
                self.fired["killed"] += 1
                peer.start()
                await asyncio.to_thread(peer.wait_ready)
            else:
                peer.signal(signal.SIGSTOP)
                self.fired["stopped"] += 1
                await asyncio.sleep(random.uniform(0.2, 1.5))
                peer.signal(signal.SIGCONT)

    async def check(self) -> list[str]:
        """Number the remaining events, and check everything."""

        def number_and_check() -> list[str]:
            with psycopg.connect(self.url, autocommit=True) as connection:
                sequence_all(connection)
            return check_all(self.url, self.journal, toy.REGISTRY, MARKER)

        return await asyncio.to_thread(number_and_check)

    def summary(self) -> str:
        """One line of progress."""
        return f"{dict(self.journal.outcomes)}, {self.journal.doubts} doubtful attempts, {dict(self.fired)}"
