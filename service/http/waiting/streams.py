"""Streamed answers on their way: how many, how long their readers may take, and how they end (G-169).

A stream holds no connection of the database and no place in flight. One piece at a time is in memory. A reader too slow
for it is cut off, and takes nothing from others. Nothing is sent before the first piece is there: a stream without one
is refused like any other request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import psycopg
import structlog
from litestar.types import Receive, Scope, Send
from psycopg_pool import PoolTimeout

from service.eventstore.read.reader import Caller, reading_for
from service.fairness.turns import CommandNotDone
from service.http.answer.errors import RateLimited
from service.http.answer.reply import Reply, Streamed
from service.http.waiting.waits import until_gone, waiting_places

log = structlog.get_logger(__name__)

MOST = 2000
MOST_OF_ACCOUNT = 100
AT_ONCE = 64 * 1024  # bytes of a piece that lie with the server; all of them would be a second copy
WRITE_SECONDS = 10.0  # within which a reader takes a piece
READ_SECONDS = 5.0  # of all reads for one piece


class Streams:
    """The streamed answers of one process."""

    def __init__(self) -> None:
        self._places = waiting_places(MOST, MOST_OF_ACCOUNT)
        self._under_way: set[StreamedReply] = set()
        self.stopping = False
        self.cut_off = 0

    @property
    def under_way(self) -> int:
        """How many streams there are."""
        return self._places.held

    def reply(self, made: Streamed, headers: Mapping[str, str], request_id: str, account: str) -> StreamedReply:
        """Make the reply of a streamed answer, with its place. Raises RateLimited, and then nothing holds it."""
        try:
            self._places.take(account)
        except RateLimited:
            made.let_go()
            raise
        return StreamedReply(made, headers, request_id, account, self)

    def stop(self) -> None:
        """End the endless streams, because the process ends."""
        self.stopping = True
        for reply in self._under_way:
            reply.end()

    def add(self, reply: StreamedReply) -> None:
        """Note a stream as begun."""
        self._under_way.add(reply)

    def leave(self, reply: StreamedReply, account: str) -> None:
        """Give the place of a stream back."""
        self._under_way.discard(reply)
        self._places.leave(account)


class StreamedReply(Reply):
    """An answer in chunks. Calling it as an ASGI application sends it to its end."""

    __slots__ = ("_account", "_ends", "_first", "_gone", "_made", "_over", "_pump", "_reading", "_streams")

    def __init__(
        self, made: Streamed, headers: Mapping[str, str], request_id: str, account: str, streams: Streams
    ) -> None:
        super().__init__(made.status, b"", {"x-accel-buffering": "no", **headers, **made.headers}, request_id)
        self._made = made
        self._account = account
        self._streams = streams
        self._gone: asyncio.Task[None] | None = None
        self._pump: asyncio.Task[None] | None = None
        self._first = b""
        self._reading = False
        self._ends = False
        self._over = False

    def end(self) -> None:
        """End an endless stream after the piece under way."""
        if self._made.endless:
            self._ends = True
            if self._reading and self._pump is not None:
                self._pump.cancel()

    async def begin(self, scope: Scope, receive: Receive) -> None:
        """Read the first piece, while the answer can still be another one, or until the reader is gone.

        Raises what the source raises. Then nothing is held.
        """
        self._gone = asyncio.create_task(until_gone(receive))
        self._streams.add(self)
        if self._streams.stopping:
            self.end()
        if scope.get("method") == "HEAD":
            self._over = True
            return
        try:
            await self._pumped(self._read_first())
        except BaseException:
            await self._close()
            raise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - `begin` has it
        """Send the answer, once it has begun; to HEAD without its body."""
        try:
            raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers.items()]
            await send({"type": "http.response.start", "status": self.status, "headers": raw})
            if scope.get("method") == "HEAD" or await self._is_whole(send):
                # Without the last chunk the server breaks the connection off, for the reader to see.
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self._close()

    async def _pumped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Carry work on the pieces out until the reader is gone. Returns whether it came to its end, or was ended."""
        assert self._gone is not None, "it has begun"
        pump = self._pump = asyncio.create_task(work)
        await asyncio.wait({pump, self._gone}, return_when=asyncio.FIRST_COMPLETED)
        if not pump.done():
            pump.cancel()
        try:
            await pump
        except asyncio.CancelledError:
            self._over = True
            return self._ends
        return True

    async def _is_whole(self, send: Send) -> bool:
        """Send all pieces. Returns false where the answer breaks off."""
        if self._gone is not None and self._gone.done():
            return self._ends
        try:
            return await self._pumped(self._send_pieces(send))
        except (CommandNotDone, PoolTimeout, psycopg.Error, ReaderTooSlow) as error:
            log.warning("stream_broken_off", cause=type(error).__name__)
        except Exception:
            log.exception("stream_failed")
        return False

    async def _close(self) -> None:
        """Let go of everything."""
        if self._gone is not None:
            self._gone.cancel()
        if self._pump is not None and not self._pump.done():
            self._pump.cancel()
            await asyncio.wait({self._pump})
        self._first = b""
        self._made.let_go()
        self._streams.leave(self, self._account)
        close: Callable[[], Any] | None = getattr(self._made.pieces, "aclose", None)
        if close is not None:
            await close()

    async def _read_first(self) -> None:
        self._first = await self._read()

    async def _read(self) -> bytes:
        """Read the next piece that is not empty. At the end there is none."""
        while not self._ends:
            self._reading = True
            try:
                with reading_for(Caller(self._account, READ_SECONDS)):
                    piece = await anext(self._made.pieces)
            except StopAsyncIteration:
                break
            finally:
                self._reading = False
            if piece:
                return piece
        self._over = True
        return b""

    async def _send_pieces(self, send: Send) -> None:
        piece, self._first = self._first, b""
        while piece:
            try:
                async with asyncio.timeout(WRITE_SECONDS):
                    for start in range(0, len(piece), AT_ONCE):
                        some = piece[start : start + AT_ONCE]
                        await send({"type": "http.response.body", "body": some, "more_body": True})
            except TimeoutError:
                self._streams.cut_off += 1
                raise ReaderTooSlow from None
            piece = b""  # It is gone before the next one comes.
            if not self._over:
                piece = await self._read()


class ReaderTooSlow(Exception):
    """A reader took no piece in its time. The connection is broken off."""
