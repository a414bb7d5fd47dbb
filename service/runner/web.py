"""JSON over HTTP, for the service and the code host: no redirects, bounded answers, retries with growing pauses."""

import json
import random
import time
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.request import HTTPErrorProcessor, Request, build_opener

MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_PAUSE = 60.0
TIMEOUT = 20
PATIENCE = 600
BUSY = (429, 500, 502, 503, 504)
"""Statuses for another attempt."""


class Lost(Exception):
    """No whole answer came. The request may have been carried out."""


class GaveUp(Exception):
    """The server is silent or busy for longer than this start waits."""


class JsonAnswer(NamedTuple):
    """A status, a JSON body (None for anything else), and headers in lower case."""

    status: int
    body: Any
    headers: Mapping[str, str]


class _AsItCame(HTTPErrorProcessor):
    """Returns every answer, redirects too. Our secret follows none of them."""

    def http_response(self, request: Request, response: Any) -> Any:  # noqa: ARG002
        return response

    https_response = http_response


class Client:
    """The client of one server, with the headers of every request."""

    def __init__(self, base_url: str, headers: Mapping[str, str], *, patience: float = PATIENCE) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = {"content-type": "application/json", "user-agent": "service-runner/1", **headers}
        self._opener = build_opener(_AsItCame)
        self._patience = patience

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        seconds: float = TIMEOUT,
    ) -> JsonAnswer:
        """Send a request once. Raises Lost."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(  # noqa: S310 - the address is the customer's own setting
            self._base_url + path, data, {**self._headers, **(headers or {})}, method=method
        )
        try:
            with self._opener.open(request, timeout=seconds) as answer:
                text = answer.read(MAX_ANSWER_BYTES + 1)
                told = {name.lower(): value for name, value in answer.headers.items()}
                status: int = answer.status
        except (OSError, HTTPException) as error:
            raise Lost(f"{method} {path}: {error}") from error
        if len(text) > MAX_ANSWER_BYTES:
            raise Lost(f"{method} {path}: the answer is too long")
        try:
            return JsonAnswer(status, json.loads(text), told)
        except ValueError:
            return JsonAnswer(status, None, told)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        seconds: float = TIMEOUT,
        again: Callable[[JsonAnswer], bool] = lambda _: False,
    ) -> JsonAnswer:
        """Send a request, and retry it while the server is busy or silent. Raises GaveUp.

        Only for requests without a second effect: reads, and writes with a key.
        """
        pauses = Pauses(self._patience)
        while True:
            try:
                answer = self.send(method, path, body, headers, seconds=seconds)
            except Lost as lost:
                pauses.rest(None, str(lost))
                continue
            if answer.status not in BUSY and not again(answer):
                return answer
            pauses.rest(answer, f"{method} {path} was answered with {answer.status}")


class Pauses:
    """Growing pauses between attempts, with jitter, until the patience is over."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._until = time.monotonic() + patience
        self._next = 0.5

    def rest(self, answer: JsonAnswer | None, why: str) -> None:
        """Wait as long as an answer asks for, else as long as the attempts so far suggest. Raises GaveUp."""
        pause = retry_after(answer)
        if pause is None:
            pause, self._next = self._next, min(2 * self._next, MAX_PAUSE)
        pause *= random.uniform(1.0, 1.25)  # noqa: S311 - spreads runners, keeps no secret
        if time.monotonic() + pause > self._until:
            raise GaveUp(f"{why}. The next start continues.")
        time.sleep(pause)


def retry_after(answer: JsonAnswer | None) -> float | None:
    """The `Retry-After` of an answer."""
    told = None if answer is None else answer.headers.get("retry-after", "")
    return float(told) if told and told.isdigit() else None
