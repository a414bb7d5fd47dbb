"""Bounds at full size: what the caches of one process hold, and which tables grow with telemetry (P26).

That a cold load of any stream takes no longer than a request is the figure `loads` of `make bench`.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from scripts.load import loadgen, worlds
from service.eventstore.state.cache import KEPT_BYTES, KEPT_DOCUMENTS_BYTES, MEBIBYTE
from tests.support.server import ServerHandle
from tests.torture.neighbours.attacks import MOST_TARGETS, plan_of
from tests.torture.neighbours.world import Builder
from tests.torture.runs import Size, Theatre

BOUND = KEPT_BYTES + KEPT_DOCUMENTS_BYTES
"""Bytes that the loops of one process may keep together: that of commands and that of documents."""
OVER = 1.3
"""How many times that its memory may have grown once it rests."""
AT_ONCE = 2  # documents in flight: as many as one key may have
REST_SECONDS = 60
CLIENTS = 8
FEW = 50  # rows that any table may gain meanwhile, of whatever happens by the minute
PRUNED = re.compile(
    r"log_events|analytics_events|event_(name_|key_)?days|case_users|idempotency|procrastinate_|usage_|task_runs"
    r"|unsequenced"
)
"""What retention prunes: the records themselves, who was affected, answers to repeats, jobs, and counts by the day."""
_TABLES = (
    "select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace "
    "where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition order by 1"
)
_STATES = re.compile(r"^service_states_bytes\S* (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class House:
    """A service of one API process, and its owner's key."""

    server: ServerHandle
    owner: Builder

    def memory(self) -> float:
        """Proportional set size of the process that serves, in bytes."""
        serving = self.server.processes("service.process.serving")
        return max(float(process.memory_full_info().pss) for process in serving if not process.children())

    def states(self) -> float:
        """Bytes that its loops say they keep."""
        status, _, text = loadgen.at_once(worlds.HOST, self.server.port, [("GET", "/metrics", {}, b"")])[1][0]
        assert status == 200, text
        return sum(float(value) for value in _STATES.findall(text.decode()))

    def rows(self) -> dict[str, int]:
        """Rows of each table."""
        tables = [str(name) for (name,) in self.owner.query(_TABLES)]
        return {name: int(self.owner.query(f'select count(*) from "{name}"')[0][0]) for name in tables}


@contextmanager
def house(theatre: Theatre) -> Iterator[House]:
    """Start a service without rate limits, and sign its owner in."""
    with theatre.cluster.database() as url:
        server = ServerHandle(theatre.directory, database_url=url, env={"SERVICE_WORKERS": "1"})
        try:
            server.start()
            owner = Builder(server.port, url, server.internal_token, server.test_token)
            [owner.owner_key] = owner.account(1)
            yield House(server, owner)
        finally:
            server.stop()


def documents(house: House, projects: list[str], number: int, taken: list[int]) -> loadgen.Client:
    """Give each project a plan of the largest size, and replace it by another one."""
    headers = {"authorization": f"Bearer {house.owner.owner_key}", "content-type": "application/json"}
    for project in projects[number::AT_ONCE]:
        tag: dict[str, str] = {}
        for version in range(2):
            body = json.dumps(plan_of(worlds.plan("How many?"), version, MOST_TARGETS)).encode()
            status, answered, text = yield "POST", f"/v1/projects/{project}/onboarding", headers | tag, body
            if status not in {200, 201}:
                raise SystemExit(f"a plan was answered {status}: {text[:200]!r}")
            tag = {"if-match": answered[b"etag"].decode()}
            taken.append(len(body))


def fill(house: House, count: int, theatre: Theatre) -> list[str]:
    """Let the caches hold more than they may: so many projects with a plan of the largest size each."""
    projects = [house.owner.create_project(f"large {number}")["id"] for number in range(count)]
    before, taken = house.memory(), list[int]()
    house.owner.load(lambda number: documents(house, projects, number, taken), AT_ONCE, 600)
    assert len(taken) == 2 * count, f"{len(taken)} plans of {2 * count} were taken"
    kept, until = house.states(), time.monotonic() + REST_SECONDS
    while (grown := house.memory() - before) > OVER * BOUND and time.monotonic() < until:
        time.sleep(1)
    theatre.say(
        f"{sum(taken) / MEBIBYTE:.0f} MiB of plans: {kept / MEBIBYTE:.0f} MiB of states are kept, "
        f"the process grew by {grown / MEBIBYTE:.0f} MiB; bound {BOUND / MEBIBYTE:.0f} MiB"
    )
    wrong = []
    if kept > BOUND:
        wrong.append(f"{kept:.0f} bytes of states are kept")
    if grown > OVER * BOUND:
        wrong.append(f"the process grew by {grown / MEBIBYTE:.0f} MiB")
    return wrong


def flood(house: House, seconds: float, least: int, theatre: Theatre) -> list[str]:
    """Send telemetry twice for so long: what the second time adds beyond FEW rows is pruned by retention."""
    dsn = house.owner.create_project("flooded")["dsn"]
    counted: list[dict[str, int]] = []
    for _ in range(2):
        stats = house.owner.load(lambda number: worlds.posting_logs(dsn, "/v1/logs/", number), CLIENTS, seconds)
        assert len(stats.latencies) >= least, f"only {len(stats.latencies)} records were taken"
        counted.append(house.rows())
    first, second = counted
    grown = {name: rows - first[name] for name, rows in second.items() if rows > first[name]}
    theatre.say(f"{len(stats.latencies)} more records: {grown}")
    assert grown.get("log_events", 0) >= least, "the flood left no trace"
    return [f"{name} grew by {more} rows" for name, more in grown.items() if more > FEW and not PRUNED.match(name)]


async def p26(theatre: Theatre, size: Size) -> list[str]:
    """Documents that no cache has room for, and a flood: memory stays bounded, and only what is pruned grows."""

    def everything() -> list[str]:
        with house(theatre) as made:
            return [*fill(made, size.keys, theatre), *flood(made, size.seconds, size.least["records"], theatre)]

    return await asyncio.to_thread(everything)


RUNS: dict[str, Callable[[Theatre, Size], Awaitable[list[str]]]] = {"P26": p26}
SHORT = {"P26": Size(0, 1, keys=6, least={"records": 50})}
FULL = {"P26": Size(0, 60, keys=120, least={"records": 10_000})}
