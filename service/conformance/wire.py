"""What stands between a runner and the world: a trap at another host, and a proxy that records."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx2

from service.testing.loopback import HOP_BY_HOP, Given, Heard, LoopbackServer

# Another host: nothing leads there but the text of telemetry and a redirect. Each request to it is a finding.


class Elsewhere:
    """A trap, and what fell into it."""

    def __init__(self) -> None:
        self.visits: list[Heard] = []
        self._listener = LoopbackServer(self._serve)
        self.url = self._listener.url

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _serve(self, asked: Heard) -> Given:
        self.visits.append(asked)
        return Given.of(200, {})


# The requests of a runner to the service, by operation, and their outcome.

FENCE = ("state_revision", "lease_epoch")
_ID = "([^/]+)"
_RUN = f"/v1/automation-runs/{_ID}"


class _Route(NamedTuple):
    name: str
    method: str
    path: re.Pattern[str]


def _route(name: str, method: str, path: str) -> _Route:
    return _Route(name, method, re.compile(path + "/?"))


ROUTES = [
    _route("issue", "POST", f"/v1/projects/{_ID}/automation-triggers/issue"),
    _route("claim", "POST", f"/v1/cases/{_ID}/claims"),
    _route("renew", "POST", f"/v1/cases/{_ID}/claims/{_ID}/renew"),
    _route("release", "POST", f"/v1/cases/{_ID}/claims/{_ID}/release"),
    _route("start", "POST", f"/v1/projects/{_ID}/automation-runs"),
    _route("report", "PATCH", _RUN),
    _route("usage", "POST", f"{_RUN}/usage"),
    _route("approval", "POST", f"{_RUN}/approvals"),
    _route("authorize", "POST", f"{_RUN}/actions/draft-pr/authorize"),
    _route("consume", "POST", f"{_RUN}/actions/draft-pr/consume"),
    _route("authorize_merge", "POST", f"{_RUN}/actions/auto-merge/authorize"),
    _route("consume_merge", "POST", f"{_RUN}/actions/auto-merge/consume"),
    _route("verify", "POST", f"{_RUN}/verify"),
    _route("cancel", "POST", f"{_RUN}/cancel"),
]
ON_RUN = frozenset({"report", "usage", "approval", "authorize", "consume", "authorize_merge", "consume_merge"})
"""Writes that carry the fence of a run."""
WRITES = ON_RUN | {"claim", "renew", "start"}
LOOKS = re.compile("/v1/automation-runs/[^/]+|/v1/projects/[^/]+/automation-(runs|trigger-receipts)/?")
"""Reads that show where a run stands."""
FOREIGN = "foreign"
READ = "read"


def operation_of(method: str, path: str) -> str:
    """The operation of a request: a name of the routes, `read`, or `foreign` for everything else."""
    for route in ROUTES:
        if route.method == method and route.path.fullmatch(path):
            return route.name
    return READ if method in {"GET", "HEAD"} else FOREIGN


@dataclass(eq=False)
class Exchange:
    """A request of the runner. `service` is the status of the service, `status` what the runner got of it (None: lost).

    `fault` says what the kit did to it.
    """

    asked: Heard
    number: int
    operation: str
    body: Any
    service: int | None = None
    status: int | None = None
    answer: Any = None
    retry_after: float = 0.0
    answered_at: float = 0.0
    fault: str = ""

    @property
    def key(self) -> str | None:
        """Its Idempotency-Key."""
        return self.asked.headers.get("idempotency-key")

    @property
    def code(self) -> str:
        """The code of a refusal."""
        error = self.answer.get("error") if isinstance(self.answer, dict) else None
        return str(error.get("code", "")) if isinstance(error, dict) else ""

    @property
    def accepted(self) -> bool:
        """Whether the service did it, whatever the runner heard."""
        return self.service is not None and self.service < 300  # noqa: PLR2004 - 2xx

    @property
    def heard(self) -> bool:
        """Whether the runner was told that it is done."""
        return self.status is not None and self.status < 300  # noqa: PLR2004

    @property
    def refused(self) -> bool:
        """Whether the runner was told no."""
        return self.status is not None and self.status >= 400  # noqa: PLR2004

    @property
    def looks(self) -> bool:
        """Whether it reads where the run stands."""
        return self.operation == READ and LOOKS.fullmatch(self.asked.path) is not None

    @property
    def intent(self) -> Any:
        """Its body without the fence."""
        if not isinstance(self.body, dict):
            return self.body
        return {name: value for name, value in self.body.items() if name not in FENCE}

    @property
    def revision(self) -> int | None:
        """The state revision in its body."""
        revision = self.body.get("state_revision") if isinstance(self.body, dict) else None
        return revision if isinstance(revision, int) else None

    def same_target(self, other: Exchange) -> bool:
        """Whether both ask for one operation of one object."""
        return (self.operation, self.asked.path) == (other.operation, other.asked.path)

    def repeats(self, other: Exchange) -> bool:
        """Whether it is the other request again: key and body."""
        return self.same_target(other) and self.key == other.key and self.body == other.body


# The proxy before the service: it passes requests on, and loses, delays or refuses what a scenario asks it to.

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
        try:
            answer = self._client.request(
                asked.method, asked.target, content=asked.body, headers={**headers, "accept-encoding": "identity"}
            )
        except (httpx2.HTTPError, httpx2.InvalidURL):
            return Given.of(_BAD_GATEWAY, {"error": {"code": "upstream_error", "message": "The service is gone."}})
        exchange.service = answer.status_code
        # An absolute address of the service would lead past the proxy.
        body = answer.content.replace(self._service_url.encode(), self.url.encode())
        return Given(answer.status_code, body, dict(answer.headers.items()))
