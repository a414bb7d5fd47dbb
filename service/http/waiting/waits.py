"""Requests with a late answer: they wait for the next revision of a stream (G-167).

A request is first answered as ever, by admission and all reads. If its caller knows this revision already, the answer
is dropped and the request waits. It holds no connection, no thread and no place in flight meanwhile. Once the stream
has moved or the time is over, the request is carried out anew, with admission and all reads. So no answer is older than
the authority for it.

The handler begins to listen before it reads. So no change falls between the two.

Streams have as many places as waits, in all and of one account.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self

from litestar.types import Receive

from schemas.kernel.shape import WaitQuery
from service.eventstore.log.follower import Listener
from service.fairness.bounds import SHARE, FairBounds, Full
from service.fairness.semaphore import FairSemaphore
from service.http.answer.errors import RateLimited


def waiting_places(total: int, per_account: int) -> FairSemaphore:
    """A process's places for requests that wait or stream. Without one a request is refused as RateLimited."""
    total, per_account = SHARE.of(total, least=2), SHARE.of(per_account)

    def refuse(full: Full, _: str) -> Exception:
        if full is Full.ALL:
            return RateLimited(
                "Too many requests wait or stream.",
                next_action="Wait for the seconds in Retry-After, or poll without wait.",
                max_waiting=total,
            )
        return RateLimited(
            "This account has too many requests that wait or stream.",
            next_action="End one of them, or poll without wait.",
            max_waiting=per_account,
        )

    return FairSemaphore(FairBounds(total, per_tenant=per_account), refuse=refuse)


MOST = 2000
MOST_OF_ACCOUNT = 100
KEPT_BODY = 4096  # bytes of a request that waits; a larger one, of blanks, is answered at once
ANEW = 8  # requests that are carried out anew at once, of which an account has a quarter
STOP_SECONDS = 0.9  # of a process that ends: within them who waits is answered by a fresh read
MOST_READINGS = 20
"""How often one request is carried out anew. A stream moving on and on without another revision ends the wait."""


class Followed(Protocol):
    """The source of changes."""

    async def listen(self, *, streams: tuple[str, ...]) -> Listener:
        """Begin to hear of streams. Raises ReadNotDone."""


class Waits:
    """The waits of one process."""

    def __init__(self) -> None:
        self._places = waiting_places(MOST, MOST_OF_ACCOUNT)
        self._under_way: set[RevisionWait] = set()
        self.turns = FairSemaphore(FairBounds(SHARE.of(ANEW, least=2), per_tenant=SHARE.of(ANEW // 4)), waiting=MOST)
        self.stops_at: float | None = None

    @property
    def waiting(self) -> int:
        """How many requests wait or listen."""
        return self._places.held

    def begin(self) -> RevisionWait:
        """A wait for one request."""
        return RevisionWait(self)

    def stop(self) -> None:
        """End all waits with an answer, because the process ends. From now on nobody waits."""
        self.stops_at = asyncio.get_running_loop().time() + STOP_SECONDS
        for wait in self._under_way:
            wait.wake()

    def enter(self, wait: RevisionWait, account: str) -> None:
        """Take a place. Raises RateLimited."""
        self._places.take(account)
        self._under_way.add(wait)

    def leave(self, wait: RevisionWait, account: str) -> None:
        """Give it back."""
        self._under_way.discard(wait)
        self._places.leave(account)


class RevisionWait:
    """One request's wait, over all the times of carrying it out."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits
        self._listener: Listener | None = None
        self.account = ""
        self._until = 0.0
        self._heard = 0
        self._known: int | None = None
        self._equal = False
        self._gone: asyncio.Task[None] | None = None
        self.readings = 0

    async def listen(self, followed: Followed, account: str, stream: str, query: WaitQuery) -> None:
        """Begin to hear of a stream, unless that has begun or nobody waits any more.

        Raises RateLimited without a place, and ReadNotDone while the log cannot be read.
        """
        if self._listener is None and query.wait is not None and self._waits.stops_at is None:
            self._waits.enter(self, account)
            self.account = account
            try:
                self._listener = await followed.listen(streams=(stream,))
            except BaseException:
                self._waits.leave(self, account)
                raise
            self._until = asyncio.get_running_loop().time() + query.wait
            self._known = query.revision
        if self._listener is not None:
            self._heard = self._listener.heard

    def saw(self, revision: int) -> None:
        """Note the revision of the answer. Without a known one the caller waits for a change of the first."""
        if self._known is None:
            self._known = revision
        self._equal = revision == self._known

    def end(self) -> None:
        """Note a refusal. It ends the wait."""
        self._equal = False

    @property
    def goes_on(self) -> bool:
        """Whether the latest answer is dropped, for another one later."""
        return (
            self._equal
            and self._listener is not None
            and self._waits.stops_at is None
            and self.readings < MOST_READINGS
            and asyncio.get_running_loop().time() < self._until
        )

    async def again(self, receive: Receive) -> bool:
        """Wait for the stream to move. False for a client gone away meanwhile: nothing is left to do."""
        assert self._listener is not None, "who goes on listens"
        if self._gone is None:
            self._gone = asyncio.create_task(until_gone(receive))
            self._gone.add_done_callback(lambda _: self.wake())
        if not self._gone.done():
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._until):
                    await self._listener.changed(self._heard)
        self._equal = False
        self.readings += 1
        return not self._gone.done()

    def wake(self) -> None:
        """End the waiting, whatever the stream does."""
        if self._listener is not None:
            self._listener.hear(self._listener.position)

    @property
    def time_left(self) -> float | None:
        """How long it may take to carry the request out anew; None: as long as ever."""
        stops_at = self._waits.stops_at
        return None if stops_at is None else max(0.0, stops_at - asyncio.get_running_loop().time())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        if self._gone is not None:
            self._gone.cancel()
        if self._listener is not None:
            self._listener.close()
            self._waits.leave(self, self.account)
            self._listener = None


async def until_gone(receive: Receive) -> None:
    """Return when the client has closed the connection."""
    message: Any = {"type": ""}
    while message["type"] != "http.disconnect":
        message = await receive()


def once_more(body: bytes) -> Receive:
    """A source with the body of a request, to read it once more."""

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
