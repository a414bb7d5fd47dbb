"""An arena: two API processes over one database, one project in it, and many chains of automation for races.

Callers alternate between both processes. After every race the log is checked against the rules of the game.
"""

from __future__ import annotations

import asyncio
import string
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import httpx2
import psutil
import psycopg

from service.registry import registry
from service.settingvalues import USUAL_WORKERS, cores
from statemachines.kernel.topics import decode_event
from tests.support import seen
from tests.support.cluster import TestCluster
from tests.support.history import check_read_models, check_rebuild
from tests.support.loop.http_scene import RUNNER, HttpScene, contract_of
from tests.support.loop.port import Entry
from tests.support.loop.rules import Rules
from tests.support.server import USUAL_PROCESSES, ServerHandle

LEASE_SECONDS = 900
SETTLE_SECONDS = 20.0
PERSISTENCE = 40.0
_LOG = (
    "select e.stream_id, e.revision, e.topic, e.payload::text, e.actor_kind, "
    "floor(extract(epoch from e.recorded_at))::bigint from log_index i join events e on e.seq = i.seq "
    "where e.project_id = %s order by i.position"
)


@dataclass
class Chain:
    """A chain in progress: what one runner knows of its receipt, claim, run and grant."""

    case_id: str
    receipt_id: str
    claim_id: str = ""
    epoch: int = 1
    run_id: str = ""
    revision: int = 1
    grant_id: str = ""

    @property
    def token(self) -> dict[str, int]:
        return {"state_revision": self.revision, "lease_epoch": self.epoch}

    @property
    def path(self) -> str:
        return f"/v1/automation-runs/{self.run_id}"

    @property
    def claim_path(self) -> str:
        return f"/v1/cases/{self.case_id}/claims"


def code_of(answer: httpx2.Response) -> str:
    """Code of a refusal; the status as text otherwise."""
    return str(answer.status_code if answer.is_success else answer.json()["error"]["code"])


def must(answer: httpx2.Response, *statuses: int) -> dict[str, Any]:
    """The body of an answer that must have one of these statuses (any success by default)."""
    assert answer.status_code in statuses if statuses else answer.is_success, answer.text
    body: dict[str, Any] = answer.json()
    return body


def serving(server: ServerHandle) -> list[psutil.Process]:
    """The processes of a server that serve HTTP, without the one that watches over them."""
    found = server.processes("service.process.serving")
    return [child for child in found if child.ppid() != server.pid]


async def replaced(server: ServerHandle, victim: psutil.Process) -> None:
    """Return when another process serves in place of a killed one, of as many as an operator gets."""
    give_up = monotonic() + PERSISTENCE
    while len(left := serving(server)) < min(USUAL_WORKERS, cores()) or victim in left:
        assert monotonic() < give_up, "a killed process is replaced"
        await asyncio.sleep(0.05)
    await asyncio.to_thread(server.wait_until_ready)


