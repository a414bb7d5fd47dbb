"""Each storm from start to verdict, short for the tests and at full size for `make torture`."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.cluster import TestCluster
from tests.support.proxy import HttpProxy, PostgresProxy
from tests.support.server import ServerHandle
from tests.torture import keys, order, storms
from tests.torture.peerstorm import PeerStage
from tests.torture.stage import Stage, stage


@dataclass(frozen=True)
class Size:
    """The size of a storm, and its minimum counts.

    `seconds` may become more until that is reached. `gaps` are the seconds between strikes.
    """

    registers: int
    seconds: float = 0
    keys: int = 0
    gaps: tuple[float, float] = (1, 3)
    least: dict[str, int] = field(default_factory=dict)
    lag_share: float = 0.5  # the share of events that a reader of the log must have within a quarter of a second


SHORT = {
    "store": Size(
        40,
        7,
        gaps=(0.5, 1.5),
        least={"ok": 1_000, "fail": 130, "doubts": 33, "killed": 1, "stopped": 1, "eaten": 3, "zombie": 1},
    ),
    "P1": Size(40, 5, gaps=(0.5, 3), least={"ok": 260, "info": 13, "s412": 33, "api_killed": 5}),
    "P3": Size(
        20,
        4,
        least={"ok": 330, "s412": 33, "doubts": 5, "commit_eaten": 5, "commit_zombie": 2, "answer_eaten": 5},
    ),
    "P4": Size(10, 4, least={"ok": 330, "s412": 330}),
    "P6": Size(24, keys=120, gaps=(1.5, 4), least={"api_killed": 3, "replays": 100, "reused": 5, "strangers": 5}),
    "P7": Size(20, 7, gaps=(2, 3), least={"ok": 500, "s412": 40, "worker_killed": 3, "sessions_ended": 3}),
}
FULL = {
    "store": Size(
        200,
        90,
        gaps=(0.5, 2),
        least={"ok": 12_000, "fail": 2_000, "doubts": 500, "killed": 12, "stopped": 12, "eaten": 40, "zombie": 20},
    ),
    "P1": Size(200, 110, gaps=(0.5, 4), least={"ok": 10_000, "info": 150, "s412": 500, "api_killed": 50}),
    "P3": Size(
        60,
        200,
        least={
            "ok": 18_000,
            "s412": 500,
            "doubts": 150,
            "commit_eaten": 150,
            "commit_zombie": 75,
            "answer_eaten": 100,
        },
    ),
    "P4": Size(10, 60, least={"ok": 4_000, "s412": 8_000}),
    "P6": Size(60, keys=2_000, gaps=(4, 6), least={"api_killed": 20, "replays": 2_000, "reused": 80, "strangers": 80}),
    "P7": Size(
        60,
        60,
        gaps=(2.5, 3.5),
        least={"ok": 15_000, "s412": 500, "worker_killed": 12, "sessions_ended": 12},
        lag_share=0.99,
    ),
}
Say = Callable[[str], None]


class Theatre:
    """Builds a service of two processes, on a database of its own, for each storm."""

    def __init__(self, cluster: TestCluster, directory: Path, say: Say = lambda _: None) -> None:
        self.cluster = cluster
        self.directory = directory
        self.say = say
        self._numbers = itertools.count(1)

    @asynccontextmanager
    async def scene(self, size: Size, *, between: Callable[[str], str] = lambda url: url) -> AsyncIterator[Stage]:
        """A running service with its registers; `between` may put a proxy before its database."""
        directory = self.directory / f"scene{next(self._numbers)}"
        directory.mkdir()
        async with AsyncExitStack() as stack:
            url = stack.enter_context(self.cluster.database())
            server = ServerHandle(directory, database_url=between(url), env={"SERVICE_WORKERS": "2"})
            stack.callback(server.stop)
            server.start()
            made = await stack.enter_async_context(stage(server, url, registers=size.registers))
            try:
                yield made
            except BaseException:
                self.say(server.log()[-4000:])
                raise
            finally:
                made.journal.save(directory / "journal.jsonl")
                self.say(made.summary())


async def p1(theatre: Theatre, size: Size) -> list[str]:
    """Serving processes killed (-9), one at a time and all at once, under fenced writers."""
    async with theatre.scene(size) as st:
        await storms.durability(st, seconds=size.seconds, gaps=size.gaps, **size.least)
        return await st.check()


async def p3(theatre: Theatre, size: Size) -> list[str]:
    """Acknowledgements of COMMIT and heads of answers are lost, commits come late; repeats return the true result."""
    proxies: list[PostgresProxy] = []

    def between(url: str) -> str:
        proxies.append(PostgresProxy(url, theatre.directory / "proxy"))
        return proxies[0].url

    async with theatre.scene(size, between=between) as st:
        [database] = proxies
        http = HttpProxy("127.0.0.1", st.server.port)
        st.base_url = http.base_url
        try:
            await storms.ambiguity(st, database, http, seconds=size.seconds, **size.least)
            return await st.check()
        finally:
            http.close()
            st.server.stop()
            database.close()


async def p4(theatre: Theatre, size: Size) -> list[str]:
    """Rivals with current, stale, future and foreign tags: one winner a revision, no 5xx."""
    async with theatre.scene(size) as st:
        wrong = await storms.registers(st, seconds=size.seconds, **size.least)
        if st.journal.outcomes["info"]:
            wrong.append("not every answer was definite")
        return wrong + await st.check()


async def p6(theatre: Theatre, size: Size) -> list[str]:
    """Twins get equal bytes, mutants 422, other principals nothing of it; refusals and secrets are never stored."""
    async with theatre.scene(size) as st:
        verdicts = await keys.twins(st, keys=size.keys, gaps=size.gaps, kills=size.least["api_killed"])
        theatre.say(f"{verdicts.keys} keys, {verdicts.replays} replays, {verdicts.reused} reused")
        for name in ("replays", "reused", "strangers"):
            assert getattr(verdicts, name) >= size.least[name], f"too little happened: {verdicts}"
        return verdicts.wrong + keys.stored_secrets(st) + await st.check()


async def p7(theatre: Theatre, size: Size) -> list[str]:
    """The worker that numbers is killed again and again, sessions are ended, a transaction is open elsewhere."""
    async with theatre.scene(size) as st:
        found = await order.order(st, theatre.cluster, seconds=size.seconds, gaps=size.gaps, **size.least)
        theatre.say(f"{found.events} events; read after {found.lag(0.5):.3f} s (p50), {found.lag(0.99):.3f} s (p99)")
        if found.lag(size.lag_share) > 0.25:
            found.wrong.append(f"readers were {found.lag(size.lag_share):.3f} s behind although nobody was killed")
        return found.wrong + await st.check()


async def store(theatre: Theatre, size: Size) -> list[str]:
    """Event stores without HTTP: killed, stopped, their answers lost and their commits late, all at once."""
    with theatre.cluster.database() as url:
        st = PeerStage(url, theatre.directory)
        try:
            await st.run(streams=size.registers, clients=48, seconds=size.seconds, gaps=size.gaps, least=size.least)
        finally:
            st.journal.save(theatre.directory / "journal.jsonl")
            theatre.say(st.summary())
        assert st.has(size.least, {}), f"too little: {st.summary()}"
        return await st.check()


RUNS: dict[str, Callable[[Theatre, Size], Awaitable[list[str]]]] = {
    "store": store,
    "P1": p1,
    "P3": p3,
    "P4": p4,
    "P6": p6,
    "P7": p7,
}
