"""Proxies that lose answers: between a client and PostgreSQL, and between a client and an HTTP server.

The one before PostgreSQL reads the protocol, because the losses that matter happen at COMMIT: the acknowledgement is
eaten after the server has committed, or the commit itself arrives late, when the client has long connected anew.
"""

from __future__ import annotations

import os
import pwd
import random
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path
from urllib.parse import quote, unquote

from tests.support.proxywire import Frames, commit_tag, is_committed, is_end_of_request

CHUNK = 1 << 16


class Fault(Enum):
    """Faults of one COMMIT."""

    EAT = "eaten"  # the server commits; its answer and the connection are dropped
    ZOMBIE = "zombie"  # the client's connection is dropped; the server gets the COMMIT later


class _Link:
    """A client's connection and its connection to the server."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.eaten: bytes | None = None  # the tag of the answer to drop
        self.late: bytes | None = None  # the tag of the answer that a dropped client does not receive
        self.answered = threading.Event()

    def drop(self) -> None:
        for side in (self.client, self.server):
            drop(side)


def drop(side: socket.socket) -> None:
    """End a connection at once, even while a thread reads from it."""
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
    side.close()


class Proxy:
    """Accepts connections and pumps bytes both ways, each way in a thread."""

    def __init__(self) -> None:
        self.fired: Counter[str] = Counter()
        self._links: set[_Link] = set()
        self._lock = threading.Lock()
        self._flowing = threading.Event()
        self._flowing.set()
        self._listener = self.listen()
        self._closed = False
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def listen(self) -> socket.socket:
        raise NotImplementedError

    def dial(self) -> socket.socket:
        raise NotImplementedError

    def pump_up(self, link: _Link) -> None:
        """Forward the client's bytes."""
        raise NotImplementedError

    def pump_down(self, link: _Link) -> None:
        """Forward the server's bytes."""
        raise NotImplementedError

    def cut(self) -> int:
        """Drop every open connection; returns how many."""
        with self._lock:
            links, self._links = self._links, set()
        for link in links:
            link.drop()
        self.fired["cut"] += len(links)
        return len(links)

    def freeze(self) -> None:
        """Forward nothing any more, and close nothing: a silent peer."""
        self.fired["freeze"] += 1
        self._flowing.clear()

    def thaw(self) -> None:
        """Forward again."""
        self._flowing.set()

    def close(self) -> None:
        """Stop accepting, and drop what is open."""
        self._closed = True
        drop(self._listener)
        self.thaw()
        self.cut()
        self._acceptor.join(5)

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = self.dial()
            except OSError:
                client.close()
                continue
            link = _Link(client, server)
            with self._lock:
                self._links.add(link)
            for pump in (self.pump_up, self.pump_down):
                threading.Thread(target=self._pump, args=(pump, link), daemon=True).start()

    def _pump(self, pump: Callable[[_Link], None], link: _Link) -> None:
        with suppress(OSError):
            pump(link)
        with self._lock:
            self._links.discard(link)
        link.drop()

    def _read(self, side: socket.socket) -> Iterator[bytes]:
        while data := side.recv(CHUNK):
            self._flowing.wait()
            yield data


class PostgresProxy(Proxy):
    """In front of a PostgreSQL socket. `choose` is asked once for each COMMIT: a fault, or None to let it pass."""

    def __init__(
        self, url: str, directory: Path, choose: Callable[[], Fault | None] = lambda: None, delay: float = 0.05
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        host = url.partition("host=")[2].partition("&")[0]
        self._upstream = str(Path(unquote(host)) / ".s.PGSQL.5432")
        self._path = directory / ".s.PGSQL.5432"
        ours = re.sub("requirepeer=[^&]*", f"requirepeer={pwd.getpwuid(os.geteuid()).pw_name}", url)
        self.url = ours.replace(f"host={host}", f"host={quote(str(directory), safe='')}")
        self.choose = choose
        self.delay = delay
        super().__init__()

    def listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._path))
        listener.listen(64)
        return listener

    def dial(self) -> socket.socket:
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._upstream)
        return server

    def pump_up(self, link: _Link) -> None:
        frames, prepared = Frames(typed=False), dict[bytes, bytes]()
        for data in self._read(link.client):
            out = bytearray()
            for frame in frames.feed(data):
                if (tag := commit_tag(frame, prepared)) is not None:
                    fault = self.choose()
                    if fault is Fault.ZOMBIE:
                        link.server.sendall(out)
                        link.late = tag
                        self._send_late(link, frame, frames)
                        return
                    if fault is Fault.EAT:
                        link.eaten = tag
                out += frame
            link.server.sendall(out)

    def _send_late(self, link: _Link, commit: bytes, frames: Frames) -> None:
        """Drop the client, and give the server its COMMIT after the delay."""
        rest = bytearray(commit)
        while not is_end_of_request(commit):  # Up to Sync: only then does the server carry out what it was sent.
            commit = frames.take() or b""
            rest += commit
            if not commit:
                if not (data := link.client.recv(CHUNK)):
                    return
                frames.push(data)
        drop(link.client)
        time.sleep(random.uniform(0.2, 1.0) * self.delay)
        self.fired[Fault.ZOMBIE.value] += 1
        link.server.sendall(rest)
        link.answered.wait(2)

    def pump_down(self, link: _Link) -> None:
        frames = Frames(typed=True)
        for data in self._read(link.server):
            out = bytearray()
            for frame in frames.feed(data):
                if is_committed(frame, link.late):
                    link.answered.set()
                elif is_committed(frame, link.eaten):
                    self.fired[Fault.EAT.value] += 1
                    return
                out += frame
            with suppress(OSError):  # A dropped client must not end a zombie.
                link.client.sendall(out)


class HttpProxy(Proxy):
    """In front of an HTTP/1.1 server. `choose` is asked for each answer, by its request's first line: eat it or not."""

    def __init__(self, host: str, port: int, choose: Callable[[bytes], bool] = lambda _: False) -> None:
        self._upstream = (host, port)
        self.choose = choose
        super().__init__()
        self.base_url = "http://{}:{}".format(*self._listener.getsockname()[:2])
        self._asked: dict[_Link, bytes] = {}

    def listen(self) -> socket.socket:
        return socket.create_server(("127.0.0.1", 0))

    def dial(self) -> socket.socket:
        return socket.create_connection(self._upstream, timeout=None)

    def pump_up(self, link: _Link) -> None:
        for data in self._read(link.client):
            first, separator, _ = data.partition(b"\r\n")
            if separator and first.endswith(b"HTTP/1.1"):
                self._asked[link] = first
            link.server.sendall(data)

    def pump_down(self, link: _Link) -> None:
        for data in self._read(link.server):
            if data.startswith(b"HTTP/1.") and self.choose(self._asked.get(link, b"")):
                self.fired[Fault.EAT.value] += 1
                return
            link.client.sendall(data)


def with_odds(odds: dict[Fault, float], seed: int | None = None) -> Callable[[], Fault | None]:
    """Choose faults at random, each with its probability."""
    dice = random.Random(seed)

    def choose() -> Fault | None:
        thrown = dice.random()
        for fault, share in odds.items():
            thrown -= share
            if thrown < 0:
                return fault
        return None

    return choose


def in_order(*faults: Fault | None) -> Callable[[], Fault | None]:
    """Choose these for the next commits, one each, then none."""
    left = list(faults)
    return lambda: left.pop(0) if left else None
