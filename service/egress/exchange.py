"""One request and its answer over an open connection, both bounded (G-150).

h11 reads the bytes, and this module bounds them. Codings of the content stay as they are: nothing is
unpacked, so a small answer cannot become a large one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

import h11

from service.egress.form import Target
from service.egress.outcomes import NotReceived, Received

MAX_HEAD = 16 * 1024
"""Bytes before the body: status and headers, those of informational answers included."""
MAX_BODY = 64 * 1024
"""Bytes read of a body, unless a call says otherwise."""
AT_ONCE = 64 * 1024
USER_AGENT = "service/3"
RETRY_AFTER = b"retry-after"


class Request(NamedTuple):
    """A request without its address. Host, length and headers of the connection are not the caller's to give."""

    method: str
    headers: Mapping[str, str]
    body: bytes = b""


async def converse(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: Target, request: Request, max_body: int
) -> Received | NotReceived:
    """Send a request and read its answer, up to `max_body` bytes of body. Raises OSError when the connection breaks."""
    sender = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
    try:
        # It is not waited for: whoever answers before reading is heard all the same.
        writer.write(_written(sender, target, request))
    except h11.LocalProtocolError as error:
        raise ValueError("a header holds what HTTP does not carry") from error
    return await _Answer(reader, sender, max_body).read()


def _written(sender: h11.Connection, target: Target, request: Request) -> bytes:
    headers = {
        "host": target.authority,
        "user-agent": USER_AGENT,
        "accept-encoding": "identity",
        "connection": "close",
        "content-length": str(len(request.body)),
        **request.headers,
    }
    head = h11.Request(method=request.method, target=target.path, headers=list(headers.items()))
    parts = [sender.send(head), sender.send(h11.Data(request.body)), sender.send(h11.EndOfMessage())]
    return b"".join(part for part in parts if part)


class _Answer:
    """An answer as it comes in."""

    def __init__(self, reader: asyncio.StreamReader, connection: h11.Connection, max_body: int) -> None:
        self._reader = reader
        self._connection = connection
        self._max_body = max_body
        self._status: int | None = None
        self._retry_after: str | None = None
        self._body = bytearray()
        self._head_left = MAX_HEAD
        # Chunks have sizes and extensions, which count as well: half of what comes may be those.
        self._wire_left = 2 * max_body + MAX_HEAD
        self._ended = False

    async def read(self) -> Received | NotReceived:
        """Read until the answer is complete, or one of its bounds is reached."""
        while True:
            try:
                event = self._connection.next_event()
            except h11.RemoteProtocolError:
                return NotReceived("closed" if self._ended else "malformed")
            if event is h11.NEED_DATA:
                if not await self._feed():
                    return self._received(cut=True) if self._status is not None else NotReceived("head")
                continue
            match event:
                case h11.Response(status_code=status, headers=headers):
                    self._status = status
                    self._retry_after = next((v.decode("latin-1") for name, v in headers if name == RETRY_AFTER), None)
                case h11.Data(data=data):
                    self._body += data
                    if len(self._body) > self._max_body:
                        return self._received(cut=True)
                case h11.EndOfMessage():
                    return self._received(cut=False)
                case h11.ConnectionClosed() | h11.PAUSED:
                    return NotReceived("closed" if self._ended else "malformed")
                case _:  # an informational answer, before the one that counts
                    pass

    async def _feed(self) -> bool:
        """Give the parser the next bytes. False when it may have no more."""
        left = self._head_left if self._status is None else self._wire_left
        if left <= 0:
            return False
        data = await self._reader.read(min(left, AT_ONCE))
        self._ended = not data
        if self._status is None:
            self._head_left -= len(data)
        else:
            self._wire_left -= len(data)
        self._connection.receive_data(data)
        return True

    def _received(self, *, cut: bool) -> Received:
        assert self._status is not None, "a body follows its head"
        return Received(self._status, bytes(self._body[: self._max_body]), cut, self._retry_after)
