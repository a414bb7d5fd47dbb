"""The reverse-proxy configuration, run by nginx in front of a real server."""

import datetime as dt
import hashlib
import random
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from schemas.kernel.shape import MOST_SECONDS
from service.http.edge.routes import all_endpoints, bind
from tests.deploy.programs import program
from tests.support import seen
from tests.support.accounts import create_project, sign_in
from tests.support.server import ServerHandle, free_port

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"


def write_certificate(directory: Path) -> None:
    """A key and a certificate of its own for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    (directory / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (directory / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


@pytest.fixture(scope="module")
def proxied(server: ServerHandle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """A client that reaches the session's server through nginx, with TLS."""
    nginx = program("nginx", "nginx-light")
    directory = tmp_path_factory.mktemp("nginx")
    write_certificate(directory)
    plain, secure = free_port(), free_port()
    text = CONFIGURATION.read_text()
    for pattern, replacement in {
        r"listen 80;": f"listen 127.0.0.1:{plain};",
        r"listen 443 ssl": f"listen 127.0.0.1:{secure} ssl",
        r"server 127\.0\.0\.1:8000;": f"server 127.0.0.1:{server.port};",
        r"/etc/service/tls": str(directory),
    }.items():
        text, count = re.subn(pattern, replacement, text)
        assert count, f"{pattern} is not in the configuration"
    lines = [f"pid {directory}/pid;", f"error_log {directory}/error.log;", "daemon off;"]
    here = "".join(f"{line}\n" for line in lines)
    (directory / "nginx.conf").write_text(here + text)
    process = subprocess.Popen([nginx, "-p", str(directory), "-c", str(directory / "nginx.conf")])
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with seen.client(f"https://127.0.0.1:{secure}", verify=context, timeout=20) as client:
        for _ in range(200):
            with suppress(httpx2.HTTPError):
                client.get("/health/live")
                break
            time.sleep(0.02)
        yield client
    process.terminate()
    process.wait(timeout=10)


