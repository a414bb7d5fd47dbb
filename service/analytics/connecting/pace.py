"""The pace of one connection: few requests at once, verification first, and none while the provider asks for rest.

The provider's limits are those of a project there, so each connection has a pace of its own (G-164). It is in the
memory of a process. One request of each process learns of a rest, and a rest in the database would cost a write for
each failure.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from weakref import WeakValueDictionary

from service.analytics.connecting.http import HttpAnswer, Throttled, failed
from statemachines.kernel.readings import ReadFailed

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
        self._running = 0
        self._failures = 0
        self._rests_until = 0.0
        self._first: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()

    async def send(self, ask: Callable[[], Awaitable[Answer]], *, first: bool) -> Answer:
        """Carry out a request in its turn: before the others if `first`. Returns Throttled in place of a 429 or 5xx.

        Also without asking: during a rest, and if too many wait.
        """
        if (rest := self._rest()) is not None:
            return rest
        if len(self._first) + len(self._others) >= MOST_WAITING:
            return Throttled("unreachable", retry_after=math.ceil(FIRST_REST))
        await self._enter(first=first)
        try:
            rest = self._rest()
            return self._learn(await ask()) if rest is None else rest
        finally:
            self._leave()

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

    async def _enter(self, *, first: bool) -> None:
        if self._running < AT_ONCE:
            self._running += 1
            return
        line = self._first if first else self._others
        turn = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                line.remove(turn)
            else:  # The turn came in the same moment.
                self._leave()
            raise

    def _leave(self) -> None:
        self._running -= 1
        for line in (self._first, self._others):
            while line:
                turn = line.popleft()
                if not turn.done():
                    self._running += 1
                    turn.set_result(None)
                    return


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
