"""The shape of P25 with event streams: one account opens as many as it may, and reads them as badly as it can."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus

from scripts.load.loadgen import Request, encode
from tests.torture.neighbours.attacker import PAUSE, Attacker
from tests.torture.neighbours.wire import ANSWER_SECONDS, Wire

READERS = 300  # three times as many as an account may have
HELD = 4096  # bytes that lie on the reader's side: what it does not read stays with the service
GULP = 64 << 10
SENT, LINES = "text/event-stream", "application/x-ndjson"

Take = Callable[[asyncio.StreamReader], Awaitable[None]]


async def sip(reader: asyncio.StreamReader) -> None:
    """Take a byte a second, until the service has had enough."""
    while await reader.read(1):  # noqa: ASYNC110 - it is slow on purpose
        await asyncio.sleep(1)


async def _gulp(reader: asyncio.StreamReader) -> None:
    """Take a little of the history, to have its beginning again at once."""
    await reader.readexactly(GULP)


async def swallow(reader: asyncio.StreamReader) -> None:
    """Take everything that there is."""
    while await reader.read(GULP):
        continue


MANNERS: tuple[tuple[str, Take], ...] = ((SENT, sip), (SENT, _gulp), (LINES, swallow), (LINES, sip))


async def streams(attacker: Attacker) -> None:
    """Three hundred readers of the longest histories: slow ones, ones that begin anew, and refused ones, at once."""
    paths = await _find_paths(attacker)

    async def read(number: int) -> None:
        accept, take = MANNERS[number % len(MANNERS)]
        key = attacker.holdings.keys[number // len(MANNERS) % len(attacker.holdings.keys)]
        asked = {"authorization": f"Bearer {key}", "accept": accept, "last-event-id": "0", "connection": "close"}
        while time.monotonic() < attacker.until:
            try:
                await ask(attacker, ("GET", paths[number // len(MANNERS) % len(paths)], asked, b""), take)
            except (OSError, EOFError):
                attacker.tally.lost += 1
                await asyncio.sleep(PAUSE)

    with suppress(TimeoutError):
        async with asyncio.timeout(attacker.until - time.monotonic()):
            await asyncio.gather(*(read(number) for number in range(attacker.many(READERS))))


async def _find_paths(attacker: Attacker) -> list[str]:
    """The events of each long project, and those of its longest stream alone."""
    wire, paths = Wire(attacker.holdings.host, attacker.holdings.port), []
    for project in (*attacker.holdings.long, attacker.holdings.shop):
        path = f"/v1/projects/{project}/events"
        _, _, answer = await wire.send(attacker.get(f"{path}?limit=20"))
        paths += [path, f"/v1/streams/{json.loads(answer)['events'][-1]['stream_id']}/events"]
    await wire.close()
    return paths


async def ask(attacker: Attacker, request: Request, take: Take) -> None:
    """Open a stream and read it in a manner. A refused one ends. Raises OSError, TimeoutError and EOFError."""
    host, port = attacker.holdings.host, attacker.holdings.port
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, HELD)
    line.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(line, (host, port))
        reader, writer = await asyncio.open_connection(sock=line, limit=HELD)
    except BaseException:
        line.close()
        raise
    try:
        writer.write(encode(f"{host}:{port}", request))
        async with asyncio.timeout(ANSWER_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        attacker.counted[status] += 1
        if status == HTTPStatus.OK:
            await take(reader)
    finally:
        writer.close()


SHAPES = (streams,)
