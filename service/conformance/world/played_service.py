"""The service under the proxy: where it is, and how the kit asks it as somebody."""

from __future__ import annotations

import secrets
from typing import Any, NamedTuple

import httpx2


class CannotPlay(Exception):
    """The kit cannot play: the service or the machine is not as it should be. No runner is to blame."""


class ServiceUnderPlay(NamedTuple):
    """A running service, with the tokens of its operator. Its clock can be moved."""

    url: str
    internal_token: str
    test_token: str


class Voice:
    """Requests with one secret. An unexpected answer ends the play (CannotPlay)."""

    def __init__(self, client: httpx2.Client, secret: str | None) -> None:
        self._client = client
        self._headers = {"authorization": f"Bearer {secret}"} if secret else {}

    def ask(self, method: str, path: str, body: Any = None, *, also: tuple[int, ...] = (), **headers: str) -> Any:
        """Send a request, and return the JSON of its answer. Statuses in `also` are expected beside 2xx."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            answer = self._client.request(method, path, json=body, headers=self._headers | sent)
        except httpx2.HTTPError as error:
            raise CannotPlay(f"{method} {path} got no answer: {error!r}") from error
        if not answer.is_success and answer.status_code not in also:
            raise CannotPlay(f"{method} {path} answered {answer.status_code}: {answer.text[:500]}")
        return answer.json()

    def post(self, path: str, body: Any = None, *, also: tuple[int, ...] = (), **headers: str) -> Any:
        """Send a POST with a key of its own."""
        return self.ask("POST", path, body, also=also, **{"idempotency_key": secrets.token_hex(8)} | headers)
