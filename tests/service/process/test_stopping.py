"""SIGTERM under load loses no request: what arrived is answered, and its sender is told to close."""

from __future__ import annotations

import signal
import socket
import threading
import time
from contextlib import suppress

import pytest

from tests.service.process.rawhttp import answer, connections, request
from tests.support.accounts import create_project, sign_in
from tests.support.server import ServerFactory, ServerHandle

SENDERS = 12
FIRST = 200  # records that are answered before the end


def dsn_of(server: ServerHandle) -> str:
    with server.client() as client:
        return str(create_project(client, sign_in(client, server.internal_token))["dsn"])


def record(dsn: str) -> bytes:
    return request("/v1/logs/", {"level": "error", "message": "under load"}, authorization=f"Bearer {dsn}")


def terminate(server: ServerHandle) -> None:
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)


def test_a_request_that_arrives_while_the_service_ends_is_answered(server_factory: ServerFactory) -> None:
    """On connections that were idle when the signal came: each is answered and told to close; no new one begins."""
    server = server_factory()
    sent = record(dsn_of(server))
    with connections(server.port, 20) as kept:
        for connection in kept:
            connection.sendall(sent)
            assert answer(connection)[0] == 202
        terminate(server)
        time.sleep(0.1)
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", server.port), timeout=0.05)
        for connection in kept:
            connection.sendall(sent)
        for connection in kept:
            status, head = answer(connection)
            assert (status, b"\r\nconnection: close" in head) == (202, True)
            assert connection.recv(1) == b""
    server.stop()


class Sender(threading.Thread):
    """Sends one record after the other, on one connection or on a new one each time, until told to close."""

    def __init__(self, port: int, sent: bytes, *, kept: bool) -> None:
        super().__init__()
        self._address = ("127.0.0.1", port)
        self._sent = sent
        self._kept = kept
        self.answered = 0
        self.lost: list[str] = []

    def run(self) -> None:
        with suppress(OSError):  # nobody listens any more
            while not self.lost:
                with socket.create_connection(self._address, timeout=2) as connection:
                    self._use(connection)

    def _use(self, connection: socket.socket) -> None:
        while True:
            try:
                connection.sendall(self._sent)
                status, head = answer(connection)
            except OSError as error:
                self.lost.append(f"{type(error).__name__} after {self.answered}")
                return
            if status != 202:
                self.lost.append(f"{status} after {self.answered}")
                return
            self.answered += 1
            if not self._kept or b"\r\nconnection: close" in head:
                return


@pytest.mark.parametrize("workers", [1, 2])
def test_no_request_under_load_is_lost(server_factory: ServerFactory, workers: int) -> None:
    """Half of the senders keep their connection, half open one for each record: every one that was sent is answered."""
    server = server_factory(env={"SERVICE_WORKERS": str(workers)})
    sent = record(dsn_of(server))
    senders = [Sender(server.port, sent, kept=number % 2 == 0) for number in range(SENDERS)]
    for sender in senders:
        sender.start()
    while sum(sender.answered for sender in senders) < FIRST and any(sender.is_alive() for sender in senders):
        time.sleep(0.01)
    terminate(server)
    for sender in senders:
        sender.join()
    assert [sender.lost for sender in senders if sender.lost] == []
    assert server.stop() < 3
