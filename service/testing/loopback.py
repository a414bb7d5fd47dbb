"""A small HTTP/1.1 server on loopback: what arrives as it came, and answers that may be withheld."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec

MOST_BYTES = 4 * 1024 * 1024
"""The largest request that is read."""
HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "content-length"})


class Heard(NamedTuple):
    """A request as it arrived. Names of headers are in lower case; `at` is the time of its arrival."""

    at: float
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes

    @property
    def target(self) -> str:
        """Path and query."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the query, the last of each name."""
        return dict(parse_qsl(self.query))

    def json(self) -> Any:
        """The body, if it is JSON."""
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(self.body)
        return None

    def holds(self, text: str) -> bool:
        """Whether a text is anywhere in the request."""
        everything = [self.path, self.query, self.body.decode(errors="replace"), *self.headers.values()]
        return any(text in part for part in everything)


class Given(NamedTuple):
    """An answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def of(cls, status: int, value: Any, headers: dict[str, str] | None = None) -> Given:
        """Answer with JSON."""
        return cls(status, msgspec.json.encode(value), {"content-type": "application/json", **(headers or {})})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A runner may die in the middle of a request: that is no error here."""


class LoopbackServer:
    """Serves `answer`, a thread for each connection. Its None ends the connection without an answer."""

    def __init__(self, answer: Callable[[Heard], Given | None]) -> None:
        self._server = _Server(("127.0.0.1", 0), _handler(answer))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def _handler(answer: Callable[[Heard], Given | None]) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"give": staticmethod(answer)})


class _Handler(BaseHTTPRequestHandler):
    """Reads requests of every method, and asks `give` for each."""

    protocol_version = "HTTP/1.1"
    timeout = 120
    give: Callable[[Heard], Given | None]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def _serve(self) -> None:
        at = time.time()
        body = self._read()
        path, _, query = self.path.partition("?")
        headers = {name.lower(): value for name, value in self.headers.items()}
        given = None if body is None else self.give(Heard(at, self.command, path, query, headers, body))
        if given is None:
            self.close_connection = True
        else:
            self._write(given)

    def _read(self) -> bytes | None:
        """Read the body; None when it is too large, or not to be read."""
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return self._read_chunks()
        length = self.headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BYTES:
            return None
        return self.rfile.read(int(length))

    def _read_chunks(self) -> bytes | None:
        body = b""
        while len(body) <= MOST_BYTES:
            size = self.rfile.readline(100).split(b";")[0].strip()
            if not re.fullmatch(rb"[0-9a-fA-F]{1,6}", size):
                return None
            body += self.rfile.read(int(size, 16))
            self.rfile.readline(100)
            if int(size, 16) == 0:
                return body
        return None

    def _write(self, given: Given) -> None:
        lines = [f"HTTP/1.1 {given.status} {HTTPStatus(given.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in given.headers.items() if name.lower() not in HOP_BY_HOP]
        lines.append(f"content-length: {len(given.body)}")
        body = b"" if self.command == "HEAD" else given.body
        self.wfile.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""
