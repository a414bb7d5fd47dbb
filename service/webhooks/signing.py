"""Signatures of deliveries: our own header, and those of Standard Webhooks beside it (G-091, G-160). Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence

from statemachines.kernel.machine import derived_id

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
