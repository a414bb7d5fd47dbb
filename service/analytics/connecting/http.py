"""Bounded requests to a provider, through the guard of outbound calls, at the pace of their connection."""

import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlencode
from weakref import WeakValueDictionary

import msgspec
import structlog

from service.egress.exchange import NotReceived, Reason, Received, Request
from service.egress.guard import CALLERS, OPERATOR, Guard, Reach
from service.egress.lookups import OF_OPERATOR
from service.fairness.bounds import SHARE, FairBounds
from service.fairness.semaphore import FairSemaphore
from service.fairness.turns import NOBODY
from service.settings import Settings
from statemachines.kernel.machine import Cause, ReadFailed

# Bounded requests to a provider, through the guard of outbound calls, with failures as values.

log = structlog.get_logger(__name__)

READ_SECONDS = 8.0
"""For one exchange with a provider, look-up of its name included."""
LONGEST_WAIT = 3600
"""Seconds of a provider's Retry-After at most."""
SHORT_WAIT = 5
"""Seconds to wait after a 429 or 5xx that names none."""

_CAUSES: dict[Reason, Cause] = {
    "refused": "refused",
    "unknown_name": "refused",
    "timeout": "timeout",
    "slow_name": "timeout",
    "busy": "timeout",
}
"""Causes of failed reads, by the reason of a missing answer. All others are unreachable."""


class HttpAnswer(NamedTuple):
    """A complete answer, of whatever status. `retry_after` is in seconds, None when the provider names none."""

    status: int
    body: bytes
    retry_after: int | None = None


class Throttled(ReadFailed, frozen=True, kw_only=True):
    """The provider takes no requests for `retry_after` seconds."""

    retry_after: int


class QueryRefused(ReadFailed, frozen=True):
    """The provider has read the request, and does not accept its words (400)."""


class Content(NamedTuple):
    """The body of a request, and its media type."""

    media_type: str
    body: bytes


def form(**fields: str) -> Content:
    """Write fields as a form."""
    return Content("application/x-www-form-urlencoded", urlencode(fields).encode())


def document(value: Any) -> Content:
    """Write a value as JSON."""
    return Content("application/json", msgspec.json.encode(value))


def fresh(query: Mapping[str, Any]) -> Content:
    """Write a question to the provider's query endpoint. Its answer is no cached one."""
    return document({"query": query, "refresh": "force_blocking"})


def hogql(query: str, values: Mapping[str, Any]) -> Content:
    """Write a question in the provider's SQL, with its bound values."""
    return fresh({"kind": "HogQLQuery", "query": query, "values": values})


class ProviderClient:
    """The client of a process. The operator's own hosts may lie anywhere, those of callers are public."""

    def __init__(self, settings: Settings, guard: Guard) -> None:
        regions = {settings.provider_us_url, settings.provider_eu_url}
        self._configured = frozenset({*regions, settings.provider_oauth_url, settings.provider_api_url})
        self._guard = guard

    def is_configured_host(self, host: str) -> bool:
        """Whether the operator has configured the host."""
        return host in self._configured

    async def fault_of(self, host: str, account: str) -> str | None:
        """Why a host may not be asked, as "must …". None if it may, also while its name does not resolve."""
        return await self._guard.refusal(host, *self._rights(host, account))

    def _rights(self, host: str, account: str) -> tuple[str | None, Reach]:
        """Whose look-ups find a host, and where it may lead."""
        return (OF_OPERATOR, OPERATOR) if self.is_configured_host(host) else (account, CALLERS)

    async def post(
        self,
        host: str,
        path: str,
        content: Content,
        *,
        account: str,
        max_bytes: int,
        token: str | None = None,
        seconds: float = READ_SECONDS,
    ) -> HttpAnswer | ReadFailed:
        """Post to a provider. For the parameters see `call`."""
        return await self.call(
            "POST", host, path, content, account=account, max_bytes=max_bytes, token=token, seconds=seconds
        )

    async def call(
        self,
        method: str,
        host: str,
        path: str,
        content: Content | None = None,
        *,
        account: str,
        max_bytes: int,
        token: str | None = None,
        seconds: float = READ_SECONDS,
    ) -> HttpAnswer | ReadFailed:
        """Send a request to a provider, with a bearer token if given, and read the answer up to `max_bytes`.

        `account` is the one whose share of look-ups the name of a caller's host takes. All of it takes `seconds` at
        most.
        """
        headers = {"accept": "application/json"}
        if content is not None:
            headers["content-type"] = content.media_type
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        lookups_of, reach = self._rights(host, account)
        received = await self._guard.call(
            host + path,
            Request(method, headers, b"" if content is None else content.body),
            account=lookups_of,
            reach=reach,
            max_body=max_bytes,
            seconds=seconds,
        )
        if isinstance(received, NotReceived):
            return failure(_CAUSES.get(received.reason, "unreachable"))
        return failure("too_much") if received.cut else _answer(received)


