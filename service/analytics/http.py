"""Bounded HTTP to a provider: short timeouts, no redirects, answers of limited size, and failures as values."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
import msgspec
import structlog

from statemachines.kernel.readings import Cause, ReadFailed

log = structlog.get_logger(__name__)

USER_AGENT = "service-analytics/3"
TIMEOUT = httpx2.Timeout(10.0, connect=5.0)
LOOKUP_SECONDS = 5.0
DEADLINE_SECONDS = 20.0  # for one whole exchange, however slowly its bytes arrive


class HttpAnswer(NamedTuple):
    """A complete answer, of whatever status."""

    status: int
    body: bytes


def make_client() -> httpx2.AsyncClient:
    """Create the client of a process."""
    return httpx2.AsyncClient(timeout=TIMEOUT, follow_redirects=False, headers={"user-agent": USER_AGENT})


async def exchange(
    client: httpx2.AsyncClient, method: str, url: str, *, max_bytes: int, headers: Mapping[str, str], **content: Any
) -> HttpAnswer | ReadFailed:
    """Send one request and read its answer up to `max_bytes`. `content` is httpx2's `data` or `json`."""
    try:
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            client.stream(method, url, headers=dict(headers), **content) as response,
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
