"""One attempt to deliver: sealed address and secrets opened, signed, sent through the guard, and judged (G-090, G-091).

The outcome is a status and one of our own sentences. No byte of the receiver is kept (G-150).
"""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import NamedTuple

from service.auth.sealing import unseal
from service.egress.exchange import Request
from service.egress.guard import Guard
from service.egress.outcomes import Received
from service.egress.reach import Reach
from service.webhooks.signing import headers

WEBHOOK_SECRET, WEBHOOK_URL = "webhook-secret", "webhook-url"
UNREADABLE = "The address or the secret cannot be opened with the key that is configured."


class OpenedTarget(NamedTuple):
    """Where a webhook leads, and its secrets in the order of their signatures."""

    url: str
    secrets: tuple[str, ...]


class AttemptOutcome(NamedTuple):
    """The outcome of an attempt. `error` is None after an answer of 2xx alone."""

    status: int | None
    error: str | None

    @property
    def delivered(self) -> bool:
        """Whether the receiver has taken the delivery."""
        return self.error is None

    @property
    def gone(self) -> bool:
        """Whether the receiver wants nothing more (410)."""
        return self.status == HTTPStatus.GONE


class Outgoing(NamedTuple):
    """A delivery as it goes out: the same id and body at every attempt."""

    id: str
    event: str
    body: bytes


def scope_of(project_id: str, webhook_id: str) -> str:
    """The scope to which the sealed parts of a webhook are bound."""
    return f"{project_id}/{webhook_id}"


def open_target(
    key: bytes | None, scope: str, url: str | None, secret: str | None, former: str | None
) -> OpenedTarget | None:
    """Open the sealed parts of a webhook. None when that is not possible."""
    opened = unseal(key, WEBHOOK_URL, scope, url)
    found = [unseal(key, WEBHOOK_SECRET, scope, sealed) for sealed in (secret, former)]
    signing = tuple(text for text in found if text is not None)
    if opened is None or found[0] is None:
        return None
    return OpenedTarget(opened, signing)


async def send(
    guard: Guard, reach: Reach, account: str, target: OpenedTarget | None, outgoing: Outgoing
) -> AttemptOutcome:
    """Make one attempt, signed with the real time, by the look-ups of an account."""
    if target is None:
        return AttemptOutcome(None, UNREADABLE)
    signed = headers(target.secrets, outgoing.id, outgoing.event, outgoing.body, int(time.time()))
    answer = await guard.call(
        target.url, Request("POST", signed, outgoing.body), account=account, reach=reach, max_body=0
    )
    if not isinstance(answer, Received):
        return AttemptOutcome(None, answer.sentence)
    if HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        return AttemptOutcome(answer.status, None)
    return AttemptOutcome(answer.status, f"The receiver answered with status {answer.status}.")