def _answer(received: Received) -> HttpAnswer:
    """A complete answer, with the seconds of its Retry-After. A date there counts as unsaid."""
    text = (received.retry_after or "").strip()
    wait = min(int(text), LONGEST_WAIT) if text.isascii() and text.isdigit() and len(text) < len("1000000000") else None
    return HttpAnswer(received.status, received.body, wait)


def failed(answer: HttpAnswer) -> ReadFailed:
    """The failed read for an answer that is no success: Throttled after a 429 or 5xx, QueryRefused after a 400."""
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("provider_read_failed", cause="throttled")
        return Throttled("unreachable", retry_after=answer.retry_after or SHORT_WAIT)
    if answer.status == HTTPStatus.BAD_REQUEST:
        log.warning("provider_read_failed", cause="refused")
        return QueryRefused("refused")
    return failure(cause_of(answer.status))


def failure(cause: Cause) -> ReadFailed:
    """Log and return a failed read. Neither addresses nor texts of the provider are logged."""
    log.warning("provider_read_failed", cause=cause)
    return ReadFailed(cause)


def cause_of(status: int) -> Cause:
    """The failed read for an error status."""
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return "unauthorized"
    return "refused"


def parse(body: bytes, expected: type[Any]) -> Any:
    """Decode an answer. Returns a ReadFailed when it has not the agreed form."""
    try:
        return msgspec.json.decode(body, type=expected)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return failure("malformed")


# The pace of one connection: few requests at once, verification first, and none while the provider asks for rest.
# The provider's limits are those of a project there, so each connection has a pace of its own (G-164). It is in the
# memory of a process. One request of each process learns of a rest, and a rest in the database would cost a write
# for each failure.

AT_ONCE = 3
"""Requests of one connection under way: the provider runs so many queries of a project."""
MOST_WAITING = 16
"""Requests of one connection waiting for their turn."""
FIRST_REST = 1.0
"""Seconds without requests after a failure. They double with each further one in a row."""
LONGEST_REST = 60.0
"""Seconds without requests at most, if the provider names none."""
LONGEST_TOLD = 300.0
"""Seconds of a Retry-After at most."""
MOST_CONNECTIONS = 4096
"""Connections with a pace in memory. The one not used for longest is forgotten first, once no request has it."""

Answer = HttpAnswer | ReadFailed


class Pace:
    """The requests of one connection in one process, used from its event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._rests_until = 0.0
        self._turns = FairSemaphore(FairBounds(SHARE.of(AT_ONCE, least=2)), ranked=True)
        self._most_waiting = SHARE.of(MOST_WAITING)

    async def send(self, ask: Callable[[], Awaitable[Answer]], *, first: bool) -> Answer:
        """Carry out a request in its turn: before the others if `first`. Returns Throttled in place of a 429 or 5xx.

        Also without asking: during a rest, and if too many wait.
        """
        if (rest := self._rest()) is not None:
            return rest
        if self._turns.waiting >= self._most_waiting:
            return Throttled("unreachable", retry_after=math.ceil(FIRST_REST))
        async with self._turns.place(NOBODY, first=first):
            rest = self._rest()
            return self._learn(await ask()) if rest is None else rest

    def _rest(self) -> Throttled | None:
        left = self._rests_until - self._clock()
        return Throttled("unreachable", retry_after=math.ceil(left)) if left > 0 else None

    def _learn(self, answer: Answer) -> Answer:
        """Begin a rest after a 429 or 5xx, also of the token's endpoint. Any other answer ends the row of failures."""
        told: int | None = None
        if isinstance(answer, HttpAnswer):
            if answer.status != HTTPStatus.TOO_MANY_REQUESTS and answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                self._failures = 0
                return answer
            told, answer = answer.retry_after, failed(answer)
        elif isinstance(answer, Throttled):
            told = answer.retry_after
        else:
            return answer
        seconds = min(told, LONGEST_TOLD) if told else min(FIRST_REST * 2**self._failures, LONGEST_REST)
        self._failures = min(self._failures + 1, int(LONGEST_REST))
        self._rests_until = max(self._rests_until, self._clock() + seconds)
        return Throttled(answer.cause, retry_after=math.ceil(seconds))


class Paces:
    """The paces of all connections that a process has asked lately."""

    def __init__(self) -> None:
        self._used: OrderedDict[str, Pace] = OrderedDict()
        # A pace in use is found here after newer ones took its place: two paces would let twice as many requests go.
        self._alive: WeakValueDictionary[str, Pace] = WeakValueDictionary()

    def of(self, connection_id: str) -> Pace:
        """Return the pace of a connection."""
        pace = self._alive.get(connection_id)
        if pace is None:
            pace = self._alive[connection_id] = Pace()
        self._used[connection_id] = pace
        self._used.move_to_end(connection_id)
        if len(self._used) > MOST_CONNECTIONS:
            self._used.popitem(last=False)
        return pace
