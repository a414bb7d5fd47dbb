"""The API as processes: `python -m service.process.serving <parent process number>`.

The process started here accepts nothing itself: it holds the socket and watches over `SERVICE_WORKERS` processes
that serve. It makes the application before it forks them, so that they share its memory and a new one is there at
once. Nothing of it is opened before its lifespan starts in the forked process.
"""

from __future__ import annotations

import os
import sys

from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from litestar.types import ASGIApp

from service.console.door import ENDPOINTS
from service.http.edge.app import create_app
from service.http.edge.routes import all_endpoints
from service.logs import configure, stdlib_config
from service.process.apiserver import ApiServer
from service.process.assembly import make_services
from service.process.children import die_with_parent, leave, wait_for_start
from service.process.draining import Draining
from service.process.sockets import most_connections, raise_open_files
from service.settings import load_settings

STOP_SECONDS = 2  # requests in flight get this long when the service stops
BACKLOG = 4096
BUFFER_BYTES = 64 * 1024  # of one connection: the largest head of a request, and the most of a body that waits


def main(parent: int) -> None:
    """Serve until SIGTERM, or until the parent ends."""
    die_with_parent(parent)
    settings = load_settings()
    configure(settings.log_level, "api")
    edge = create_app(lambda: make_services(settings), [*all_endpoints(), *ENDPOINTS])
    app = Draining(edge, edge.pipeline.end_waits)
    connections = most_connections(raise_open_files())
    own = os.getpid()

    def load(_: str) -> ASGIApp:
        """Hand out the application, in a process that serves."""
        die_with_parent(own)
        return app

    server = ApiServer(
        "service",
        address=settings.host,
        port=settings.port,
        interface=Interfaces.ASGI,
        workers=settings.workers,
        loop=Loops.uvloop,
        http=HTTPModes.http1,
        websockets=False,
        backlog=BACKLOG,
        backpressure=connections,
        http1_settings=HTTP1Settings(
            header_read_timeout=settings.idle_seconds * 1000,
            max_buffer_size=BUFFER_BYTES,
        ),
        runtime_blocking_threads=1,
        log_dictconfig=stdlib_config(settings.log_level, "api"),
        workers_kill_timeout=STOP_SECONDS,
    )
    wait_for_start()
    server.serve(target_loader=load)


if __name__ == "__main__":
    main(int(sys.argv[1]))
    leave()
