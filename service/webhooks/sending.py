"""One attempt to deliver: sealed address and secrets opened, signed, sent through the guard, and judged (G-090, G-091).

The outcome is a status and one of our own sentences. No byte of the receiver is kept (G-150).
"""

import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

import structlog

from service.auth.secrets import unseal
from service.egress.exchange import Received, Request
from service.egress.guard import Guard, Reach
from service.eventstore.connect.connection import WatchedConnection
from service.sql import load_query
from statemachines.kernel.machine import derived_id
from statemachines.notifications import MACHINE as DESTINATIONS

# Signatures of deliveries: our own header, and those of Standard Webhooks beside it (G-091, G-160). Pure.

MARK = "whsec_"
"""How every secret begins."""
SECRET_BYTES = 32
SHOWN_LENGTH = 12
"""Characters of a secret that may be shown again."""
USER_AGENT = "service-webhooks/3"


def make_secret() -> str:
    """Make a secret: its prefix, and the base64 of random bytes."""
    return MARK + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def delivery_id(webhook_id: str, event_id: str) -> str:
    """Id of the delivery of an event to a webhook, the same at every attempt (G-160)."""
    return derived_id("whd", webhook_id, event_id)


def headers(signing: Sequence[str], delivery: str, event: str, body: bytes, at: int) -> Mapping[str, str]:
    """Headers of an attempt at a time (epoch seconds, real time), signed by each secret, the newest first."""
    ours = [f"v1={_own(secret, at, body)}" for secret in signing]
    standard = [f"v1,{_standard(secret, delivery, at, body)}" for secret in signing]
    return {
        "content-type": "application/json",
        "user-agent": USER_AGENT,
        "x-service-event": event,
        "x-service-delivery": delivery,
        "x-service-signature": ",".join([f"t={at}", *ours]),
        "webhook-id": delivery,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(standard),
    }


def _own(secret: str, at: int, body: bytes) -> str:
    return hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()


def _standard(secret: str, delivery: str, at: int, body: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(MARK))
    signed = f"{delivery}.{at}.".encode() + body
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


WEBHOOK_SECRET, WEBHOOK_URL = "webhook-secret", "webhook-url"
UNREADABLE = "The address or the secret cannot be opened with the key that is configured."


class OpenedTarget(NamedTuple):
    """Where a webhook leads, and its secrets in the order of their signatures."""

    url: str
    secrets: tuple[str, ...]


class AttemptOutcome(NamedTuple):
    """The outcome of an attempt. `error` is None after an answer of 2xx alone.

    `wait` is for how many seconds the receiver wants nothing. `ended`: it wants nothing more, by its own code.
    """

    status: int | None
    error: str | None
    wait: int = 0
    ended: bool = False

    @property
    def delivered(self) -> bool:
        """Whether the receiver has taken the delivery."""
        return self.error is None

    @property
    def gone(self) -> bool:
        """Whether the receiver wants nothing more (410)."""
        return self.ended or self.status == HTTPStatus.GONE


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


MAX_WAIT = 3600
"""Seconds that a chat may ask for."""
MESSAGE_HEADERS = {"content-type": "application/json", "user-agent": USER_AGENT}


def is_destination(id: str) -> bool:
    """Whether a delivery goes to a destination, and to no webhook."""
    return id.startswith(f"{DESTINATIONS.kind}_")


def open_address(key: bytes | None, scope: str, url: str | None) -> str | None:
    """Open the sealed address of a destination. None when that is not possible."""
    return unseal(key, WEBHOOK_URL, scope, url)


async def send_message(guard: Guard, reach: Reach, account: str, url: str | None, body: bytes) -> AttemptOutcome:
    """Make one attempt at a chat, whose address is its only secret. A chat says that it is gone by 404, too."""
    if url is None:
        return AttemptOutcome(None, UNREADABLE)
    answer = await guard.call(url, Request("POST", MESSAGE_HEADERS, body), account=account, reach=reach, max_body=0)
    if not isinstance(answer, Received):
        return AttemptOutcome(None, answer.sentence)
    if HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        return AttemptOutcome(answer.status, None)
    wait = _asked_seconds(answer.retry_after) if answer.status == HTTPStatus.TOO_MANY_REQUESTS else 0
    error = f"The chat answered with status {answer.status}."
    return AttemptOutcome(answer.status, error, wait, answer.status == HTTPStatus.NOT_FOUND)


def _asked_seconds(retry_after: str | None) -> int:
    """The seconds of a Retry-After header, within bounds. A date, or what is none of both, counts as one minute."""
    found = re.fullmatch(r"\s*([0-9]{1,9})(?:\.[0-9]+)?\s*", retry_after or "", re.ASCII)
    return min(MAX_WAIT, int(found[1]) + 1) if found else 60


# The end of deliveries: what a stop has dropped, what was deleted, and what is old (G-159, G-161).

log = structlog.get_logger()

KEPT_SECONDS = 30 * 86_400
BATCH = 2_000

_SETTLE = load_query("webhooks", "settle")
_FORGET_OLD = load_query("webhooks", "forget_old")
_FORGET_DELETED = load_query("webhooks", "forget_deleted")
_FORGET_TARGETS = load_query("webhooks", "forget_targets")
_FORGET_TURNS = load_query("webhooks", "forget_turns")
_FORGET_MAIL_DAYS = load_query("webhooks", "forget_mail_days")


async def tidy(conninfo: str) -> None:
    """Go through all of it once, in batches of a transaction each. Raises psycopg.Error."""
    async with await WatchedConnection.connect(
        conninfo, autocommit=True, application_name="service-tidy-webhooks"
    ) as connection:
        for query in (_SETTLE, _FORGET_OLD, _FORGET_DELETED, _FORGET_TURNS, _FORGET_MAIL_DAYS):
            values = {"most": BATCH, "kept": KEPT_SECONDS}
            while (await connection.execute(query, values)).rowcount == BATCH:
                pass
        gone = (await connection.execute(_FORGET_TARGETS)).rowcount
        if gone:
            log.info("webhooks_forgotten", number=gone)
