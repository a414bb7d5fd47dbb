"""The kernel does for a listening socket what it is asked for."""

from __future__ import annotations

import platform
import socket
from collections.abc import Iterator

import pytest

from service.process.apiserver import (
    MAX_CONNECTIONS,
    OWN_FILES,
    STALLED_SECONDS,
    drop_stalled,
    most_connections,
    take_no_more,
)

linux = pytest.mark.skipif(platform.system() != "Linux", reason="the packet filter is Linux's")


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


@linux
def test_a_socket_that_takes_no_more_keeps_what_it_has(listening: socket.socket) -> None:
    """A connection that waited in the queue is accepted and carries data both ways; no further one begins."""
    address = listening.getsockname()
    with socket.create_connection(address, timeout=2) as waiting:
        waiting.sendall(b"sent")
        take_no_more(listening)
        with pytest.raises(TimeoutError):
            socket.create_connection(address, timeout=0.2)
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.recv(4) == b"sent"
            accepted.sendall(b"back")
            assert waiting.recv(4) == b"back"


@linux
def test_accepted_connections_end_when_nothing_is_taken(listening: socket.socket) -> None:
    """The kernel's bound on what was sent and not acknowledged is that of the listening socket, in milliseconds."""
    drop_stalled(listening)
    with socket.create_connection(listening.getsockname(), timeout=2):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == STALLED_SECONDS * 1000


def test_connections_are_bounded_by_open_files() -> None:
    """Descriptors are left for the database and for providers; a very small limit still serves somebody."""
    assert most_connections(1024) == 1024 - OWN_FILES
    assert most_connections(1_000_000) == MAX_CONNECTIONS
    assert most_connections(64) == OWN_FILES
