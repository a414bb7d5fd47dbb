"""Limits of callers in one process, its share of those of the machine: in flight, a minute, refusals, and the quota.

Requests in flight are counted by the credential presented, and all without one together (threat 20, G-204). A caller
floods the process in vain: it is refused before anything is read, and leaves room for the others.

Refusals of one caller leave one after the other, however many connections ask (P25). A refusal costs little, yet a
client that asks anew at once, on hundreds of connections, would keep the loop busy with nothing else. Held for a
moment, it takes its sender's time and not that of the process.

Each principal or address has a token bucket for each kind of route (G-012). It holds a minute's worth of requests and
fills continuously on the monotonic clock: the test clock does not move it, and no database is asked. The number of
buckets is bounded. The one not used for longest is forgotten first, always to its owner's advantage.

The quota is that of the account of the project in scope, else the caller's own (G-017). It adds a notice to an answer,
or stands as 402 in its place (R-BILL-11 to R-BILL-16, G-072).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from litestar.types import Receive, Scope, Send

from service.auth.authenticator import presented
from service.auth.authority import Principal, PrincipalKind
from service.auth.refusals import QuotaExceeded, ServiceUnavailable, Unauthenticated
from service.auth.secrets import Dsn
from service.billing.usage import Told
from service.eventstore.declare.commands import Answer, Outcome
from service.fairness.bounds import SHARE, FairBounds, Full
from service.fairness.semaphore import FairSemaphore
from service.http.answer.errors import RateLimited
from service.http.answer.reply import JSON, Reply, Streamed
from service.http.declare.call import Call
from service.http.declare.endpoint import Operation
from service.settingvalues import RATE_LIMITS


def requests_in_flight(most: int) -> FairSemaphore:
    """The requests of one process: its share of `most` of each credential. Refuses as RateLimited."""
    most = SHARE.of(most)

    def refuse(_: Full, __: str) -> Exception:
        return RateLimited(
            "This credential has too many requests in flight.",
            next_action=("Wait for the seconds in Retry-After, then retry with fewer requests at a time."),
            max_in_flight=most,
        )

    return FairSemaphore(FairBounds(per_tenant=most), refuse=refuse)


def crowd_of_place(most: int, of_member: int) -> FairSemaphore:
    """The requests of one process with a shared place: its share of `most` of a place, of `of_member` of one member.

    They wait for one turn together, so without a bound their waiting would fill the process. Refuses as
    ServiceUnavailable.
    """
    bounds = FairBounds(per_tenant=SHARE.of(most), per_member=SHARE.of(of_member))
    return FairSemaphore(bounds, refuse=lambda _, __: ServiceUnavailable())


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
        self._rate, self._burst = SHARE.of(REFUSAL_RATE), SHARE.of(REFUSAL_BURST)
        self._most_callers = SHARE.of(MOST_CALLERS)
        self._paid: OrderedDict[str, float] = OrderedDict()
        self.held: set[asyncio.Future[None]] = set()
        self._over = False

    def __len__(self) -> int:
        return len(self._paid)

    def delay(self, caller: str, now: float) -> float:
        """Count a refusal in, at a moment of a monotonic clock; returns for how many seconds it is held."""
        paid = max(self._paid.pop(caller, -math.inf), now - self._burst / self._rate) + 1 / self._rate
        self._paid[caller] = paid = min(paid, now + LONGEST_HELD)
        if len(self._paid) > self._most_callers:
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


class PacedReply(Reply):
    """A refusal that leaves at the pace of its caller."""

    __slots__ = ("_caller", "_pace")

    def __init__(self, reply: Reply, pace: RefusalPace, caller: str) -> None:
        self.status, self.body, self.headers = reply.status, reply.body, reply.headers
        self._pace = pace
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hold the refusal, and send it."""
        await self._pace.hold(self._caller)
        await super().__call__(scope, receive, send)


BY_ADDRESS = frozenset({"public_query", "log", "device_start", "device_poll", "ci_exchange"})
TOGETHER = frozenset({"log"})
"""Those of which one address has one bucket, whatever it asks for."""
BY_KIND: Mapping[PrincipalKind, str] = {
    PrincipalKind.KEY: "key",
    PrincipalKind.SESSION: "key",
    PrincipalKind.CI: "project_credential",
    PrincipalKind.RUNNER: "project_credential",
    PrincipalKind.DSN: "ingest",
    PrincipalKind.PUBLIC_DSN: "public_ingest",
    PrincipalKind.INTERNAL: "internal",
    PrincipalKind.TEST: "internal",
}
MAX_BUCKETS = 65_536


