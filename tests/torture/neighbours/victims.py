"""Two tenants at their daily work, at a steady pace whatever the answers are, and how long each answer took."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import cycle

from scripts.load import worlds
from scripts.load.loadgen import Request, Response
from tests.support.receiver import Visit, receiving
from tests.torture.neighbours.wire import Wire

WRITES, READS, LOGS = 10, 10, 50  # a second and victim
SIGN_INS, QUERIES, TOLD = 2, 4, 1  # a second and victim, beside certain shapes
FENCE_SECONDS = 5.0
TOLD_SECONDS = 30.0  # after which a webhook counts as never told
CHANGED = frozenset({412, 428})
KINDS = ("write", "read", "log", "fence")
FURTHER = ("sign_in", "query", "told")
BESIDE: Mapping[str, Sequence[str]] = {
    "proofs": ("sign_in", "query"),
    "lookups": ("told",),
    "silences": ("told",),
}
"""What else is done beside a shape: a stranger signs in, strangers read a public query, a webhook is delivered."""


@dataclass
class Seen:
    """Seconds of each answer by kind, and what must not have been answered."""

    times: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in (*KINDS, *FURTHER)})
    wrong: list[str] = field(default_factory=list)

    def late(self, kind: str, share: float = 0.95) -> float:
        """A percentile of a kind in seconds."""
        ordered = sorted(self.times[kind])
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


@dataclass(frozen=True)
class Tenant:
    """An account with a key for each purpose, so that its own rate limits do not count against it."""

    keys: tuple[str, str, str]  # writing, reading, fences
    dsn: str  # of the shop
    shop: str  # the project with automation
    projects: tuple[str, ...]  # whose plans are replaced
    rotated: str  # whose DSN is rotated
    published: str  # a public query
    internal_token: str  # of the service, for signing strangers in
    told: str  # whose webhook is delivered
    told_dsn: str


class Victim:
    """The requests of one tenant."""

    def __init__(self, wire: Wire, tenant: Tenant) -> None:
        self._wire = wire
        self._tenant = tenant
        self._etags: dict[str, str] = {}
        self._busy: set[str] = set()
        self._projects = cycle(tenant.projects)
        self._reads = cycle(self._readings())
        self._fences = cycle([self.rotate, self.pause])
        self._arrivals: dict[str, asyncio.Event] = {}

    def _readings(self) -> Iterator[str]:
        yield "/v1/projects"
        yield f"/v1/projects/{self._tenant.shop}/cases"
        yield f"/v1/projects/{self._tenant.projects[0]}/onboarding"

    async def _send(self, method: str, path: str, secret: str, body: object = None, **headers: str) -> Response:
        sent = {"authorization": f"Bearer {secret}"} | {name.replace("_", "-"): text for name, text in headers.items()}
        if body is not None:
            sent["content-type"] = "application/json"
        request: Request = (method, path, sent, b"" if body is None else json.dumps(body).encode())
        return await self._wire.send(request)

    async def write(self) -> Response | None:
        """Replace the plan of the next project, under the tag of its last answer; None while all of them are busy."""
        turn = (next(self._projects) for _ in self._tenant.projects)
        project = next((project for project in turn if project not in self._busy), None)
        if project is None:
            return None
        self._busy.add(project)
        try:
            return await self._replace_plan(project)
        finally:
            self._busy.discard(project)

    async def _replace_plan(self, project: str) -> Response:
        path, key = f"/v1/projects/{project}/onboarding", self._tenant.keys[0]
        tag = {"if_match": self._etags[project]} if project in self._etags else {}
        wish = {"intent": "start", "plan": worlds.plan(f"How many? {secrets.token_hex(6)}")}
        answer = await self._send("POST", path, key, wish, **tag)
        if answer[0] in CHANGED:  # An answer was lost on its way.
            _, headers, _ = await self._send("GET", path, key)
            self._etags[project] = headers[b"etag"].decode()
        elif b"etag" in answer[1]:
            self._etags[project] = answer[1][b"etag"].decode()
        return answer

    async def read(self) -> Response:
        """Read the next of a few things."""
        return await self._send("GET", next(self._reads), self._tenant.keys[1])

    async def log(self) -> Response:
        """Report an error of a kind that is known."""
        error = {"level": "error", "message": f"Order {secrets.randbelow(10**6)} failed.", "environment": "production"}
        return await self._send("POST", "/v1/logs/", self._tenant.dsn, error)

    async def fence(self) -> Response:
        """Rotate a DSN and pause an automation in turn."""
        return await next(self._fences)()

    async def rotate(self) -> Response:
        """Rotate the DSN of the project that reports nothing."""
        return await self._send("POST", f"/v1/projects/{self._tenant.rotated}/dsn/rotate", self._tenant.keys[2], {})

    async def pause(self) -> Response:
        """Stop the automation."""
        path = f"/v1/projects/{self._tenant.shop}/automation-contract/pause"
        return await self._send("POST", path, self._tenant.keys[2], {"reason": "tea"})

    async def sign_in(self) -> Response:
        """Sign a stranger in on a device, from an address of their own. The last answer is the one with the key."""
        subject, address = secrets.token_hex(8), _address()
        answer = await self._public("POST", "/v1/auth/device", address, {})
        if answer[0] != HTTPStatus.OK:
            return answer
        begun = json.loads(answer[2])
        identity = {"provider": "neighbours", "subject": subject, "email": f"{subject}@example.invalid"}
        wish = {"user_code": begun["user_code"], "identity": identity}
        answer = await self._send("POST", "/v1/auth/device/authorize", self._tenant.internal_token, wish)
        if answer[0] != HTTPStatus.OK:
            return answer
        return await self._public("POST", "/v1/auth/device/poll", address, {"device_code": begun["device_code"]})

    async def query(self) -> Response:
        """Read the public query as a stranger, who has no copy of it."""
        return await self._public("GET", f"/v1/public/q/{self._tenant.published}", _address())

    async def _public(self, method: str, path: str, address: str, body: object = None) -> Response:
        """Send a request without a credential, as the trusted proxy passes it on."""
        sent = {"x-forwarded-for": address, "content-type": "application/json"}
        return await self._wire.send((method, path, sent, b"" if body is None else json.dumps(body).encode()))

    async def told(self) -> Response:
        """Record a deploy, and wait until the webhook is told of it. Raises TimeoutError."""
        version = secrets.token_hex(8)
        arrived = self._arrivals[version] = asyncio.Event()
        try:
            deploy = {"version": version, "environment": "production"}
            answer = await self._send("POST", "/v1/deploys/", self._tenant.told_dsn, deploy)
            if answer[0] < HTTPStatus.BAD_REQUEST:
                async with asyncio.timeout(TOLD_SECONDS):
                    await arrived.wait()
            return answer
        finally:
            del self._arrivals[version]

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Receive what the webhook is told while a block runs."""
        async with receiving(self._hear) as receiver:
            path = f"/v1/projects/{self._tenant.told}/webhooks"
            wish = {"url": f"http://127.0.0.1:{receiver.port}/", "events": ["*"]}
            status, _, body = await self._send("POST", path, self._tenant.keys[2], wish)
            assert status == HTTPStatus.CREATED, body
            yield

    async def _hear(self, visit: Visit) -> None:
        for version, arrived in self._arrivals.items():
            if version.encode() in visit.request:
                arrived.set()
        await visit.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")


