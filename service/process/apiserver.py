"""granian's server with three changes.

One listening socket for all processes, unlimited replacement of processes, and an end that loses no connection. What is
overridden here is internal to granian, whose version is pinned; tests/faults/test_restarts.py kills the processes and
covers all of it.
"""

from __future__ import annotations

import socket
import time
from typing import Any

import structlog
from granian.net import SocketSpec  # type: ignore[attr-defined] # not marked as exported
from granian.server import MPServer

from service.http.edge.measure.metrics import forget
from service.process.children import Restarts
from service.process.sockets import drop_stalled, take_no_more

log = structlog.get_logger()


class ApiServer(MPServer):
    """Serves until SIGTERM. Hot reload and limits on the life or memory of a process are left out."""

    _shd: Any
    _sso: Any

    def _init_shared_socket(self) -> None:
        """Open the listening socket once; the serving processes inherit it.

        On Linux granian opens one socket per process: when a process dies, the connections it had not accepted
        are reset, and when all have, new ones are refused until one is back. Here they wait in the queue.
        """
        self._shd = SocketSpec(self.bind_addr, self.bind_port, self.backlog).build()
        self._sso = socket.socket(fileno=self._shd.get_fd())
        drop_stalled(self._sso)

    def _drop_shared_socket(self) -> None:
        """Begin the end: take no more connections. The serving processes accept and answer those that are there."""
        take_no_more(self._sso)
        self._sso.close()

    def _serve_loop(self, spawn_target: Any, target_loader: Any) -> None:
        """Replace every process that ends.

        granian's own loop treats the second exit within 5.5 s as a crash loop and gives up, and it misses a process
        that exits while it is busy with another one.
        """
        restarts = [Restarts() for _ in self.wrks]
        due: dict[int, float] = {}  # process -> when to start it (monotonic)
        while not self.interrupt_signal:
            self.main_loop_interrupt.wait(max(0.0, min(due.values()) - time.monotonic()) if due else None)
            self.main_loop_interrupt.clear()  # first, so that every later signal is seen
            while self.interrupt_children:
                number = self.interrupt_children.pop()
                ended, now = self.wrks[number], time.monotonic()
                forget(ended.inner.pid)
                pause = restarts[number].pause(ended.inner.exitcode, now - ended.birth)
                log.error(
                    "api_process_ended", code=ended.inner.exitcode, number=number, restart_in_seconds=round(pause, 2)
                )
                due[number] = now + pause
            for number in [number for number, start in due.items() if start <= time.monotonic()]:
                del due[number]
                self._respawn_workers([number], spawn_target, target_loader)
