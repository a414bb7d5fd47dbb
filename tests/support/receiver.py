"""Listeners on loopback that answer as a test says, and keep what they were sent."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

Behave = Callable[["Visit"], Awaitable[None]]


@dataclass
class Visit:
    """One connection, after its request was read."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    request: bytes

    async def send(self, data: bytes) -> None:
        """Send bytes as soon as the other side takes them."""
        self.writer.write(data)
        await self.writer.drain()

    async def gone(self) -> None:
        """Wait until the other side has closed the connection."""
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass


@dataclass
class Receiver:
    """A listener: its port, the requests that it read, how many connections came, and what they named."""

    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    names: list[str | None] = field(default_factory=list)  # what came in SNI
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def left(self) -> None:
        """Wait until the other side has left a connection."""
        async with asyncio.timeout(30):
            await self.over.wait()


@asynccontextmanager
async def receiving(
    behave: Behave, *, context: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Receiver]:
    """Listen for a block; every connection is read up to the end of one request, and then behaves."""
    receiver = Receiver()
    if context is not None:
        context.sni_callback = lambda _, name, __: receiver.names.append(name)
    visits: set[asyncio.Task[None]] = set()

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        visits.add(task)
        receiver.connections += 1
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            request += await reader.readexactly(_length(request))
            receiver.requests.append(request)
            await behave(Visit(reader, writer, request))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the other side has had enough, or the block is over
        finally:
            receiver.over.set()
            writer.transport.abort()

    server = await asyncio.start_server(visit, host, 0, ssl=context)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in visits:
            task.cancel()
        await asyncio.gather(*visits, return_exceptions=True)
        await asyncio.sleep(0)  # their connections are closed now


def answers(*parts: bytes) -> Behave:
    """Answer with these bytes, and wait until the other side has had enough."""

    async def behave(visit: Visit) -> None:
        for part in parts:
            await visit.send(part)
        await visit.gone()

    return behave


def repeats(first: bytes, again: bytes, times: int | None = None, every: float = 0) -> Behave:
    """Answer with a beginning, and then with the same bytes again and again until the other side has had enough."""

    async def behave(visit: Visit) -> None:
        await visit.send(first)
        for _ in _counting(times):
            await visit.send(again)
            await asyncio.sleep(every)
        await visit.gone()

    return behave


def _counting(times: int | None) -> Iterable[int]:
    number = 0
    while times is None or number < times:
        yield number
        number += 1


def _length(head: bytes) -> int:
    lines = head.lower().split(b"\r\n")
    return next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
