"""Bounded HTTP to a provider: short timeouts, no redirects, answers of limited size, and failures as values.

The library is loaded, and its client made, with the first exchange and in a thread: most installations are connected
to no provider, and it takes a tenth of a second of the start of each process.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
import structlog

from statemachines.kernel.readings import Cause, ReadFailed

if TYPE_CHECKING:
    import httpx2

log = structlog.get_logger(__name__)

USER_AGENT = "service-analytics/3"
EXCHANGE_SECONDS = 10.0  # for each step of it
CONNECT_SECONDS = 5.0
LOOKUP_SECONDS = 5.0
DEADLINE_SECONDS = 20.0  # for one whole exchange, however slowly its bytes arrive


class HttpAnswer(NamedTuple):
    """A complete answer, of whatever status."""

    status: int
    body: bytes


class ProviderClient:
    """The client of a process."""

    def __init__(self) -> None:
        self._client: httpx2.AsyncClient | None = None
        self._making = asyncio.Lock()

    async def ready(self) -> httpx2.AsyncClient:
        """The library's client."""
        async with self._making:
            if self._client is None:
                self._client = await asyncio.to_thread(_make)
            return self._client

    async def stop(self) -> None:
        """Close its connections."""
        if self._client is not None:
            await self._client.aclose()


def _make() -> httpx2.AsyncClient:
    import httpx2  # noqa: PLC0415 - see the module's docstring

    timeout = httpx2.Timeout(EXCHANGE_SECONDS, connect=CONNECT_SECONDS)
    return httpx2.AsyncClient(timeout=timeout, follow_redirects=False, headers={"user-agent": USER_AGENT})


async def exchange(
    client: ProviderClient, method: str, url: str, *, max_bytes: int, headers: Mapping[str, str], **content: Any
) -> HttpAnswer | ReadFailed:
    """Send one request and read its answer up to `max_bytes`. `content` is httpx2's `data` or `json`."""
    ready = await client.ready()
    import httpx2  # noqa: PLC0415 - loaded by now

    try:
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            ready.stream(method, url, headers=dict(headers), **content) as response,
        ):
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > max_bytes:
                    return failure("too_much")
            return HttpAnswer(response.status_code, bytes(body))
    except (TimeoutError, httpx2.TimeoutException):
        return failure("timeout")
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError):
        return failure("unreachable")


def failure(cause: Cause) -> ReadFailed:
    """Log and return a failed read. Neither addresses nor texts of the provider are logged."""
    log.warning("provider_read_failed", cause=cause)
    return ReadFailed(cause)


def cause_of(status: int) -> Cause:
    """The failed read that an error status stands for."""
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return "unauthorized"
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "unreachable"
    return "refused"


def parse(body: bytes, expected: type[Any]) -> Any:
    """Decode an answer. Returns a ReadFailed when it has not the agreed form."""
    try:
        return msgspec.json.decode(body, type=expected)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return failure("malformed")


async def is_public(url: str) -> bool:
    """Whether every address of a URL's host is public: callers must not reach internal addresses through us."""
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            found = await loop.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # a timeout is an OSError
        return False
    addresses = {ipaddress.ip_address(entry[4][0]) for entry in found}
    return bool(addresses) and all(address.is_global and not address.is_multicast for address in addresses)