def _address() -> str:
    """The address of somebody who was never here."""
    return f"10.{secrets.randbelow(256)}.{secrets.randbelow(256)}.{secrets.randbelow(256)}"


async def work(
    victims: Sequence[Victim], seconds: float, *, fences: float = FENCE_SECONDS, further: Iterable[str] = ()
) -> Seen:
    """Let the tenants work for so many seconds, a fence every `fences` seconds; returns what they saw.

    `further` are kinds of work beside the daily one.
    """
    seen = Seen()
    paces = {"write": 1 / WRITES, "read": 1 / READS, "log": 1 / LOGS, "fence": fences}
    also = {"sign_in": 1 / SIGN_INS, "query": 1 / QUERIES, "told": 1 / TOLD}
    paces |= {kind: also[kind] for kind in further}
    await asyncio.gather(
        *(_pace(getattr(victim, kind), kind, pace, seconds, seen) for victim in victims for kind, pace in paces.items())
    )
    return seen


async def _pace(
    act: Callable[[], Awaitable[Response | None]], kind: str, every: float, seconds: float, seen: Seen
) -> None:
    """Act at fixed moments, whether the answers before have come or not."""
    began = time.perf_counter()
    moment = began + secrets.randbelow(1000) / 1000 * every
    running: set[asyncio.Task[None]] = set()
    while moment < began + seconds:
        await asyncio.sleep(max(0.0, moment - time.perf_counter()))
        task = asyncio.create_task(_timed(act, kind, seen))
        running.add(task)
        task.add_done_callback(running.discard)
        moment += every
    await asyncio.gather(*running)


async def _timed(act: Callable[[], Awaitable[Response | None]], kind: str, seen: Seen) -> None:
    began = time.perf_counter()
    try:
        answer = await act()
    except (OSError, TimeoutError, EOFError) as error:
        seen.wrong.append(f"a {kind} was not answered: {type(error).__name__}")
        return
    if answer is None:
        return
    seen.times[kind].append(time.perf_counter() - began)
    status, _, body = answer
    if status >= 500 or status in {401, 403, 404, 429}:
        seen.wrong.append(f"a {kind} was answered {status}: {body[:200].decode(errors='replace')}")
