"""Malformed bodies and heads on every route: refused in an envelope, never a 5xx, nothing recorded (P18, threat 19)."""

from __future__ import annotations

import gzip
import json
import re
import socket
import time
from collections.abc import Iterator

import msgspec
import psycopg
import pytest

from schemas.kernel.errors import ClosedErrorEnvelope, ErrorEnvelope
from schemas.mcp import McpRefusal
from service.http.declare.bound import Bound
from service.http.edge.routes import all_endpoints, bind
from tests.e2e.callers import Callers, make_callers
from tests.support.server import ServerHandle

JSON = "application/json"
ROUTES = [bound for bound in bind(all_endpoints()) if bound.reads_body]

# Never acceptable, whatever the operation takes.
BODIES: list[bytes] = [
    b"{",
    b"}",
    b"[]",
    b"[",
    b"null",
    b"true",
    b"0",
    b'"text"',
    b"{} {}",
    b"{}\x00",
    b"{}x",
    b"\xef\xbb\xbf{}",
    b"\xff\xfe{\x00}\x00",
    b"{'a':1}",
    b"{a:1}",
    b'{"a":}',
    b'{"a":1,}',
    b'{,"a":1}',
    b'{"a" 1}',
    b'{"a":01}',
    b'{"a":+1}',
    b'{"a":.5}',
    b'{"a":1.}',
    b'{"a":NaN}',
    b'{"a":Infinity}',
    b'{"a":1e400}',
    b'{"a":-1e400}',
    b'{"a":9007199254740992}',
    b'{"a":-9007199254740992}',
    b'{"a":' + b"9" * 5000 + b"}",
    b'{"a":1,"a":2}',
    b'{"a":{"b":1,"\\u0062":2}}',
    b'{"a":"\\u0000"}',
    b'{"\\u0000":1}',
    b'{"a":"\x00"}',
    b'{"a":"\x01"}',
    b'{"a":"\n"}',
    b'{"a":"\xff"}',
    b'{"\xff":1}',
    b'{"a":"\xc0\x80"}',
    b'{"a":"\xed\xa0\x80"}',
    b'{"a":"\\ud800"}',
    b'{"a":"\\udc00\\ud800"}',
    b'{"a":"\\x41"}',
    b'{"a":"\\u12"}',
    b'{"a":"unterminated',
    b'{"a":' * 65 + b"1" + b"}" * 65,
    b'{"a":' + b"[" * 70 + b"]" * 70 + b"}",
    b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}",
    b"[" * 3000,
    b"/**/{}",
    b"\x0b{}",
    b"undefined",
    b"<a/>",
    b"a=1&b=2",
    gzip.compress(b"{}", mtime=0),
]
HEADERS: list[tuple[dict[str, str], bytes]] = [
    ({}, b"{}"),
    ({"content-type": "application/x-www-form-urlencoded"}, b"{}"),
    ({"content-type": "multipart/form-data; boundary=x"}, b"{}"),
    ({"content-type": "application/json; charset=utf-16"}, b"{}"),
    ({"content-type": "application/json, application/json"}, b"{}"),
    ({"content-type": JSON, "content-encoding": "gzip"}, gzip.compress(b"{}", mtime=0)),
    ({"content-type": JSON, "content-encoding": "gzip"}, b"{}"),
]


@pytest.fixture(scope="module")
def callers(server: ServerHandle) -> Callers:
    return make_callers(server)


@pytest.fixture(autouse=True)
def nothing_recorded(server: ServerHandle, callers: Callers) -> Iterator[None]:
    """No request of a test here may leave an event."""
    before = event_count(server)
    yield
    assert event_count(server) == before


def event_count(server: ServerHandle) -> int:
    assert server.database_url is not None
    with psycopg.connect(server.database_url) as connection:
        [[count]] = connection.execute("select count(*) from events").fetchall()
    return int(count)


def sendable(bound: Bound) -> bool:
    """Bodies that are read as they come are judged by their handler, not by the gate."""
    return bound.takes_body and not bound.raw_body


# What SDKs send is no JSON of ours, and its oddities are adjusted: their own tests are hostile to them.
@pytest.mark.parametrize("bound", [bound for bound in ROUTES if not bound.operation.sdk], ids=lambda bound: bound.name)
def test_malformed_bodies(server: ServerHandle, callers: Callers, bound: Bound) -> None:
    """Each body of the corpus on this route, announced and chunked, with a caller that the route admits.

    Whoever sends a body that is refused is shown the schema of this operation (R-ERR-16).
    """
    operation = bound.operation
    path = callers.path_of(operation)
    headers = {"idempotency-key": "malformed", "if-match": '"none"'}
    envelope = ClosedErrorEnvelope if operation.common.closed_errors else ErrorEnvelope
    shown = msgspec.json.decode(msgspec.json.encode(bound.body_schema))
    with server.client(callers.for_operation(operation)) as client:
        for number, body in enumerate(BODIES):
            content = body if number % 2 else iter([body[:3], body[3:]])
            answer = client.request(operation.method, path, content=content, headers={**headers, "content-type": JSON})
            context = (body[:60], answer.status_code, answer.text[:200])
            assert 400 <= answer.status_code < 500, context
            assert answer.headers["x-service-request-id"], context
            if operation.docs.refuses:
                assert msgspec.json.decode(answer.content, type=McpRefusal).error.code < 0, context
                continue
            error = msgspec.json.decode(answer.content, type=envelope).error
            if sendable(bound) and answer.status_code == 400:
                batch = operation.body.forms and body.startswith(b"[")
                assert error.code == "invalid_payload", context
                assert isinstance(error.details, dict)
                schema = error.details["request_body_schema"]
                assert (schema["items"] if batch else schema) == shown, context


