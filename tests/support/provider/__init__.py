"""A small analytics provider on loopback: an OAuth server, the query endpoint, and what else of its API a test sets.

It is written from the provider's public pages and the standards, independently of the adapter. Tests set what the
human decides, what the telemetry holds, and how it fails.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.provider.document import Asked, faults_of
from tests.support.provider.oauth import AUTHORIZE, OAuthServer, Unauthorizable
from tests.support.provider.queries import QueryServer

BATCH = "/batch/"
"""Where the provider's SDKs send."""
GO_ON = object()
"""What a callable in `fail` returns to have the request answered after all."""
Rest = Callable[["FakeProvider", str, str, dict[str, str], Any, dict[str, str]], tuple[int, Any] | None]
"""Answers what is not OAuth: provider, method, path, query, body and headers. None: a query for rows, or not there."""


@dataclass
class FakeProvider(OAuthServer, QueryServer):
    """The provider's state. `fail` holds, by path, what to answer instead: a status, or a callable on the handler.

    After a status the provider has acted all the same, and after a callable only if that returns GO_ON. The handler has
    the body as `asked`. `faults` are those of requests that did not fit the provider's published document. `looks` are
    questions about exceptions, which a worker asks by the minute: they are in no other list, and fail only if
    `looks_fail`.
    """

    human: str = "granted"  # what the human does on the authorize page: grant, or an error that sends them back
    fail: dict[str, Any] = field(default_factory=dict)
    rest: Rest | None = None
    requests: list[tuple[str, Any, dict[str, str]]] = field(default_factory=list)
    looks: list[Any] = field(default_factory=list)
    looks_fail: bool = False
    faults: list[str] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        """The settings of a service that has this provider in both regions."""
        return {
            "SERVICE_PROVIDER_CLIENT_ID": self.client_id,
            "SERVICE_PROVIDER_OAUTH_URL": self.url,
            "SERVICE_PROVIDER_US_URL": f"{self.url}/us",
            "SERVICE_PROVIDER_EU_URL": f"{self.url}/eu",
            "NO_PROXY": "127.0.0.1",
        }

    @property
    def unknown_env(self) -> dict[str, str]:
        """Likewise, for a service whose operator has no client at this provider."""
        return {name: value for name, value in self.env.items() if name != "SERVICE_PROVIDER_CLIENT_ID"}

    def forget(self) -> None:
        """Begin anew."""
        super().forget()
        self.human, self.rest, self.clock_off = "granted", None, 0
        self.looks_fail = False
        for part in (self.events, self.fail, self.tables, self.columns, self.requests, self.looks):
            part.clear()

    def calls(self, path: str) -> list[Any]:
        """Bodies of the requests to a path, in whatever region."""
        return [body for where, body, _ in self.requests if where == path]

    def answer(
        self, method: str, path: str, query: dict[str, str], body: Any, headers: dict[str, str]
    ) -> tuple[int, Any]:
        """Answer one request; `path` is without its region."""
        with self.lock:
            if is_look(body):
                self.looks.append(body["query"])
            else:
                self.requests.append((path, body, headers))
            if (method, path) == ("POST", BATCH):
                return self.receive(body)
            if method in {"GET", "POST"} and (told := self.answer_oauth(path, body, headers)) is not None:
                return told
            if path.startswith("/api/"):
                if self.grant_of(headers) is None:
                    return 401, {"type": "authentication_error", "code": "authentication_failed", "detail": "Invalid."}
                self.faults += faults_of(Asked(method, path, query, None if method == "GET" else body, headers))
                if self.rest is not None and (told := self.rest(self, method, path, query, body, headers)) is not None:
                    return told
                if method == "POST" and path.endswith("/query/"):
                    return self.answer_query(body)
            return 404, {"type": "invalid_request", "code": "not_found", "detail": "Not found."}


def is_look(body: Any) -> bool:
    """Whether a request asks about exceptions as a worker does."""
    query = body.get("query") if isinstance(body, dict) else None
    return isinstance(query, dict) and "event = '$exception'" in str(query.get("query"))


@contextmanager
def running_provider() -> Iterator[FakeProvider]:
    """Run a provider on loopback for a block."""
    provider = FakeProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            if parts.path != AUTHORIZE:
                self.serve("GET", {})
                return
            try:
                where = provider.authorize(query, provider.human)
            except Unauthorizable as error:
                self.reply(400, json.dumps({"error": "invalid_request", "error_description": str(error)}).encode())
                return
            self.reply(302, b"", {"location": where})

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            if self.headers.get("content-encoding") == "gzip":
                raw = gzip.decompress(raw)
            if self.headers.get("content-type", "").startswith("application/json"):
                self.serve("POST", json.loads(raw))
            else:
                self.serve("POST", {name: values[0] for name, values in parse_qs(raw.decode()).items()})

        def do_PATCH(self) -> None:
            self.serve("PATCH", json.loads(self.rfile.read(int(self.headers.get("content-length", 0)))))

        def serve(self, method: str, body: Any) -> None:
            parts = urlsplit(self.path)
            path = parts.path.removeprefix("/us").removeprefix("/eu")
            misbehave = next((do for where, do in provider.fail.items() if path.startswith(where)), None)
            if is_look(body) and not provider.looks_fail:
                misbehave = None
            self.asked = body
            if callable(misbehave):
                if misbehave(self) is not GO_ON:
                    return
                misbehave = None
            query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, answer = provider.answer(method, path, query, body, headers)
            if misbehave is not None:
                status, answer = misbehave, {"detail": "as the test wishes"}
            self.reply(status, json.dumps(answer).encode())

        def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert provider.faults == [], provider.faults
