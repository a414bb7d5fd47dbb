"""The HTTP server of a witness: two doors, small bodies, and bounds on everything.

It answers one request after the other in one thread. Cosigning takes milliseconds, and its clients are few.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

import h11
import structlog

from service.tlog.notes import MOST_BYTES as MOST_NOTE
from service.witness.cosigning import Witness, WitnessAnswer

log = structlog.get_logger()

MOST_HEAD = 16 * 1024
MOST_BODY = MOST_NOTE + 64 * 48
MOST_CONNECTIONS = 128
REQUEST_SECONDS = 10.0
IDLE_SECONDS = 60.0
AT_ONCE = 64 * 1024
ADD = "/add-checkpoint"


class WitnessServer:
    """A witness on an address. `now` is the time in epoch seconds."""

    def __init__(self, witness: Witness, now: Callable[[], int] = lambda: int(time.time())) -> None:
        self._witness = witness
        self._now = now
        self._open = 0
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen. Returns the port. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=AT_ONCE)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Take no more connections."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        self._open += 1
        try:
            with suppress(OSError, TimeoutError, h11.ProtocolError):
                await self._converse(reader, writer)
        finally:
            self._open -= 1
            writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection, until it ends or one is malformed."""
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD)
        while True:
            try:
                answer = await self._answer_one(connection, reader)
            except h11.RemoteProtocolError:
                answer = WitnessAnswer(HTTPStatus.BAD_REQUEST, "malformed request\n")
            if answer is None:
                return
            await self._send(connection, writer, answer)
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    async def _answer_one(self, connection: h11.Connection, reader: asyncio.StreamReader) -> WitnessAnswer | None:
        """Read a request and work it out. None when the connection ends instead."""
        async with asyncio.timeout(IDLE_SECONDS):
            request = await _next_event(connection, reader)
        if not isinstance(request, h11.Request):
            return None
        body = bytearray()
        async with asyncio.timeout(REQUEST_SECONDS):
            while isinstance(event := await _next_event(connection, reader), h11.Data):
                body += event.data
                if len(body) > MOST_BODY:
                    return WitnessAnswer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too long\n")
        if not isinstance(event, h11.EndOfMessage):
            return None
        return self._answer(request.method.decode("ascii"), request.target.decode("latin-1"), bytes(body))

    def _answer(self, method: str, target: str, body: bytes) -> WitnessAnswer:
        name = target.removeprefix("/").removesuffix("/checkpoint")
        if target == ADD:
            if method != "POST":
                return WitnessAnswer(HTTPStatus.METHOD_NOT_ALLOWED, "POST only\n")
            try:
                answer = self._witness.add_checkpoint(body, self._now())
            except OSError as error:
                log.error("witness_not_written", reason=error.strerror)  # noqa: TRY400 (the reason says all)
                return WitnessAnswer(HTTPStatus.SERVICE_UNAVAILABLE, "the checkpoint could not be kept\n")
            log.info("witness_answered", status=int(answer.status))
            return answer
        if target == f"/{name}/checkpoint":
            if method not in {"GET", "HEAD"}:
                return WitnessAnswer(HTTPStatus.METHOD_NOT_ALLOWED, "GET only\n")
            return self._witness.monitored(name)
        return WitnessAnswer(HTTPStatus.NOT_FOUND, "no such address\n")

    async def _send(self, connection: h11.Connection, writer: asyncio.StreamWriter, answer: WitnessAnswer) -> None:
        body = answer.body.encode()
        headers = [("content-type", answer.content_type), ("content-length", str(len(body)))]
        head = h11.Response(status_code=int(answer.status), headers=headers)
        parts = [connection.send(head), connection.send(h11.Data(body)), connection.send(h11.EndOfMessage())]
        writer.write(b"".join(part for part in parts if part))
        async with asyncio.timeout(REQUEST_SECONDS):
            await writer.drain()


async def _next_event(connection: h11.Connection, reader: asyncio.StreamReader) -> object:
    """Return the next event of a request, and read until there is one. Raises h11.RemoteProtocolError and OSError."""
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await reader.read(AT_ONCE))
    return event
