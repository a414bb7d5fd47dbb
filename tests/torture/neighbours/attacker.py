"""The attacker of P25: what it has, how it sends, and what it counts."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from scripts.load.loadgen import Client, Request, Response
from tests.torture.neighbours.wire import ANSWER_SECONDS, Wire

PAUSE = 0.05  # seconds after an answer that refuses more


class Place(msgspec.Struct, frozen=True):
    """A project, its DSN, and a key of its account."""

    project: str
    dsn: str
    key: str


class Holdings(msgspec.Struct, frozen=True):
    """What the attacker has: an account with one key, projects with long histories and many cases."""

    host: str
    port: int
    seconds: float
    scale: float  # share of the full number of connections
    key: str
    keys: list[str]  # of the same account, each with a rate limit of its own
    dsn: str
    shop: str  # the project with automation, the many cases and the long history of its contract
    automation: str
    runner: str  # secret of its runner
    run: str  # a run of that
    epoch: int  # of the run's lease
    long: list[str]  # projects with long histories of plans
    rival: str  # a project whose plan everybody replaces
    plan: dict[str, Any]  # the smallest one
    cookie: str  # of a session at the console
    case: str  # with long runs and many comments
    muted: Place  # for webhooks that never answer
    unnamed: Place  # for webhooks at names that hang
    accounts: list[Place]  # others of the same person


class Tally(msgspec.Struct):
    """What the attacker got: answers by status, and how often there was none."""

    statuses: dict[int, int] = {}
    lost: int = 0
    opened: int = 0  # connections that were let in and say nothing

    @property
    def through(self) -> int:
        """Requests that the service carried out, or refused for what they were and not for their number."""
        return self.opened + sum(number for status, number in self.statuses.items() if status != 429)


class Attacker:
    """Sends requests until its time is over, and counts what comes back."""

    def __init__(self, holdings: Holdings) -> None:
        self.holdings = holdings
        self.until = time.monotonic() + holdings.seconds
        self.counted: Counter[int] = Counter()
        self.tally = Tally()

    def many(self, number: int) -> int:
        """How many of something, at the scale of this run."""
        return max(4, round(number * self.holdings.scale))

    def post(self, path: str, body: object, secret: str = "", **headers: str) -> Request:
        """A request with a body; by default with the attacker's key."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"content-type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
        if secret != "none":
            sent["authorization"] = f"Bearer {secret or self.holdings.key}"
        return "POST", path, sent, raw

    def get(self, path: str) -> Request:
        """A reading request with the attacker's key."""
        return "GET", path, {"authorization": f"Bearer {self.holdings.key}"}, b""

    async def repeat(
        self,
        make: Callable[[int], Request],
        clients: int,
        hear: Callable[[Request, Response], None] = lambda _, __: None,
        patience: float = ANSWER_SECONDS,
    ) -> None:
        """Let so many clients send what `make` makes of a running number, each as soon as it was answered.

        They wait for an answer for so many seconds.
        """
        numbers = iter(range(1 << 60))

        def client() -> Client:
            for number in numbers:
                request = make(number)
                hear(request, (yield request))

        await self.follow(client, clients, patience)

    async def follow(self, begin: Callable[[], Client], clients: int, patience: float = ANSWER_SECONDS) -> None:
        """Let so many clients send what each has to say, the next when the one before was answered.

        One whose request was not answered begins anew.
        """
        wire = Wire(self.holdings.host, self.holdings.port, patience)

        async def client() -> None:
            while time.monotonic() < self.until:
                try:
                    await self._say(begin(), wire)
                except (OSError, TimeoutError, EOFError):
                    self.tally.lost += 1
                    await asyncio.sleep(PAUSE)

        await asyncio.gather(*(client() for _ in range(clients)))
        await wire.close()

    async def say(self, client: Client) -> None:
        """Send what a client says, once. Raises OSError, TimeoutError and EOFError."""
        wire = Wire(self.holdings.host, self.holdings.port)
        try:
            await self._say(client, wire)
        finally:
            await wire.close()

    async def _say(self, client: Client, wire: Wire) -> None:
        """Send what a client says until it ends or time is over. Raises what the wire raises."""
        with suppress(StopIteration):
            request = next(client)
            while time.monotonic() < self.until:
                answer = await wire.send(request)
                self.counted[answer[0]] += 1
                if answer[0] in {429, 503}:
                    await asyncio.sleep(PAUSE)
                request = client.send(answer)
