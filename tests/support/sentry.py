"""Envelopes as Sentry's SDKs write them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from service.ingest.foreign.envelope import EnvelopeItem, EnvelopeReader, Header

EVENT_ID = "0123456789abcdef0123456789abcdef"

# As sentry-sdk for Python sends an exception, shortened.
PYTHON_EVENT: dict[str, Any] = {
    "event_id": EVENT_ID,
    "level": "error",
    "platform": "python",
    "timestamp": "2026-11-22T10:00:00.000000Z",
    "environment": "staging",
    "release": "shop@1.2.3",
    "server_name": "web-1",
    "user": {"id": 42, "email": "u1@example.com", "ip_address": "203.0.113.7"},
    "tags": {"region": "eu", "attempt": 3},
    "extra": {"sys.argv": ["pay.py"]},
    "contexts": {"runtime": {"name": "CPython", "version": "3.11.7"}},
    "breadcrumbs": {"values": [{"category": "query", "message": "select 1"}]},
    "exception": {
        "values": [
            {"type": "KeyError", "value": "'card'", "module": None},
            {
                "type": "PaymentError",
                "value": "Card 17 refused",
                "module": "shop.pay",
                "mechanism": {"type": "generic", "handled": True},
                "stacktrace": {
                    "frames": [
                        {
                            "filename": "shop/pay.py",
                            "abs_path": "/srv/app/shop/pay.py",
                            "function": "Shop.charge",
                            "module": "shop.pay",
                            "lineno": 17,
                            "context_line": "    raise PaymentError(card)",
                            "vars": {"card": "4111111111111111"},
                            "in_app": True,
                        },
                        {
                            "filename": "requests/api.py",
                            "abs_path": "/srv/app/.venv/lib/python3.11/site-packages/requests/api.py",
                            "function": "get",
                            "in_app": False,
                        },
                    ]
                },
            },
        ]
    },
    "debug_meta": {"images": [{"type": "sourcemap", "code_file": "app.js", "debug_id": "d" * 32}, {"type": "elf"}]},
    "sdk": {"name": "sentry.python", "version": "2.0.0", "packages": []},
}

NATIVE_LOG: dict[str, Any] = {
    "message": "Card 17 refused",
    "extra": {
        "exception": {"type": "PaymentError", "frames": [{"file": "pay.py", "function": "charge", "in_app": True}]}
    },
}
"""The same exception as a hand-written report tells it."""


def envelope(*items: tuple[dict[str, Any], bytes], header: dict[str, Any] | None = None) -> bytes:
    """Write an envelope as the SDK for Python does: every item says its length."""
    lines = [json.dumps(header or {}).encode()]
    for said, payload in items:
        lines += [json.dumps({"length": len(payload), **said}).encode(), payload]
    return b"\n".join(lines) + b"\n"


def of_event(event: Any, **header: Any) -> bytes:
    """An envelope of one event."""
    return envelope(({"type": "event"}, json.dumps(event).encode()), header=header)


class SentryEnvelope(NamedTuple):
    """An envelope taken apart, with every payload."""

    header: Header
    items: list[EnvelopeItem]


def parse(raw: bytes, pieces: Iterable[int] = ()) -> SentryEnvelope:
    """Take an envelope apart that comes in pieces of so many bytes, and the rest in one."""
    reader, at = EnvelopeReader(lambda _: len(raw)), 0
    for size in pieces:
        reader.feed(raw[at : at + size])
        at += size
    reader.feed(raw[at:])
    reader.end()
    return SentryEnvelope(reader.header, reader.items)