class Bucket:
    """Tokens left at a moment of the monotonic clock."""

    __slots__ = ("at", "tokens")

    def __init__(self, tokens: float, at: float) -> None:
        self.tokens = tokens
        self.at = at


class RateLimiter:
    """Decides for each request whether its bucket has a token. `limits` maps class to requests a minute.

    The process keeps to its share of each limit, and shows that one to callers.
    """

    def __init__(
        self,
        limits: Mapping[str, int] = RATE_LIMITS,
        *,
        max_buckets: int = MAX_BUCKETS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = {name: SHARE.of(limit) for name, limit in limits.items()}
        self._max_buckets = SHARE.of(max_buckets)
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, ...], Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, name: str, *owner: str, count: int = 1, taken: int = 0) -> dict[str, str]:
        """Take tokens from the bucket of class `name` and this owner; returns the RateLimit headers.

        Raises RateLimited when it has not so many, and takes none. A full bucket gives what it has not, and is in debt
        then: what needs more than a minute's worth would otherwise never pass. `taken` are those that the same request
        has taken before, and will again when it comes again: the time to wait counts them. A class without a limit is
        never refused and has no headers.
        """
        limit = self._limits.get(name)
        if not limit:
            return {}
        now = self._clock()
        bucket = self._bucket((name, *owner), limit, now)
        per_second = limit / 60
        bucket.tokens = min(limit, bucket.tokens + (now - bucket.at) * per_second)
        bucket.at = now
        needed = min(count + taken, limit)
        enough = bucket.tokens + taken >= needed
        if enough:
            bucket.tokens -= count
        headers = {
            "ratelimit-limit": str(limit),
            "ratelimit-remaining": str(max(0, int(bucket.tokens))),
            "ratelimit-reset": str(math.ceil((limit - bucket.tokens) / per_second)),
        }
        if not enough:
            wait = math.ceil((needed - bucket.tokens) / per_second)
            raise RateLimited(headers={**headers, "retry-after": str(max(1, wait))})
        return headers

    def _bucket(self, key: tuple[str, ...], limit: int, now: float) -> Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(limit, now)
            if len(self._buckets) > self._max_buckets:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(key)
        return bucket


def take_token_of(limiter: RateLimiter, principal: Principal, name: str, owner: str | None) -> None:
    """Charge one to another bucket of this class: that of the principal, or of an `owner`. Raises RateLimited."""
    limiter.take(name, *((principal.kind.value, principal.id) if owner is None else (owner,)))


def take_token(
    limiter: RateLimiter,
    rate: str,
    principal: Principal,
    address: str,
    path_values: tuple[str, ...],
    records: int | None = None,
) -> dict[str, str]:
    """Charge a request of a route declared with `rate` to its bucket; returns the headers, or raises RateLimited.

    It takes one token, or, once it is known what is in it, one for each of its further `records` (G-143).

    Routes for anybody count by client address (a public query also by publication); all others by principal, in the
    class of its kind, so that a route for keys and runners holds each to its own limit.
    """
    if rate == "none":
        return {}
    count, taken = (1, 0) if records is None else (records, 1)
    if rate in BY_ADDRESS:
        apart = () if rate in TOGETHER else path_values
        return limiter.take(rate, address, *apart, count=count, taken=taken)
    name = BY_KIND.get(principal.kind)
    return {} if name is None else limiter.take(name, principal.kind.value, principal.id, count=count, taken=taken)


async def notice_beside(call: Call) -> bytes:
    """What to say to a person about the quota, as JSON; empty for anybody else (R-BILL-16)."""
    operation = call.operation
    if not call.principal.kind.is_person or operation.docs.sealed or operation.docs.content_type != JSON:
        return b""
    return (await _standing(call)).notice


async def check_quota(call: Call) -> None:
    """Lock a `quota_locked` operation while the account is over its quota. Raises QuotaExceeded without a key.

    What was answered under a key before is answered again all the same, and what does not exist is not found
    (G-007): both show in the unit alone, so a request with a key goes as far as its command.
    """
    if call.operation.fencing.quota_locked and (await _standing(call)).locked:
        call.locked = QuotaExceeded()
        if call.key is None:
            raise call.locked


def check_locked(call: Call, made: Outcome | Answer | Streamed) -> None:
    """Raise QuotaExceeded for a locked operation that answers anew."""
    if call.locked is not None and not (isinstance(made, Outcome) and made.replayed):
        raise call.locked


async def _standing(call: Call) -> Told:
    return await call.services.notices.of(call.scope_id, call.principal.user_id)
