"""Receivers of webhooks on loopback: real servers that note what reaches them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import NamedTuple

import h11
import jsonschema_rs
import msgspec
from standardwebhooks.webhooks import Webhook

from service.webhooks.testing import delivery_schema


class Arrived(NamedTuple):
    """A request as it came in; `at` is the moment of the monotonic clock."""

    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> str:
        return self.headers["x-service-event"]

    @property
    def document(self) -> dict[str, object]:
        document: dict[str, object] = msgspec.json.decode(self.body)
        return document

    def verify(self, secret: str) -> None:
        """Have the library of Standard Webhooks verify it. Raises WebhookVerificationError."""
        Webhook(secret).verify(self.body, self.headers)


Answering = Callable[["Arrived", asyncio.StreamWriter], Awaitable[None]]


async def respond(writer: asyncio.StreamWriter, status: int, body: bytes = b"", **headers: str) -> None:
    """Answer in full. An underscore in the name of a header stands for a hyphen."""
    told = {"content-length": len(body), "connection": "close", **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in told.items())
    writer.write(f"HTTP/1.1 {status} Status\r\n{lines}\r\n".encode() + body)
    with suppress(ConnectionError):
        await writer.drain()


class Listener:
    """A receiver. `status` is what it answers with; `answering`, if set, answers in its place.

    `judge` finds the faults of what arrives.
    """

    def __init__(self, judge: Callable[[Arrived], list[str]] | None = None) -> None:
        self.judge = judge or faults_of
        self.arrived: list[Arrived] = []
        self.connections = 0
        self.status = 204
        self.answering: Answering | None = None
        self.port = 0
        self.faults: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def events(self) -> list[str]:
        return [one.event for one in self.arrived]

    async def until(self, true: Callable[[], bool], seconds: float = 20) -> None:
        """Wait for a condition on what has arrived."""
        give_up = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < give_up, [one.document for one in self.arrived][-5:]
            await asyncio.sleep(0.02)

    async def until_arrived(self, number: int, seconds: float = 20) -> None:
        """Wait for so many requests."""
        await self.until(lambda: len(self.arrived) >= number, seconds)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request and answer it."""
        self.connections += 1
        parser = h11.Connection(h11.SERVER)
        headers: dict[str, str] = {}
        body = b""
        try:
            while True:
                event = parser.next_event()
                if event is h11.NEED_DATA:
                    parser.receive_data(await reader.read(65536))
                elif isinstance(event, h11.Request):
                    headers = {name.decode(): value.decode() for name, value in event.headers}
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    break
                else:
                    return
            arrived = Arrived(headers, body, time.monotonic())
            self.arrived.append(arrived)
            self.faults += self.judge(arrived)
            if self.answering is None:
                await respond(writer, self.status)
            else:
                await self.answering(arrived, writer)
        except (ConnectionError, h11.RemoteProtocolError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def listening(judge: Callable[[Arrived], list[str]] | None = None) -> AsyncIterator[Listener]:
    """Run a receiver."""
    listener = Listener(judge)
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()
    assert listener.faults == []


def faults_of(arrived: Arrived) -> list[str]:
    """What of a delivery the published catalogue does not tell (G-160)."""
    return faults_of_body(arrived.event, arrived.document)


def faults_of_body(event: str, document: object) -> list[str]:
    """What of a body the catalogue's schema of an event does not tell, members beyond it included."""
    return [f"{event}: {fault}" for fault in _validator(event).iter_errors(document)]


@cache
def _validator(event: str) -> jsonschema_rs.Draft202012Validator:
    schema = delivery_schema(event)
    schema["properties"]["data"]["additionalProperties"] = False
    return jsonschema_rs.Draft202012Validator({**schema, "additionalProperties": False})


async def never(_: Arrived, __: asyncio.StreamWriter) -> None:
    """Never answer."""
    await asyncio.sleep(3600)
