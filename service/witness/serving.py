"""The HTTP server of a witness, by Litestar and granian: two doors, small bodies, and bounds on everything.

It answers one request after the other in one event loop. Cosigning takes milliseconds, and its clients are few.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import structlog
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.net import SocketSpec  # type: ignore[attr-defined] # not marked as exported
from granian.server.embed import Server
from litestar import HttpMethod, Litestar, Request, Response, route
from litestar.exceptions import HTTPException

from service.tlog.notes import MOST_BYTES as MOST_NOTE
from service.witness.server import Witness, WitnessAnswer

log = structlog.get_logger()

MOST_HEAD = 16 * 1024
MOST_BODY = MOST_NOTE + 64 * 48
MOST_CONNECTIONS = 128
REQUEST_SECONDS = 10.0
IDLE_SECONDS = 60.0
STOP_SECONDS = 5.0
ADD = "/add-checkpoint"
_EVERY = list(HttpMethod)


class WitnessServer:
    """A witness on an address. `now` is the time in epoch seconds."""

    def __init__(self, witness: Witness, now: Callable[[], int] = lambda: int(time.time())) -> None:
        self._app = application(witness, now)
        self._server: "_Listening | None" = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen. Returns the port. Raises OSError."""
        self._server = _Listening(self._app, host, port)
        self._serving = asyncio.create_task(self._server.serve())
        return self._server.bound

    async def stop(self) -> None:
        """Take no more connections, and end those that there are."""
        if self._server is not None and self._serving is not None:
            self._server.stop()  # type: ignore[no-untyped-call]
            await self._serving


class _Listening(Server):
    """granian's server in the event loop of its caller, with a socket that is open before it serves."""

    def __init__(self, app: Litestar, host: str, port: int) -> None:
        super().__init__(
            app,
            address=host,
            port=port,
            interface=Interfaces.ASGINL,
            http=HTTPModes.http1,
            websockets=False,
            backpressure=MOST_CONNECTIONS,
            http1_settings=HTTP1Settings(header_read_timeout=int(IDLE_SECONDS * 1000), max_buffer_size=MOST_HEAD),
            log_enabled=False,
        )
        self.workers_kill_timeout: Any = STOP_SECONDS
        self._shd: Any = SocketSpec(host, port, MOST_CONNECTIONS).build()
        opened = socket.socket(fileno=self._shd.get_fd())
        opened.listen(MOST_CONNECTIONS)
        self.bound = int(opened.getsockname()[1])
        opened.detach()

    def _init_shared_socket(self) -> None:
        """Serve the open socket, whose port may be any free one."""
        self._ssp = None


def application(witness: Witness, now: Callable[[], int]) -> Litestar:
    """The doors of a witness."""

    @route(ADD, http_method=_EVERY)
    async def add_checkpoint(request: Request[Any, Any, Any]) -> Response[bytes]:
        """Cosign a checkpoint that continues the last one."""
        if request.method != "POST":
            return _shown(WitnessAnswer(HTTPStatus.METHOD_NOT_ALLOWED, "POST only\n"))
        async with asyncio.timeout(REQUEST_SECONDS):
            body = await request.body()
        try:
            answer = witness.add_checkpoint(body, now())
        except OSError as error:
            log.error("witness_not_written", reason=error.strerror)  # noqa: TRY400 (the reason says all)
            return _shown(WitnessAnswer(HTTPStatus.SERVICE_UNAVAILABLE, "the checkpoint could not be kept\n"))
        log.info("witness_answered", status=int(answer.status))
        return _shown(answer)

    @route("/{name:str}/checkpoint", http_method=_EVERY)
    async def monitored(request: Request[Any, Any, Any], name: str) -> Response[bytes]:
        """The newest checkpoint of a log, for its monitors."""
        if request.method not in {"GET", "HEAD"}:
            return _shown(WitnessAnswer(HTTPStatus.METHOD_NOT_ALLOWED, "GET only\n"))
        return _shown(witness.monitored(name))

    return Litestar(
        [add_checkpoint, monitored],
        exception_handlers={HTTPException: _refused, TimeoutError: _too_slow},
        openapi_config=None,
        logging_config=None,
        request_max_body_size=MOST_BODY,
    )


def _shown(answer: WitnessAnswer) -> Response[bytes]:
    headers = {"content-type": answer.content_type}
    return Response(answer.body.encode(), status_code=int(answer.status), headers=headers)


def _refused(_: Any, error: HTTPException) -> Response[bytes]:
    """Answer for what reached no door, or had too long a body."""
    told = {HTTPStatus.NOT_FOUND: "no such address\n", HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "the body is too long\n"}
    status = HTTPStatus(error.status_code)
    return _shown(WitnessAnswer(status, told.get(status, "malformed request\n")))


def _too_slow(_: Any, __: TimeoutError) -> Response[bytes]:
    return _shown(WitnessAnswer(HTTPStatus.REQUEST_TIMEOUT, "the body came too slowly\n"))
