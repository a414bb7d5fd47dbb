"""Requests written by hand on sockets of their own, for what no well-behaved client does."""

from __future__ import annotations

import json
import re
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)


def request(path: str, body: Any = None, **headers: str) -> bytes:
    """The bytes of a request: a POST with a body, else a GET. A header's underscores are dashes."""
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", "host: service"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += [] if body is None else ["content-type: application/json", f"content-length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


def answer(connection: socket.socket) -> tuple[int, bytes]:
    """The status and the head of the next answer. Raises ConnectionError when the connection ends without one."""
    received = b""
    while True:
        chunk = connection.recv(65536)
        if not chunk:
            raise ConnectionResetError("closed without an answer")
        received += chunk
        head, found, body = received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if found and (length is None or len(body) >= int(length[1])):
            return int(head.split(b" ", 2)[1]), head.lower()


@contextmanager
def connections(port: int, number: int, timeout: float = 10.0) -> Iterator[list[socket.socket]]:
    """So many open connections to a loopback port."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, number + 1024)), hard))
    with ExitStack() as stack:
        address = ("127.0.0.1", port)
        yield [stack.enter_context(socket.create_connection(address, timeout)) for _ in range(number)]
