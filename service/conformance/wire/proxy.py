"""The proxy before the service: it passes requests on, and loses, delays or refuses what a scenario asks it to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import httpx2

from service.conformance.wire.exchanges import Exchange, operation_of
from service.conformance.wire.listener import HOP_BY_HOP, Given, Heard, LoopbackServer

_NOT_PASSED_ON = HOP_BY_HOP | {"host", "accept-encoding", "expect"}
_BAD_GATEWAY = 502
LONGEST_SECONDS = 90
"""A read may wait a minute for a change."""


class Tampering(NamedTuple):
    """What happens to a request: another answer in its place, or the loss of its answer. `what` names it for people."""

    what: str
    instead: Given | None = None
    lost: bool = False


Meet = Callable[[Exchange], Tampering | None]
"""Asked for each request before it is passed on; None lets it pass."""


class FaultyProxy:
    """Serves one runner. `exchanges` are its requests, in the order of their arrival."""

    def __init__(self, service_url: str, meet: Meet) -> None:
        self.exchanges: list[Exchange] = []
        self._service_url = service_url
        self._meet = meet
        self._lock = threading.Lock()
        self._client = httpx2.Client(base_url=service_url, timeout=LONGEST_SECONDS)
        self._listener = LoopbackServer(self._serve)
        self.url = self._listener.url

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()
        self._client.close()

    @property
    def busy_until(self) -> float:
        """The moment before which the runner was told to send nothing again."""
        return max((one.answered_at + one.retry_after for one in list(self.exchanges)), default=0.0)

    def _serve(self, asked: Heard) -> Given | None:
        with self._lock:
            operation = operation_of(asked.method, asked.path)
            exchange = Exchange(asked, len(self.exchanges) + 1, operation, asked.json())
            self.exchanges.append(exchange)
        tampering = self._meet(exchange)
        exchange.fault = "" if tampering is None else tampering.what
        given = self._pass_on(exchange) if tampering is None or tampering.instead is None else tampering.instead
        exchange.answer = Heard(0.0, "", "", "", {}, given.body).json()
        if tampering is None or not tampering.lost:
            waits = given.headers.get("retry-after", "")
            exchange.retry_after = float(waits) if waits.isdigit() else 0.0
            exchange.status = given.status
        exchange.answered_at = time.time()
        return given if exchange.status is not None else None

    def _pass_on(self, exchange: Exchange) -> Given:
        asked = exchange.asked
        headers = {name: value for name, value in asked.headers.items() if name not in _NOT_PASSED_ON}
        target = f"{asked.path}?{asked.query}" if asked.query else asked.path
        try:
            answer = self._client.request(
                asked.method, target, content=asked.body, headers={**headers, "accept-encoding": "identity"}
            )
        except (httpx2.HTTPError, httpx2.InvalidURL):
            return Given.of(_BAD_GATEWAY, {"error": {"code": "upstream_error", "message": "The service is gone."}})
        exchange.service = answer.status_code
        # An absolute address of the service would lead past the proxy.
        body = answer.content.replace(self._service_url.encode(), self.url.encode())
        return Given(answer.status_code, body, dict(answer.headers.items()))
