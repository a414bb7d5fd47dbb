"""How a serving process ends without losing a request.

The server underneath ends at SIGTERM: it closes every connection that has no request on it at that moment, also one on
which a request is just arriving, and the sender cannot tell whether it was carried out. So a process that is told to
end goes on answering first, each time with `Connection: close`, until no more requests come; only then it ends the
server, with the signal that the server has left to itself.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send

from service.process.beats import beating

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
