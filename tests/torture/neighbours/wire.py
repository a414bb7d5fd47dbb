"""Requests over a few kept connections, so that whoever sends them costs as little of the machine as can be."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from scripts.load.loadgen import Request, Response, encode, receive

ANSWER_SECONDS = 10.0


class Wire:
    """Connections of one sender to the service: a request takes a free one, or opens another."""

    def __init__(self, host: str, port: int, patience: float = ANSWER_SECONDS) -> None:
        self.host = host
        self.port = port
        self._patience = patience
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send(self, request: Request) -> Response:
        """Send a request and read its answer.

        Raises OSError, TimeoutError (after its patience in seconds) and EOFError; the connection is closed then.
        """
        reader, writer = self._kept() or await asyncio.open_connection(self.host, self.port)
        whole = False
        try:
            async with asyncio.timeout(self._patience):
                writer.write(encode(f"{self.host}:{self.port}", request))
                await writer.drain()
                answer = await receive(reader)
            whole = answer[1].get(b"connection") != b"close"
        finally:
            if whole:
                self._free.append((reader, writer))
            else:
                writer.close()
        return answer

    def _kept(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """The connection that was used last; None when the service has closed all of them, being idle."""
        while self._free:
            reader, writer = self._free.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return None

    async def close(self) -> None:
        """Close what is open."""
        for _, writer in self._free:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        self._free.clear()
