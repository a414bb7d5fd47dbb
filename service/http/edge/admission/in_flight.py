"""How many requests of one credential, and of all without one, a process carries out at once (threat 20, G-204).

Counted by what was presented, before anything is read: one caller that floods the process is refused before it takes a
connection, and leaves room for the others. A dictionary of what is running now, so that it never grows past that.

Refusals of one caller leave one after the other, however many connections ask (P25). A refusal costs little, yet a
client that asks anew at once, on hundreds of connections, would keep the loop busy with nothing else. Held for a
moment, it takes its sender's time and not that of the process.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence

from service.auth.authenticator import presented
from service.auth.refusals import ServiceUnavailable, Unauthenticated
from service.auth.secrets import Dsn
from service.fairness.turns import place_of
from service.http.answer.errors import RateLimited
from service.http.declare.endpoint import Operation


class InFlight:
    """The counts of one process. Each credential may have `most` requests in flight."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._running)

    def enter(self, credential: str) -> None:
        """Count a request in. Raises RateLimited when the credential has as many as it may."""
        running = self._running.get(credential, 0)
        if running >= self._most:
            raise RateLimited(
                "This credential has too many requests in flight.",
                next_action=("Wait for the seconds in Retry-After, then retry with fewer requests at a time."),
                max_in_flight=self._most,
            )
        self._running[credential] = running + 1

    def leave(self, credential: str) -> None:
        """Count a request out that was counted in."""
        left = self._running[credential] - 1
        if left:
            self._running[credential] = left
        else:
            del self._running[credential]


class Crowd:
    """The requests of one process with a shared place: `most` of each place, `of_member` of one member.

    They wait for one turn together, so without a bound their waiting would fill the process. NOBODY is not counted.
    """

    def __init__(self, most: int, of_member: int) -> None:
        self._most = most
        self._of_member = of_member
        self._running: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._running)

    def check(self, tenant: str, more: int = 0) -> None:
        """Raise ServiceUnavailable when with so many more a place, or its member's part of it, were too full."""
        place = self._running[place_of(tenant)] if tenant else 0
        if place + more > self._most or self._running[tenant] + more > self._of_member:
            raise ServiceUnavailable

    def add(self, tenant: str, number: int) -> None:
        """Count requests in, or with a negative number out."""
        if not tenant:
            return
        for name in (place_of(tenant), tenant):
            self._running[name] += number
            if not self._running[name]:
                del self._running[name]


def shown_in(operation: Operation, headers: Mapping[str, str], query: Mapping[str, str | Sequence[str]]) -> Dsn | None:
    """The one secret of a request. None without any, or with more."""
    try:
        return presented(operation, headers, query)
    except Unauthenticated:
        return None


REFUSAL_RATE = 50  # refusals of one caller in a second
REFUSAL_BURST = 100  # that leave at once
LONGEST_HELD = 5.0  # seconds for which one is held
MOST_CALLERS = 16_384  # the one not refused for longest is forgotten first


class RefusalPace:
    """Holds the refusals of one process."""

    def __init__(self) -> None:
        self._paid: OrderedDict[str, float] = OrderedDict()
        self.held: set[asyncio.Future[None]] = set()
        self._over = False

    def __len__(self) -> int:
        return len(self._paid)

    def delay(self, caller: str, now: float) -> float:
        """Count a refusal in, at a moment of a monotonic clock; returns for how many seconds it is held."""
        paid = max(self._paid.pop(caller, -math.inf), now - REFUSAL_BURST / REFUSAL_RATE) + 1 / REFUSAL_RATE
        self._paid[caller] = paid = min(paid, now + LONGEST_HELD)
        if len(self._paid) > MOST_CALLERS:
            self._paid.popitem(last=False)
        return max(0.0, paid - now)

    async def hold(self, caller: str) -> None:
        """Return when a refusal may leave, or when the process ends."""
        loop = asyncio.get_running_loop()
        delay = self.delay(caller, loop.time())
        if not delay or self._over:
            return
        released: asyncio.Future[None] = loop.create_future()
        self.held.add(released)
        timer = loop.call_later(delay, _release, released)
        try:
            await released
        finally:
            timer.cancel()
            self.held.discard(released)

    def end(self) -> None:
        """Release all that are held, because the process ends. From now on none is."""
        self._over = True
        for released in self.held:
            _release(released)


def _release(released: asyncio.Future[None]) -> None:
    if not released.done():
        released.set_result(None)
