"""The service with one more route, for `make bench`: an echo behind the same gate, authentication and validation.

`python -m scripts.load.bench_server` with the service's own environment; one API process, stopped by SIGTERM. With
UNCOUNTED as its argument it sums no names of events: what counting them costs is told beside such a one. It has the
console with CONSOLE as its argument alone, so that the memory of a service without one is known.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from granian.constants import HTTPModes, Interfaces, Loops
from granian.server import Server
from litestar.params import JSONBody
from litestar.types import ASGIApp

from schemas.cases.log import LogEvent
from service.eventstore.declare.commands import Answer
from service.http.app import create_app
from service.http.cases.intake.log import record_log
from service.http.declare.endpoint import Endpoint
from service.http.edge.routes import all_endpoints
from service.ingest.tally import NamesTally
from service.logs import configure
from service.process.assembly import make_services
from service.settings import load_settings

UNCOUNTED = "--uncounted"
CONSOLE = "--console"


async def echo(data: JSONBody[LogEvent]) -> Answer:
    """Return the body that came in."""
    return Answer(202, data)


# Declared as what it stands beside is, so that their requests are read and validated alike, whatever becomes of that.
ECHO = Endpoint(
    replace(
        record_log.operation,
        path="/v1/bench-echo",
        operation_id="benchEcho",
        summary="Answer a validated log event without storing it.",
        docs=replace(record_log.operation.docs, answers={202: None}, extension=True),
    ),
    echo,
)


def main() -> None:
    """Serve until SIGTERM."""
    if UNCOUNTED in sys.argv:
        NamesTally.add = lambda *_: None  # type: ignore[method-assign]
    settings = load_settings()
    configure(settings.log_level, "api")
    app = create_app(lambda: make_services(settings), [*all_endpoints(), ECHO, *_console()])

    def load(_: str) -> ASGIApp:
        return app

    Server(
        "service",
        address=settings.host,
        port=settings.port,
        interface=Interfaces.ASGI,
        workers=1,
        loop=Loops.uvloop,
        http=HTTPModes.http1,
        websockets=False,
        backlog=1024,
        runtime_blocking_threads=1,
    ).serve(target_loader=load)


def _console() -> list[Endpoint]:
    """The routes of the console, if it is asked for."""
    if CONSOLE not in sys.argv:
        return []
    from service.console.door import ENDPOINTS

    return ENDPOINTS


if __name__ == "__main__":
    main()
