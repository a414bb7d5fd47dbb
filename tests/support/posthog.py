"""Bodies as PostHog's SDKs write them."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote
from uuid import uuid4

# As posthog for Python sends an exception, shortened: the reported exception first, the latest call last.
EXCEPTION: dict[str, Any] = {
    "event": "$exception",
    "distinct_id": "u1",
    "timestamp": "2026-11-22T10:00:00.000000+00:00",
    "properties": {
        "$lib": "posthog-python",
        "$lib_version": "7.91.1",
        "$exception_level": "error",
        "environment": "staging",
        "$app_version": "shop@1.2.3",
        "region": "eu",
        "$exception_list": [
            {
                "mechanism": {"type": "generic", "handled": True},
                "type": "PaymentError",
                "value": "Card 17 refused",
                "module": "shop.pay",
                "stacktrace": {
                    "type": "raw",
                    "frames": [
                        {
                            "platform": "python",
                            "filename": "requests/api.py",
                            "abs_path": "/srv/app/.venv/lib/python3.11/site-packages/requests/api.py",
                            "function": "get",
                            "in_app": False,
                        },
                        {
                            "platform": "python",
                            "filename": "shop/pay.py",
                            "abs_path": "/srv/app/shop/pay.py",
                            "function": "charge",
                            "module": "shop.pay",
                            "lineno": 17,
                            "context_line": "    raise PaymentError(card)",
                            "code_variables": {"card": "4111111111111111"},
                            "in_app": True,
                        },
                    ],
                },
            },
            {"type": "KeyError", "value": "'card'"},
        ],
    },
}

# As posthog-node sends an event.
CAPTURED: dict[str, Any] = {
    "event": "order placed",
    "distinct_id": "u1",
    "type": "capture",
    "library": "posthog-node",
    "timestamp": "2026-11-22T10:00:00.000Z",
    "properties": {"$lib": "posthog-node", "$lib_version": "5.70.0", "$geoip_disable": True, "total": 12.5},
}


def event(like: dict[str, Any] = CAPTURED, **members: Any) -> dict[str, Any]:
    """An event like another, with an id of its own."""
    return {**like, "uuid": str(uuid4()), **members}


def batch(key: str, *events: Any, **members: Any) -> bytes:
    """A body of `/batch/`."""
    return json.dumps({"api_key": key, "batch": list(events), "sent_at": "2026-11-22T10:00:01Z", **members}).encode()


def form(value: Any) -> bytes:
    """A body as older browsers send it: a form with one field in base64."""
    return b"data=" + quote(base64.b64encode(json.dumps(value).encode()).decode(), safe="").encode()
