"""Who has no credential cannot take a process away from those who have one (promise P25)."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

import psutil

from service.process.apiserver import MAX_CONNECTIONS, OWN_FILES
from tests.service.process.rawhttp import answer, connections
from tests.support.accounts import bearer, create_project, sign_in
from tests.support.server import ServerFactory, ServerHandle

IDLE_SECONDS = 3
MIB = 1024 * 1024
GROWTH = 60 * MIB


def serving(server: ServerHandle) -> psutil.Process:
    """The process that answers, where there is one of them."""
    [found] = [process for process in server.processes("service.process.serving") if process.ppid() != server.pid]
    return found


def owner_of(server: ServerHandle) -> tuple[str, str]:
    """The key of a person, and the DSN of their project."""
    with server.client() as client:
        key = sign_in(client, server.internal_token)
        return key, str(create_project(client, key)["dsn"])


def test_strangers_leave_room_for_the_others(server_factory: ServerFactory) -> None:
    """1,500 silent connections stand while owners go on, and are closed in time; 500 unknown bodies weigh nothing."""
    server = server_factory(env={"SERVICE_IDLE_SECONDS": str(IDLE_SECONDS)})
    key, dsn = owner_of(server)
    process = serving(server)
    soft, hard = process.rlimit(psutil.RLIMIT_NOFILE)
    assert soft >= min(hard, MAX_CONNECTIONS + OWN_FILES)  # raised as far as it may be
    before = process.memory_info().rss
    with connections(server.port, 1500) as silent:
        for _ in range(10):
            _turn(server, key, dsn)
        silent[0].sendall(b"GET / HTTP/1.1\r\nhost:")  # half a head is no more than none
        began = time.monotonic()
        for connection in (silent[0], silent[-1]):
            assert connection.recv(1) == b""
        assert time.monotonic() - began < 2 * IDLE_SECONDS

    head = (
        b"POST /v1/projects HTTP/1.1\r\nhost: x\r\nauthorization: Bearer unknown\r\ncontent-type: application/json\r\n"
    )
    with connections(server.port, 500) as strangers:
        for connection in strangers:
            connection.setblocking(False)
            _send(connection, head + b"content-length: %d\r\n\r\n" % MIB + b"x" * (MIB - 1))
        for _ in range(5):
            _turn(server, key, dsn)
        grown = process.memory_info().rss - before
        for connection in strangers:
            connection.settimeout(10)
            assert answer(connection)[0] == 401
    assert grown < GROWTH, f"grew by {grown / MIB:.0f} MiB"


def _send(connection: socket.socket, content: bytes) -> None:
    """Send what the other side takes at once."""
    with suppress(BlockingIOError):
        connection.send(content)


def _turn(server: ServerHandle, key: str, dsn: str) -> None:
    """An owner's read and a product's record, each answered on a connection of its own."""
    with server.client(key) as client:
        client.get("/v1/projects").raise_for_status()
    with server.client() as client:
        client.post(
            "/v1/logs/", json={"level": "error", "message": "still here"}, headers=bearer(dsn)
        ).raise_for_status()
