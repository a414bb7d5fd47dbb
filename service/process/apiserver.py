"""granian's server with four changes.

One listening socket for all processes, unlimited replacement of processes, an end that loses no connection, and the
worker beside the serving processes. The methods overridden here are internal to granian, at a pinned version;
tests/faults/test_restarts.py kills the processes and covers all of them.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import socket
import struct
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from multiprocessing.connection import wait
from typing import Any

import structlog
from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.net import SocketSpec  # type: ignore[attr-defined] # not marked as exported
from granian.server import MPServer
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send

from service.console.door import ENDPOINTS
from service.eventstore.connect.connection import COMMITTED, RESENT
from service.fairness.bounds import SHARE
from service.http.app import create_app
from service.http.edge.routes import all_endpoints
from service.http.measure.metrics import forget
from service.jobs import declared
from service.logs import Step, configure, stdlib_config
from service.process import worker
from service.process.assembly import make_services
from service.process.beats import beating
from service.process.children import ForkedChild, Restarts, die_with_parent, woken_by_signals
from service.process.selfreports import ReceivingApp, reporter_of
from service.registry import registry
from service.settings import Settings, load_settings

# What the kernel is asked for: open files, and a listening socket that takes no more connections.

OWN_FILES = 256  # descriptors that a process needs besides its connections: database, log, sockets to providers
MAX_CONNECTIONS = 8192  # of the API processes of a machine, whatever the limit of open files allows
STALLED_SECONDS = 30  # a client that takes nothing of an answer for so long is gone

SO_ATTACH_FILTER = 26  # not in Python's socket module (Linux, asm-generic/socket.h)
# Classic BPF over the TCP header: load the flags, keep SYN and ACK, drop what is a SYN alone, pass the rest.
_NO_SYN = ((0x30, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))


def raise_open_files() -> int:
    """Raise this process's limit of open files to what it may have; returns the limit. Children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + OWN_FILES if hard == resource.RLIM_INFINITY else min(MAX_CONNECTIONS + OWN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if limit == resource.RLIM_INFINITY else limit


def most_connections(open_files: int) -> int:
    """How many connections a process with that limit of open files holds at once."""
    return max(OWN_FILES, min(MAX_CONNECTIONS, open_files - OWN_FILES))


def drop_stalled(listening: socket.socket) -> None:
    """Let the kernel close connections whose client takes nothing of what is sent; accepted sockets inherit it."""
    with suppress(AttributeError, OSError):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_SECONDS * 1000)


def take_no_more(listening: socket.socket) -> None:
    """Let no further connection begin, while those that have are still accepted.

    A listening socket that is closed resets what waits in its queue, requests that have arrived included. Without an
    answer to its SYN a client tries again a second later, and is refused, or finds the next process. Linux only;
    elsewhere a connection that comes in the last moment may be reset.
    """
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in _NO_SYN))
    program = struct.pack("HP", len(_NO_SYN), ctypes.addressof(instructions))
    with suppress(OSError):
        listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


# How a serving process ends without losing a request. The server underneath ends at SIGTERM: it closes every
# connection that has no request on it at that moment, also one on which a request is just arriving, and the sender
# cannot tell whether it was carried out. So a process that is told to end goes on answering first, each time with
# `Connection: close`, until no more requests come; only then it ends the server, with the signal that the server has
# left to itself.

DRAIN_SECONDS = 1.2  # at most; the rest of STOP_SECONDS is for requests that are still being carried out
QUIET_SECONDS = 0.25  # without a request: whoever sends one after another has been told to close
LOOK_SECONDS = 0.01
CLOSE = (b"connection", b"close")


class Draining:
    """The application, with its end put off until what arrives has been answered."""

    def __init__(self, app: ASGIApp, end_waits: Callable[[], None] = lambda: None) -> None:
        """`end_waits` ends all waits for a change with an answer."""
        self._app = app
        self._end_waits = end_waits
        self._stopping: asyncio.Task[None] | None = None
        self._open = 0
        self._last = 0.0  # when a request came last, on the monotonic clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or one lifespan: the server's handler of SIGTERM is set before that begins."""
        if scope["type"] != ScopeType.HTTP:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop)
            async with AsyncExitStack() as stack:
                await self._app(scope, partial(_hear, stack, receive), partial(_beat, stack, send))
            return
        self._open += 1
        self._last = time.monotonic()
        try:
            await self._app(scope, receive, partial(self._send, send))
        finally:
            self._open -= 1

    async def _send(self, send: Send, message: Any) -> None:
        if self._stopping is not None and message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], CLOSE]}
        await send(message)

    def _stop(self) -> None:
        if self._stopping is None:
            self._end_waits()
            self._stopping = asyncio.get_running_loop().create_task(self._drain())

    def _expects(self, now: float, until: float) -> bool:
        """Whether requests are open, or may be on their way."""
        return now < until and (self._open > 0 or now < self._last + QUIET_SECONDS)

    async def _drain(self) -> None:
        until = time.monotonic() + DRAIN_SECONDS
        while self._expects(time.monotonic(), until):  # noqa: ASYNC110 (it is time that it waits for)
            await asyncio.sleep(LOOK_SECONDS)
        signal.raise_signal(signal.SIGINT)


async def _beat(stack: AsyncExitStack, send: Send, message: Any) -> None:
    """Pass on that the application has started. From then on its loop beats."""
    if message["type"] == "lifespan.startup.complete":
        await stack.enter_async_context(beating("api"))
    await send(message)


async def _hear(stack: AsyncExitStack, receive: Receive) -> Any:
    """Pass on that the application is to end. From then on its loop need not beat."""
    message: Any = await receive()
    if message["type"] == "lifespan.shutdown":
        await stack.aclose()
    return message


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
    SHARE.processes = settings.workers
    reporter = reporter_of(settings)
    configure(settings.log_level, "api", reporter)
    registry()
    declared()
    COMMITTED.hang()
    RESENT.hang()
    edge = create_app(lambda: make_services(settings), [*all_endpoints(), *ENDPOINTS])
    app: ASGIApp = edge
    if settings.traces_url is not None:
        from service.process.tracing import TracedApp  # noqa: PLC0415 - it loads the library of an extra

        app = TracedApp(edge, settings.traces_url)
    if reporter is not None:
        app = ReceivingApp(app, reporter)
    return ApiServer(settings, Draining(app, edge.pipeline.end_waits), reporter)


class ApiServer(MPServer):
    """Serves until SIGTERM. Hot reload and limits on the life or memory of a process are left out."""

    _shd: Any
    _sso: Any
    _ipc: Any

    def __init__(self, settings: Settings, app: ASGIApp, report: Step | None) -> None:
        """`report` sees each line of the log of a process that serves."""
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
            backpressure=SHARE.of(most_connections(raise_open_files())),
            http1_settings=HTTP1Settings(
                header_read_timeout=settings.idle_seconds * 1000,
                max_buffer_size=BUFFER_BYTES,
            ),
            runtime_blocking_threads=1,
            log_dictconfig=stdlib_config(settings.log_level, "api", report),
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
        SHARE.processes = 1
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