class Arena:
    """Callers of one project at two API processes."""

    def __init__(self, scene: HttpScene, servers: Sequence[ServerHandle], clients: list[httpx2.AsyncClient]) -> None:
        self.scene = scene
        self.servers = servers
        self.clients = clients
        self.doubts = 0  # attempts that had no answer, or none that is definite
        self._turns = count()
        self._keys = count(1)
        self._words = count()

    @property
    def project_id(self) -> str:
        return self.scene.world.project_id

    @property
    def project(self) -> str:
        return self.scene.project

    def key(self) -> str:
        return f"race-{next(self._keys)}"

    # ---- asking

    async def once(
        self, method: str, path: str, body: Any = None, *, who: str = RUNNER, key: str | None = None, **how: Any
    ) -> httpx2.Response:
        """Send one request; `at` chooses the process (0 or 1), else they take turns; `etag` is the If-Match."""
        at, etag = how.get("at"), how.get("etag")
        client = self.clients[next(self._turns) % 2 if at is None else at]
        headers = {"authorization": f"Bearer {self.scene.world.secrets[who]}"}
        headers |= {} if key is None else {"idempotency-key": key}
        headers |= {} if etag is None else {"if-match": etag}
        answer = await client.request(method, path, headers=headers, json=body)
        assert answer.status_code < 500 or answer.status_code == 503, answer.text
        return answer

    async def ask(self, method: str, path: str, body: Any = None, **how: Any) -> httpx2.Response:
        """Send a request and repeat it until its answer is definite, whichever process dies."""
        give_up = monotonic() + PERSISTENCE
        while True:
            with suppress(httpx2.TransportError):
                answer = await self.once(method, path, body, **how)
                if answer.status_code != 503 and code_of(answer) != "idempotency_in_progress":
                    return answer
            self.doubts += 1
            assert monotonic() < give_up, f"no definite answer to {method} {path}"
            await asyncio.sleep(0.03)

    async def post(self, path: str, body: Any = None, **how: Any) -> httpx2.Response:
        """POST with a key of its own unless one is given."""
        return await self.ask("POST", path, body or {}, **{"key": self.key()} | how)

    # ---- the owner, the clock, the log

    async def policy(self, *, cases: int = 100, **budgets: Any) -> None:
        """Save a contract with these budgets, under which a single error matters, and enable it."""
        generous = {"max_runs_per_day": 1000, "max_prs_per_day": 100, "max_turns_per_run": 500}
        body = contract_of(self.scene.mode, **generous | budgets)
        trigger = {
            "max_cases_per_sweep": cases,
            "cooldown_seconds": 60,
            "materiality": {"minimum_event_count": 1, "maximum_last_seen_age_seconds": 86400},
        }
        [automation] = body["automations"]
        for part in ("bindings", "policy"):
            automation[part]["trigger"] = automation[part]["trigger"] | trigger
        contract = self.scene.world.contract
        etag = must(await self.ask("GET", contract, who="owner"))["etag"]
        must(await self.ask("PUT", contract, body, who="owner", etag=etag))
        await self.enable()

    async def enable(self) -> None:
        contract = self.scene.world.contract
        etag = must(await self.ask("GET", contract, who="owner"))["etag"]
        must(await self.post(f"{contract}/enable", who="owner", etag=etag), 200)

    async def pause(self, **how: Any) -> httpx2.Response:
        return await self.post(f"{self.scene.world.contract}/pause", who="member", **how)

    async def sql(self, query: str, *params: Any) -> list[tuple[Any, ...]]:
        """Run SQL past the service."""
        async with await psycopg.AsyncConnection.connect(self.scene.world.url, autocommit=True) as connection:
            cursor = await connection.execute(query.encode(), params)
            return await cursor.fetchall() if cursor.description else []

    async def wait(self, seconds: int) -> None:
        """Advance the clock without queueing a sweep."""
        await self.sql("update service_clock set offset_seconds = offset_seconds + %s", seconds)

    async def now(self) -> float:
        [[now]] = await self.sql("select extract(epoch from service_now())::float8")
        return float(now)

    async def log(self) -> list[Entry]:
        """The whole log of the project in its order, checked against the rules of the game."""
        give_up = monotonic() + SETTLE_SECONDS
        while (await self.sql("select count(*) from unsequenced"))[0][0]:
            assert monotonic() < give_up, "the log was not numbered to its end"
            await asyncio.sleep(0.02)
        rows = await self.sql(_LOG, self.project_id)
        entries = [
            Entry(stream, rev, decode_event(topic, text), kind, at) for stream, rev, topic, text, kind, at in rows
        ]
        Rules().check(entries)
        return entries

    async def topics(self, stream_id: str | None = None) -> Counter[str]:
        """How often each topic is in the log, or in one stream."""
        return Counter(item.event.TOPIC for item in await self.log() if stream_id in (None, item.stream_id))

    # ---- chains

    async def receipts(self, number: int) -> list[Chain]:
        """Report new errors, and have receipts issued for them."""
        texts = [f"The {_word(next(self._words))} has failed" for _ in range(number)]

        async def fail(text: str) -> str:
            answer = await self.ask("POST", "/v1/logs/", {"message": text, "level": "error"}, who="dsn")
            return str(must(answer, 202)["case_id"])

        cases = set(await asyncio.gather(*map(fail, texts)))
        assert len(cases) == number
        return await self.issued(cases)

    async def issued(self, cases: set[str], **how: Any) -> list[Chain]:
        """Have receipts issued for these cases; one look for work issues a hundred at most."""
        found: dict[str, str] = {}
        for _ in range(1 + len(cases) // 100):
            answer = await self.post(f"{self.project}/automation-triggers/issue", {"automation_id": "heal"}, **how)
            receipts = must(answer, 200)["trigger_receipts"]
            found |= {item["case"]["case_id"]: item["receipt_id"] for item in receipts}
        assert cases <= found.keys(), answer.text[-2000:]
        return [Chain(case_id, found[case_id]) for case_id in sorted(cases)]

    def claim_body(self, chain: Chain, **changes: Any) -> dict[str, Any]:
        return {"trigger_receipt_id": chain.receipt_id, "case_revision": 1} | changes

    async def claim(self, chain: Chain, *, who: str = RUNNER) -> Chain:
        body = must(await self.post(chain.claim_path, self.claim_body(chain), who=who), 201)
        chain.claim_id, chain.epoch = body["claim_id"], body["lease_epoch"]
        return chain

    async def start(self, chain: Chain, *, who: str = RUNNER, **how: Any) -> httpx2.Response:
        body = {"trigger_receipt_id": chain.receipt_id}
        return await self.post(f"{self.project}/automation-runs", body, who=who, **how)

    async def run(self, chain: Chain, *, who: str = RUNNER) -> Chain:
        """Claim and start."""
        await self.claim(chain, who=who)
        chain.run_id = must(await self.start(chain, who=who), 201)["run_id"]
        chain.revision = 1
        return chain

    async def grant(self, chain: Chain) -> Chain:
        """Claim, start and authorize a draft pull request."""
        await self.run(chain)
        granted = must(await self.act(chain, "actions/draft-pr/authorize", self.binding(chain)), 201)
        chain.grant_id = granted["grant_id"]
        chain.revision = must(await self.ask("GET", chain.path))["state_revision"]
        return chain

    async def chains(self, number: int, upto: Callable[[Chain], Awaitable[Chain]]) -> list[Chain]:
        """Take as many new cases to the same point."""
        return list(await asyncio.gather(*map(upto, await self.receipts(number))))

    def binding(self, chain: Chain, **changes: Any) -> dict[str, Any]:
        return self.scene.binding(head_branch=f"heal/{chain.run_id}") | changes

    async def act(self, chain: Chain, what: str, body: dict[str, Any] | None = None, **how: Any) -> httpx2.Response:
        """A runner command with the fencing token as the chain knows it, unless the body brings its own."""
        return await self.post(f"{chain.path}/{what}", chain.token | (body or {}), **how)

    async def patch(self, chain: Chain, **how: Any) -> httpx2.Response:
        return await self.ask("PATCH", chain.path, chain.token | {"phase": "running"}, **how)

    async def consume(self, chain: Chain, **how: Any) -> httpx2.Response:
        return await self.act(chain, "actions/draft-pr/consume", {"grant_id": chain.grant_id}, **how)

    async def usage(self, chain: Chain, body: dict[str, Any] | None = None, **how: Any) -> httpx2.Response:
        return await self.act(chain, "usage", body or {"cost_usd": 0.000001}, **how)

    async def renew(self, chain: Chain, **how: Any) -> httpx2.Response:
        path = f"{chain.claim_path}/{chain.claim_id}/renew"
        return await self.post(path, {"lease_epoch": chain.epoch}, **how)

    async def release(self, chain: Chain, **how: Any) -> httpx2.Response:
        path = f"{chain.claim_path}/{chain.claim_id}/release"
        return await self.post(path, {"lease_epoch": chain.epoch}, **how)


def _word(number: int) -> str:
    """A word without digits, so that grouping keeps the cases apart."""
    letters = ""
    while number or not letters:
        number, rest = divmod(number, 26)
        letters += string.ascii_lowercase[rest]
    return "part" + letters


@contextmanager
def open_pair(directory: Path, cluster: TestCluster) -> Iterator[list[ServerHandle]]:
    """Two running services on a database; afterwards every row must be what its history folds to."""
    with cluster.database() as url:
        names = ("one", "other")
        servers = [ServerHandle(_made(directory / name), database_url=url, env=USUAL_PROCESSES) for name in names]
        try:
            for server in servers:
                server.start()
            yield servers
            assert problems_of(url) == []
        finally:
            for server in servers:
                server.stop()


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory


def problems_of(url: str) -> list[str]:
    """Faults in history and read models of a database, as stored and after a rebuild."""
    with psycopg.connect(url, autocommit=True) as connection:
        return check_read_models(connection, registry()) + check_rebuild(url, registry())


@asynccontextmanager
async def open_arena(scene: HttpScene, servers: Sequence[ServerHandle]) -> AsyncIterator[Arena]:
    """Connect callers to both processes."""
    limits = httpx2.Limits(max_connections=64, max_keepalive_connections=64)
    async with (
        seen.async_client(servers[0].base_url, timeout=15, limits=limits) as first,
        seen.async_client(servers[1].base_url, timeout=15, limits=limits) as second,
    ):
        yield Arena(scene, servers, [first, second])