@pytest.mark.parametrize("bound", [bound for bound in ROUTES if sendable(bound)], ids=lambda bound: bound.name)
def test_media_types(server: ServerHandle, callers: Callers, bound: Bound) -> None:
    """A body that by its headers is not plain JSON is 415, or refused earlier."""
    operation = bound.operation
    path = callers.path_of(operation)
    with server.client(callers.for_operation(operation)) as client:
        for headers, body in HEADERS:
            answer = client.request(
                operation.method, path, content=body, headers={"idempotency-key": "media", **headers}
            )
            # Where a content coding is taken, what is wrong is what comes out.
            refused = 400 if operation.body.unpacked and "content-encoding" in headers else 415
            assert answer.status_code in {403, 404, refused}, (headers, answer.text)


@pytest.mark.parametrize("bound", ROUTES, ids=lambda bound: bound.name)
def test_one_byte_too_many(server: ServerHandle, callers: Callers, bound: Bound) -> None:
    """One byte over the limit is 413: announced, without a credential too; in chunks, for who has one (R-LIM-02)."""
    operation = bound.operation
    body = b" " * (operation.body.max_body + 1)
    # Of what may be a batch, the first bytes tell, which are not read of who has no credential.
    most = max(operation.body.max_body, *(form.max_body for form in operation.body.forms), 0)
    for content, secret in ((b" " * (most + 1), None), (iter([body[:1], body[1:]]), callers.for_operation(operation))):
        with server.client(secret) as client:
            answer = client.request(
                operation.method,
                callers.path_of(operation),
                content=content,
                headers={"content-type": "application/x-dmp" if bound.name == "record_minidump" else JSON},
            )
        if secret is not None and answer.status_code in {403, 404, *([400] if operation.body.streams else [])}:
            continue  # an object that is not there comes before the body, which is not read then
        assert answer.status_code == 413, answer.text
        assert answer.json()["error"]["details"] == {"max_bytes": operation.body.max_body}


def exchange(server: ServerHandle, raw: bytes, *more: bytes, ended: bool = False, pause: float = 0.1) -> bytes:
    """Send bytes as they are and read one answer, at most three seconds; `ended` closes the sending side first."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=3) as connection:
        connection.sendall(raw)
        for part in more:
            time.sleep(pause)
            connection.sendall(part)
        if ended:
            connection.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
            head_bytes, _, body = received.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head_bytes)
            if length and len(body) >= int(length[1]):
                break
        return received


def head(*lines: str) -> bytes:
    first = ["POST /v1/projects HTTP/1.1", "Host: x", f"Content-Type: {JSON}"]
    return "\r\n".join([*first, *lines, "", ""]).encode("latin-1")


@pytest.mark.parametrize(
    "request_bytes",
    [
        head("Content-Length: 10") + b"{}",
        head("Transfer-Encoding: chunked") + b"2\r\n{}",
        b"\x00\x01\x02",
        b"GET /",
    ],
)
def test_requests_that_break_off(server: ServerHandle, request_bytes: bytes) -> None:
    """A client that disconnects in the middle of a request is not waited for."""
    started = time.perf_counter()
    assert not exchange(server, request_bytes, ended=True).startswith((b"HTTP/1.1 2", b"HTTP/1.1 5"))
    assert time.perf_counter() - started < 2


@pytest.mark.parametrize(
    "request_bytes",
    [
        head("Content-Length: 2", "Content-Length: 3") + b"{}",
        head("Content-Length: -1") + b"{}",
        head("Content-Length: 2x") + b"{}",
        head("Content-Length: 99999999999999999999") + b"{}",
        head("Transfer-Encoding: chunked") + b"zz\r\n{}\r\n0\r\n\r\n",
        head("Transfer-Encoding: gzip") + b"{}",
        head("Content-Length: 2", "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n",
        head("Content-Length: 2", "Content-Type: text/plain") + b"{}",
        head("Content-Length: 2", "Authorization: Bearer a", "Authorization: Bearer b") + b"{}",
        head("Content-Length: 2", "X-Filler: " + "a" * 70_000) + b"{}",
        head("Content-Length: 2", "X-Bad\x01: a") + b"{}",
        head("Content-Length: 2", "X-Bad : a") + b"{}",
        b"POST /v1/projects HTTP/9.9\r\nHost: x\r\n\r\n",
        b"POST http://[ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
        b"GET /\r\n\r\n",
    ],
)
def test_malformed_heads(server: ServerHandle, request_bytes: bytes) -> None:
    """Whatever is wrong with the head, the answer is a 4xx or a closed connection, at once."""
    started = time.perf_counter()
    received = exchange(server, request_bytes)
    assert time.perf_counter() - started < 2
    assert received.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")) or b"GET / HTTP/1.1" in request_bytes, received[:300]


def test_a_body_in_pieces_is_one_body(server: ServerHandle, callers: Callers) -> None:
    """Chunks may cut anywhere, also within a character and an escape."""
    body = json.dumps({"name": "é\\u00e9" * 300}).encode()
    lines = ["Transfer-Encoding: chunked", f"Authorization: Bearer {callers.secrets['owner']}"]
    pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    received = exchange(server, head(*lines), chunks[:500], chunks[500:] + b"0\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 400"), received[:200]
    assert b'"field":"name"' in received
