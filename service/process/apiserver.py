"""granian's server with four changes.

One listening socket for all processes, unlimited replacement of processes, an end that loses no connection, and the
worker beside the serving processes. The methods overridden here are internal to granian, at a pinned version;
tests/faults/test_restarts.py kills the processes and covers all of them.
"""

from __future__ import annotations

import os
import socket
import time
from functools import partial
from multiprocessing.connection import wait
from typing import Any

import structlog
from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.net import SocketSpec  # type: ignore[attr-defined] # not marked as exported
from granian.server import MPServer
from litestar.types import ASGIApp

from service.console.door import ENDPOINTS
from service.eventstore.connect.connection import COMMITTED, RESENT
from service.http.edge.app import create_app
from service.http.edge.measure.metrics import forget
from service.http.edge.routes import all_endpoints
from service.jobs.declared import declared
from service.logs import configure, stdlib_config
from service.process import worker
from service.process.assembly import make_services
from service.process.children import Restarts, die_with_parent, woken_by_signals
from service.process.draining import Draining
from service.process.forks import ForkedChild
from service.process.sockets import drop_stalled, most_connections, raise_open_files, take_no_more
from service.registry import registry
from service.settings import Settings, load_settings

log = structlog.get_logger()

STOP_SECONDS = 2  # requests in flight get this long when the service stops
WORKER_STOP_SECONDS = 2.3  # the supervisor waits hardly longer
BACKLOG = 4096
BUFFER_BYTES = 64 * 1024  # of one connection: the largest head of a request, and the most of a body that waits


def load() -> ApiServer:
    """Load the modules of all copies of this process, and make the server of its application.

    Raises SettingsError.
    """
    settings = load_settings()
    configure(settings.log_level, "api")
    registry()
    declared()
    COMMITTED.hang()
    RESENT.hang()
    edge = create_app(lambda: make_services(settings), [*all_endpoints(), *ENDPOINTS])
    return ApiServer(settings, Draining(edge, edge.pipeline.end_waits))


class ApiServer(MPServer):
    """Serves until SIGTERM. Hot reload and limits on the life or memory of a process are left out."""

    _shd: Any
    _sso: Any
    _ipc: Any

    def __init__(self, settings: Settings, app: ASGIApp) -> None:
        self._app = app
        self._sso = None
        self._worker = ForkedChild("worker", "service.process.worker", self._work)
        super().__init__(
            "service",
            address=settings.host,
            port=settings.port,
            interface=Interfaces.ASGI,
            workers=settings.workers,
            loop=Loops.uvloop,
            http=HTTPModes.http1,
            websockets=False,
            backlog=BACKLOG,
            backpressure=most_connections(raise_open_files()),
            http1_settings=HTTP1Settings(
                header_read_timeout=settings.idle_seconds * 1000,
                max_buffer_size=BUFFER_BYTES,
            ),
            runtime_blocking_threads=1,
            log_dictconfig=stdlib_config(settings.log_level, "api"),
            workers_kill_timeout=STOP_SECONDS,
        )

    def run(self) -> None:
        """Serve and work until SIGTERM."""
        self.serve(target_loader=partial(self._hand_out, os.getpid()))

    def _hand_out(self, parent: int, _: str) -> ASGIApp:
        """The application, in a process that serves."""
        die_with_parent(parent)
        return self._app

    def _work(self) -> None:
        """Work, in a process of its own. It takes no connection: a later one closes the socket, the first has none."""
        if self._sso is not None:
            self._sso.close()
        worker.main()

    def _init_shared_socket(self) -> None:
        """Open the listening socket once; the serving processes inherit it. The worker is made before there is one.

        On Linux granian opens one socket per process: when a process dies, the connections it had not accepted
        are reset, and when all have, new ones are refused until one is back. Here they wait in the queue.
        """
        self._worker.start()
        self._shd = SocketSpec(self.bind_addr, self.bind_port, self.backlog).build()
        self._sso = socket.socket(fileno=self._shd.get_fd())
        drop_stalled(self._sso)

    def _drop_shared_socket(self) -> None:
        """Begin the end: take no more connections. The serving processes accept and answer those that are there."""
        take_no_more(self._sso)
        self._sso.close()

    def _spawn_worker(self, *args: Any, **kwargs: Any) -> Any:
        """Make a serving process without granian's thread beside it: a process to be copied has one thread."""
        process: Any = super()._spawn_worker(*args, **kwargs)
        process._watch = _no_thread  # noqa: SLF001 - see the head of this file
        return process

    def shutdown(self, exit_code: int = 0) -> None:
        """End all processes, the worker together with the others."""
        self._worker.terminate()
        until = time.monotonic() + WORKER_STOP_SECONDS
        super().shutdown(exit_code)  # type: ignore[no-untyped-call]
        self._worker.finish(until)

    def _serve_loop(self, spawn_target: Any, target_loader: Any) -> None:
        """Replace every process that ends.

        granian's own loop treats the second exit within 5.5 s as a crash loop and gives up, and it misses a process
        that exits while it is busy with another one.
        """
        restarts = [Restarts() for _ in self.wrks]
        due: dict[int, float] = {}  # process -> when to start it (monotonic)
        with woken_by_signals() as wake:
            while not self.interrupt_signal:
                self._note_ended(restarts, due)
                for number in [number for number, start in due.items() if start <= time.monotonic()]:
                    del due[number]
                    self._respawn_workers([number], spawn_target, target_loader)
                starts = [start - time.monotonic() for start in due.values()]
                if (left := self._worker.tend()) is not None:
                    starts.append(left)
                running = [one.inner.sentinel for number, one in enumerate(self.wrks) if number not in due]
                found = wait([wake, *running, *self._worker.sentinels], max(0.0, min(starts)) if starts else None)
                if wake in found:
                    os.read(wake, 1024)

    def _note_ended(self, restarts: list[Restarts], due: dict[int, float]) -> None:
        """Note when to start each ended process again."""
        for number, ended in enumerate(self.wrks):
            code = ended.inner.exitcode
            if number not in due and code is not None:
                forget(ended.inner.pid)
                now = time.monotonic()
                pause = restarts[number].pause(code, now - ended.birth)
                log.error("api_process_ended", code=code, number=number, restart_in_seconds=round(pause, 2))
                due[number] = now + pause


def _no_thread() -> None:
    """Start none."""