def test_the_interface_is_whole_behind_it(server: ServerHandle, proxied: httpx2.Client) -> None:
    """A project is made through the proxy; paths reach the service as they were sent."""
    key = sign_in(proxied, server.internal_token, "proxied")
    project = create_project(proxied, key)
    assert proxied.get(f"/v1/projects/{project['id']}/cases", headers={"authorization": f"Bearer {key}"}).is_success
    for path in "//v1/projects", "/v1/projects/%2e%2e/projects":
        answer = proxied.get(path, headers={"authorization": f"Bearer {key}"})
        with server.client(key) as direct:
            straight = direct.get(path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (
            straight.status_code,
            straight.json()["error"]["code"],
        )


def test_what_it_keeps_away(proxied: httpx2.Client) -> None:
    """Bodies beyond every limit never reach the service; metrics are not for the outside."""
    large = proxied.post("/v1/projects", content=b"x" * (3 << 20))
    assert (large.status_code, "x-service-request-id" in large.headers) == (413, False)
    assert proxied.get("/metrics").status_code == 404


UPLOADS = re.compile(r"location ~ (\S+) \{\s+client_max_body_size (\d+);\s+proxy_pass http://service;\s+\}")


def test_only_uploads_are_larger_and_as_large_as_the_service_takes_them() -> None:
    """Every operation whose body may be larger than others' has a location with its limit, and nothing else has one."""
    text = CONFIGURATION.read_text()
    limits = {pattern: int(limit) for pattern, limit in UPLOADS.findall(text)}
    assert text.count("client_max_body_size") == 1 + len(limits)
    operations = [bound.operation for bound in bind(all_endpoints())]
    larger = {
        re.sub(r"\{\w+\}", "any", one.path): one.body.max_body for one in operations if one.body.max_body > 2 << 20
    }
    for path in {re.sub(r"\{\w+\}", "any", one.path) for one in operations}:
        found = [limit for pattern, limit in limits.items() if re.search(pattern, path)]
        assert found == ([larger[path]] if path in larger else []), path


WAITS = re.compile(r"location ~ (\S+) \{\s+proxy_read_timeout (\d+)s;\s+proxy_pass http://service;\s+\}")


def test_it_waits_for_what_may_wait_and_for_a_little_longer() -> None:
    """Every operation that may wait for a minute has a location that lets it, and hardly any other."""
    [(pattern, seconds)] = WAITS.findall(CONFIGURATION.read_text())
    assert int(seconds) > MOST_SECONDS
    everything = bind(all_endpoints())
    waiting = {re.sub(r"\{\w+\}", "any", bound.operation.path) for bound in everything if bound.waits}
    paths = {re.sub(r"\{\w+\}", "any", bound.operation.path) for bound in everything}
    assert {path for path in paths if re.search(pattern, path)} == waiting


def test_streams_are_not_buffered(server: ServerHandle, proxied: httpx2.Client) -> None:
    """The first event comes through while the stream goes on; every operation that streams has the location."""
    [pattern] = re.findall(r"location ~ (\S+) \{\s+proxy_buffering off;", CONFIGURATION.read_text())
    operations = [bound.operation for bound in bind(all_endpoints())]
    found = {one.operation_id for one in operations if re.search(pattern, re.sub(r"\{\w+\}", "any", one.path))}
    assert found == {"get_project_archive", "list_events", "list_stream_events"}
    key = sign_in(proxied, server.internal_token, "following")
    project = create_project(proxied, key)
    headers = {"authorization": f"Bearer {key}", "accept": "text/event-stream"}
    with proxied.stream("GET", f"/v1/projects/{project['id']}/events", headers=headers) as answer:
        assert next(line for line in answer.iter_lines() if line.startswith("event: ")) == "event: project.created.v1"


def test_uploads_come_through(server: ServerHandle, proxied: httpx2.Client) -> None:
    """A source map and parts of a bundle, of several megabytes each; what is too large goes no further."""
    key = sign_in(proxied, server.internal_token, "uploading")
    project = create_project(proxied, key)
    headers = {"authorization": f"Bearer {key}"}
    path = f"/v1/projects/{project['id']}/source-maps?release=1&source_url=~/a.js&kind=minified_source"
    script = b"f();" * (3 << 18)
    stored = proxied.put(path, content=script, headers=headers)
    assert (stored.status_code, stored.json()["size"]) == (200, len(script))
    refused = proxied.put(path, content=b" " * ((32 << 20) + 1), headers=headers)
    assert (refused.status_code, "x-service-request-id" in refused.headers) == (413, False)
    parts = [random.randbytes(1 << 20) for _ in range(4)]
    files = [("file", (hashlib.sha1(part, usedforsecurity=False).hexdigest(), part)) for part in parts]
    sent = proxied.post("/api/0/organizations/any/chunk-upload/", files=files, headers=headers)
    assert sent.status_code == 200, sent.text


def test_one_address_holds_a_bounded_number_of_connections(proxied: httpx2.Client) -> None:
    """Requests whose bodies do not come hold as many as may be; one more is refused, and welcome once they are gone."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    address = (proxied.base_url.host, proxied.base_url.port)
    with ExitStack() as held:
        slow = []
        for _ in range(64):
            slow.append(held.enter_context(context.wrap_socket(socket.create_connection(address, timeout=10))))
            slow[-1].sendall(b"POST /v1/projects HTTP/1.1\r\nhost: here\r\ncontent-length: 9999\r\n\r\n{")
        give_up = time.monotonic() + 30
        while proxied.get("/health/live").status_code != 429:
            assert time.monotonic() < give_up
            for connection in slow:  # a body that stands still for ten seconds ends its connection
                connection.sendall(b" ")
            time.sleep(0.02)
    give_up = time.monotonic() + 30
    while proxied.get("/health/live").status_code != 200:
        assert time.monotonic() < give_up
        time.sleep(0.02)
