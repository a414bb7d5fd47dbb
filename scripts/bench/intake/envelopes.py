"""Envelopes as Sentry's SDK for Python sends them of an exception in a web product: of 15 kB, and no two the same.

There are ISSUES different errors, and they come again: an issue is a type, a place and a message, of which each event
has numbers of its own, as it has in its breadcrumbs, its request and its local variables. What is sent is laid out
before anything is timed, and only ids and numbers change then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from scripts.load.loadgen import Client

ISSUES = 20
FRAMES = 14  # of a stack, give or take two
NUMBER = "0123456789"  # stands where each event has a number of its own
EVENT_ID = "e0e1" * 8  # stands where each has its id
_SPREAD = 0x9E3779B97F4A7C15F39CC0605CEDC835  # odd, so that ids look drawn and none comes twice
_WORDS = ("orders", "billing", "accounts", "search", "reports", "webhooks", "sessions", "exports")


def event(issue: int, timestamp: str) -> dict[str, Any]:
    """One event of an issue."""
    word = _WORDS[issue % len(_WORDS)]
    return {
        "event_id": EVENT_ID,
        "timestamp": timestamp,
        "platform": "python",
        "level": "error",
        "logger": "django.request",
        "transaction": f"/{word}/{{id}}/pay",
        "release": "shop@2026.11.2",
        "environment": "production",
        "server_name": f"web-{issue % 7}",
        "exception": {
            "values": [
                {
                    "type": f"PaymentDeclined{issue}",
                    "module": f"shop.{word}.errors",
                    "value": f"card declined for order {NUMBER} of {word}",
                    "mechanism": {"type": "django", "handled": False},
                    "stacktrace": {"frames": [_frame(issue, depth) for depth in range(FRAMES - 2 + issue % 5)]},
                }
            ]
        },
        "breadcrumbs": {"values": [_breadcrumb(issue, n, timestamp) for n in range(16 - issue % 5)]},
        "request": {
            "method": "POST",
            "url": f"https://shop.example/{word}/{NUMBER}/pay",
            "query_string": "attempt=2",
            "headers": {
                "Accept": "application/json",
                "Host": "shop.example",
                "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101",
            },
        },
        "user": {"id": f"user-{NUMBER}"},
        "tags": {"region": "eu-west", "service": "checkout"},
        "contexts": {
            "runtime": {"name": "CPython", "version": "3.12.4", "build": "3.12.4 (main)"},
            "trace": {"trace_id": EVENT_ID, "span_id": "b7ad6b7169203331", "op": "http.server"},
        },
        "modules": {f"package-{n}": f"{n}.{issue}.0" for n in range(20)},
        "extra": {"sys.argv": ["/srv/shop/venv/bin/gunicorn", "shop.wsgi"]},
        "sdk": {
            "name": "sentry.python.django",
            "version": "2.75.0",
            "packages": [{"name": "pypi:sentry-sdk", "version": "2.75.0"}],
            "integrations": ["django", "logging", "stdlib", "threading"],
        },
    }


def _frame(issue: int, depth: int) -> dict[str, Any]:
    """A call with the eleven lines around it and its local variables."""
    word = _WORDS[(issue + depth) % len(_WORDS)]
    ours = depth % 3 == 1
    path = f"shop/{word}/step_{(issue * depth) % 97}.py" if ours else f"django/{word}/layer_{depth}.py"
    root = "/srv/shop" if ours else "/srv/shop/venv/lib/python3.12/site-packages"
    line = 10 + (7 * issue + 13 * depth) % 900
    return {
        "filename": path,
        "abs_path": f"{root}/{path}",
        "module": path.removesuffix(".py").replace("/", "."),
        "function": f"handle_{word}_{(issue * depth) % 61}",
        "lineno": line,
        "pre_context": [f"    step_{at} = self.prepare(order, {at})" for at in range(line - 5, line)],
        "context_line": f"    result = self.{word}.charge(order, amounts[{depth}], order.currency)",
        "post_context": [f"    self.{word}.record(step_{at})" for at in range(line + 1, line + 6)],
        "in_app": ours,
        "vars": {"order": f"<Order {NUMBER}>", "amount": f"'{NUMBER} EUR'", "retries": str(depth % 4)},
    }


def _breadcrumb(issue: int, n: int, timestamp: str) -> dict[str, Any]:
    word = _WORDS[(issue + n) % len(_WORDS)]
    return {
        "type": "default",
        "category": ("httplib", "query", "django.request")[n % 3],
        "level": "info",
        "timestamp": timestamp,
        "message": f"{word}: GET /api/v1/{word}/{NUMBER} answered 200 after {n * 37 % 411} ms",
    }


def texts(timestamp: str) -> list[bytes]:
    """The envelope of each issue, with the placeholders in it; `timestamp` (RFC 3339) is when they happened."""
    return [_envelope(event(issue, timestamp), timestamp) for issue in range(ISSUES)]


def _envelope(told: dict[str, Any], timestamp: str) -> bytes:
    payload = json.dumps(told, separators=(",", ":"))
    header = {"event_id": EVENT_ID, "sent_at": timestamp}
    item = {"type": "event", "content_type": "application/json", "length": len(payload)}
    return "\n".join([json.dumps(header), json.dumps(item), payload, ""]).encode()


def sending(dsn: str, laid_out: Sequence[bytes], turn: int, number: int) -> Client:
    """Report events of all issues in turn, as an SDK that was given nothing but a DSN.

    `turn` and `number` keep apart what the clients of a run send.
    """
    address = urlsplit(dsn)
    path = f"/api{address.path}/envelope/"
    headers = {
        "content-type": "application/x-sentry-envelope",
        "user-agent": "sentry.python.django/2.75.0",
        "x-sentry-auth": f"Sentry sentry_key={address.username}, sentry_version=7, sentry_client=sentry.python/2.75.0",
    }
    count = (turn * 1_000 + number) * 100_000
    while True:
        count += 1
        body = laid_out[(number + count) % len(laid_out)].replace(NUMBER.encode(), b"%010d" % count)
        yield ("POST", path, headers, body.replace(EVENT_ID.encode(), b"%032x" % (count * _SPREAD % (1 << 128))))
