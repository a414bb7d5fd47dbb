"""Links between hosts that can be cut: a cut link loses what is sent and closes nothing, as a broken network does."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress

from tests.support.server import free_port

CHUNK = 1 << 16
LOOK_SECONDS = 0.5


class Link:
    """One address that leads to another one on loopback, while it is whole.

    A cut link still accepts, and passes nothing on. Mended, it closes what it had open: whoever waited starts anew.
    """

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._whole = threading.Event()
        self._whole.set()
        self._ended = False
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Pass nothing on from now."""
        self._whole.clear()

    def mend(self) -> None:
        """Pass everything on again, over new connections alone."""
        self._close_all()
        self._whole.set()

    def close(self) -> None:
        """End the link for good."""
        self._ended = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._close_all()

    def _close_all(self) -> None:
        with self._lock:
            left, self._open = self._open, set()
        for one in left:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._ended:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        """Carry one connection until an end closes it."""
        with near, socket.socket() as far:
            with self._lock:
                self._open |= {near, far}
            try:
                if self._whole.is_set():
                    far.connect(("127.0.0.1", self._target))
                    self._pass_on(near, far)
                else:
                    self._swallow(near)
            except OSError:
                pass
            finally:
                with self._lock:
                    self._open -= {near, far}

    def _pass_on(self, near: socket.socket, far: socket.socket) -> None:
        other = {near: far, far: near}
        with selectors.DefaultSelector() as ready:
            for one in other:
                ready.register(one, selectors.EVENT_READ)
            while not self._ended:
                for key, _ in ready.select(LOOK_SECONDS):
                    one = key.fileobj
                    assert isinstance(one, socket.socket)
                    if not (data := one.recv(CHUNK)):
                        if not self._whole.is_set():  # the end of a connection does not cross a cut either
                            self._swallow(other[one])
                        return
                    if self._whole.is_set():
                        other[one].sendall(data)

    def _swallow(self, end: socket.socket) -> None:
        """Read until the other side gives up, or the mended link closes it."""
        while end.recv(CHUNK):
            pass
