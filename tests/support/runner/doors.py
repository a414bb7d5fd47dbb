"""HTTP doors on loopback whose answers may be lost: a relay to the service, and the base of a code host's stand-in."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from tests.support.runner.faults import Dropped, Faults


class Reply(NamedTuple):
    """What a door answers."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}


class Behind(Protocol):
    """What stands behind a door."""

    def __call__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply: ...


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A runner that was killed closes its connections."""


@contextmanager
def open_door(behind: Behind, faults: Faults) -> Iterator[str]:
    """Open a door; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            step = faults.step(self.command, self.path, body)
            try:
                faults.before(step)
                reply = behind(self.command, self.path, headers, body)
                faults.after(step)
            except Dropped:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in {"content-type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        do_GET = do_POST = do_PATCH = do_PUT = _serve  # noqa: N815

        def log_message(self, *_: Any) -> None: ...

    server = _Quiet(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Relay:
    """Hands requests on to the service. `answers` stand in for it: by method and the end of the path."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self.answers: dict[str, list[Reply]] = {}
        self.seen: list[tuple[str, str, dict[str, str], Any]] = []

    def __call__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        self.seen.append((method, path, headers, json.loads(body) if body else None))
        for ending, replies in self.answers.items():
            if f"{method} {path.split('?', maxsplit=1)[0]}".endswith(ending) and replies:
                return replies.pop(0)
        assert self._target.hostname is not None
        connection = http.client.HTTPConnection(self._target.hostname, self._target.port or 80, timeout=90)
        try:
            kept = {name: value for name, value in headers.items() if name not in {"host", "connection"}}
            connection.request(method, path, body or None, kept)
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            passed = {name: told[name] for name in ("content-type", "retry-after") if name in told}
            return Reply(answer.status, answer.read(), passed)
        finally:
            connection.close()
