"""Streamed answers on their way: how many, how long their readers may take, and how they end (G-169).

A stream holds no connection of the database and no place in flight. One piece at a time is in memory. A reader too slow
for it is cut off, and takes nothing from others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import psycopg
import structlog
from litestar.types import Receive, Scope, Send
from psycopg_pool import PoolTimeout

from service.eventstore.read.reader import Caller, reading_for
from service.fairness.not_done import CommandNotDone
from service.http.edge.answer.errors import RateLimited
from service.http.edge.answer.reply import Reply
from service.http.edge.answer.streamed import Streamed
from service.http.edge.waiting.places import AccountPlaces
from service.http.edge.waiting.waits import until_gone

log = structlog.get_logger(__name__)

MOST = 2000
MOST_OF_ACCOUNT = 100
WRITE_SECONDS = 10.0  # within which a reader takes a piece
READ_SECONDS = 5.0  # of all reads for one piece


class Streams:
    """The streamed answers of one process."""

    def __init__(self) -> None:
        self._places = AccountPlaces(MOST, MOST_OF_ACCOUNT)
        self._under_way: set[StreamedReply] = set()
        self.stopping = False
        self.cut_off = 0

    @property
    def under_way(self) -> int:
        """How many streams there are."""
        return self._places.taken

    def reply(self, made: Streamed, headers: Mapping[str, str], request_id: str, account: str) -> StreamedReply:
        """Make the reply of a streamed answer, with its place. Raises RateLimited, and then nothing holds it."""
        try:
            self._places.enter(account)
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

    __slots__ = ("_account", "_ends", "_made", "_pump", "_reading", "_streams")

    def __init__(
        self, made: Streamed, headers: Mapping[str, str], request_id: str, account: str, streams: Streams
    ) -> None:
        super().__init__(made.status, b"", {"x-accel-buffering": "no", **headers, **made.headers}, request_id)
        self._made = made
        self._account = account
        self._streams = streams
        self._pump: asyncio.Task[None] | None = None
        self._reading = False
        self._ends = False

    def end(self) -> None:
        """End an endless stream after the piece under way."""
        if self._made.endless:
            self._ends = True
            if self._reading and self._pump is not None:
                self._pump.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer; to HEAD without its body."""
        gone = asyncio.create_task(until_gone(receive))
        self._streams.add(self)
        if self._streams.stopping:
            self.end()
        try:
            raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers.items()]
            await send({"type": "http.response.start", "status": self.status, "headers": raw})
            whole = True
            if scope.get("method") != "HEAD":
                self._pump = asyncio.create_task(self._send_pieces(send))
                await asyncio.wait({self._pump, gone}, return_when=asyncio.FIRST_COMPLETED)
                whole = await self._settle(self._pump)
            if whole:  # Without the last chunk the server breaks the connection off, for the reader to see.
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()
            self._made.let_go()
            self._streams.leave(self, self._account)
            close: Callable[[], Any] | None = getattr(self._made.pieces, "aclose", None)
            if close is not None:
                await close()

    async def _settle(self, pump: asyncio.Task[None]) -> bool:
        """End the pump of a reader gone away, or hear how it ended. Returns whether the answer is whole."""
        if not pump.done():
            pump.cancel()
        try:
            await pump
        except asyncio.CancelledError:
            return self._ends
        except (CommandNotDone, PoolTimeout, psycopg.Error, ReaderTooSlow) as error:
            log.warning("stream_broken_off", cause=type(error).__name__)
            return False
        except Exception:
            log.exception("stream_failed")
            return False
        return True

    async def _send_pieces(self, send: Send) -> None:
        pieces: AsyncIterator[bytes] = self._made.pieces
        while not self._ends:
            self._reading = True
            try:
                with reading_for(Caller(self._account, READ_SECONDS)):
                    piece = await anext(pieces)
            except StopAsyncIteration:
                return
            finally:
                self._reading = False
            if not piece:
                continue
            try:
                async with asyncio.timeout(WRITE_SECONDS):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            except TimeoutError:
                self._streams.cut_off += 1
                raise ReaderTooSlow from None


class ReaderTooSlow(Exception):
    """A reader took no piece in its time. The connection is broken off."""
