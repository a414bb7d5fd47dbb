"""A TLS front before a real server: it passes requests on, or refuses those of a DSN with 429 as the service does."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import trustme

FOREVER = 1_000_000
HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "date", "server"}
REFUSAL = {"error": {"code": "rate_limited", "message": "Too many requests.", "retryable": True}}


class Post(NamedTuple):
    """A report as it came: path without the query, key, sender, status of its answer (0: none), time, and JSON."""

    path: str
    key: str | None
    agent: str
    status: int
    at: float
    body: Any


class Answer(NamedTuple):
    """An answer as a whole."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Front:
    """A running front. `refusals` are those still to come for a DSN, each with `retry_after` seconds.

    The POSTs of `silent` DSNs get no answer.
    """

    port: int
    ca: Path
    spki: str
    upstream: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    retry_after: dict[str, str] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    over: threading.Event = field(default_factory=threading.Event)
    posts: dict[str, list[Post]] = field(default_factory=lambda: defaultdict(list))
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def base_url(self) -> str:
        """What the service behind calls itself."""
        return f"https://localhost:{self.port}"

    def refuse(self, dsn: str, times: int = FOREVER, after: str = "1") -> None:
        """Answer the next POSTs of a DSN with 429, and these seconds in Retry-After."""
        with self.lock:
            self.refusals[dsn], self.retry_after[dsn] = times, after

    def refuses(self, dsn: str) -> bool:
        """Whether the POST that has just come is to be refused; counts it."""
        with self.lock:
            if self.refusals[dsn] <= 0:
                return False
            self.refusals[dsn] -= 1
            return True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    front: Front

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        dsn = self._dsn()
        if dsn in self.front.silent:
            self._note(dsn, 0, body)
            self.front.over.wait()
            return
        if self.front.refuses(dsn):
            answer = Answer(429, self._refusal_headers(dsn), json.dumps(REFUSAL).encode())
        else:
            answer = self._answer_behind(body)
        self._note(dsn, answer.status, body)
        self._answer(answer)

    def do_OPTIONS(self) -> None:
        self._answer(self._answer_behind(b""))

    def do_GET(self) -> None:
        self._answer(self._answer_behind(b""))

    def log_message(self, *_: object) -> None:
        """Say nothing: the server behind has a log."""

    def _dsn(self) -> str:
        """The DSN of a request, in any of its three places."""
        presented = self.headers.get("x-service-dsn") or self.headers.get("authorization", "")[len("Bearer ") :]
        return presented or parse_qs(urlsplit(self.path).query).get("dsn", [""])[0]

    def _note(self, dsn: str, status: int, body: bytes) -> None:
        """Keep a POST, before its sender has the answer: a program that has ended has all of its own here."""
        key, agent = self.headers.get("idempotency-key"), self.headers.get("user-agent", "")
        with self.front.lock:
            post = Post(urlsplit(self.path).path, key, agent, status, time.monotonic(), json.loads(body))
            self.front.posts[dsn].append(post)

    def _refusal_headers(self, dsn: str) -> dict[str, str]:
        return {
            "content-type": "application/json",
            "retry-after": self.front.retry_after[dsn],
            "access-control-allow-origin": "*",
            "access-control-expose-headers": "retry-after",
        }

    def _answer_behind(self, body: bytes) -> Answer:
        """What the server behind answers to this request."""
        behind = http.client.HTTPConnection("127.0.0.1", self.front.upstream, timeout=30)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
            behind.request(self.command, self.path, body or None, headers)
            answer = behind.getresponse()
            said = {name: value for name, value in answer.getheaders() if name.lower() not in HOP}
            return Answer(answer.status, said, answer.read())
        finally:
            behind.close()

    def _answer(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    context: ssl.SSLContext

    def finish_request(self, request: object, client_address: object) -> None:
        """Shake hands in the thread of the connection: a client that trusts nobody must not keep others waiting."""
        try:
            with self.context.wrap_socket(request, server_side=True) as wrapped:  # type: ignore[arg-type]
                super().finish_request(wrapped, client_address)  # type: ignore[arg-type]
        except OSError:
            pass  # the client has left, or does not trust the certificate


@contextmanager
def fronting(folder: Path) -> Iterator[Front]:
    """Listen for a block, with a certificate of an authority that nobody else knows."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    ca = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(ca))
    server = _Server(("127.0.0.1", 0), _Handler)
    server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(server.context)
    front = Front(server.server_address[1], ca, spki_of(certificate))
    server.RequestHandlerClass = type("Handler", (_Handler,), {"front": front})
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield front
    finally:
        front.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def spki_of(certificate: trustme.LeafCert) -> str:
    """The base64 SHA-256 of a certificate's public key, by which Chromium may be told to trust it."""
    import base64
    import hashlib

    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = x509.load_pem_x509_certificate(certificate.cert_chain_pems[0].bytes()).public_key()
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(spki).digest()).decode()
