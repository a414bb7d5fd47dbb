"""The payment provider in tests: notifications as it signs them, and a small stand-in for its pages and prices.

The stand-in keeps what it was sent, takes each idempotency key once, and fails as it is told to. It is written from
the provider's published interface, independently of the service.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qsl

from service.testing.loopback import Given, Heard, LoopbackServer

KEY = "sk_test_" + "k" * 24
SECRET = "whsec_" + "s" * 24
LIST = "/v1/subscriptions"
_numbers = itertools.count(1)


def signature(body: bytes, *, secret: str = SECRET, at: float | None = None) -> str:
    """The value of the signature header over a body, made now without a time."""
    moment = int(time.time() if at is None else at)
    mac = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={moment},v1={mac}"


def notification(kind: str, about: dict[str, Any], created: int, id_: str | None = None) -> dict[str, Any]:
    """A notification of a type about an object."""
    return {
        "id": id_ or f"evt_{next(_numbers):08}",
        "object": "event",
        "api_version": "2025-03-31.basil",
        "created": created,
        "livemode": False,
        "pending_webhooks": 1,
        "type": kind,
        "data": {"object": about},
    }


def subscription(id_: str, status: str = "active", plan: str = "pro", **more: Any) -> dict[str, Any]:
    """A subscription to a plan, as notifications show it; `user_id` is remembered by the provider."""
    user_id, until = more.pop("user_id", None), more.pop("until", 1_900_000_000)
    price = {"id": f"price_{plan}", "object": "price", "lookup_key": plan, "metadata": {"plan": plan}}
    return {
        "id": id_,
        "object": "subscription",
        "customer": f"cus_{id_}",
        "status": status,
        "metadata": {} if user_id is None else {"user_id": user_id, "plan": plan},
        "items": {"object": "list", "data": [{"id": "si_1", "price": price, "current_period_end": until}]},
        **more,
    }


def checkout(id_: str, user_id: str, plan: str = "pro", **more: Any) -> dict[str, Any]:
    """A checkout session that ended well and made the subscription."""
    return {
        "id": f"cs_{id_}",
        "object": "checkout.session",
        "mode": "subscription",
        "payment_status": "paid",
        "client_reference_id": user_id,
        "customer": f"cus_{id_}",
        "subscription": id_,
        "metadata": {"user_id": user_id, "plan": plan},
        **more,
    }


@dataclass
class FakePayments:
    """The provider's state. `fail` holds, by path, the status to answer with instead, or seconds to wait first."""

    url: str = ""
    prices: list[dict[str, Any]] = field(default_factory=list)
    calls: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    canceled: list[str] = field(default_factory=list)
    subscriptions: list[dict[str, Any]] = field(default_factory=list)  # as they stand, the newest first
    answered: dict[str, Any] = field(default_factory=dict)
    fail: dict[str, int] = field(default_factory=dict)
    slow: dict[str, float] = field(default_factory=dict)
    answer_as: dict[str, Any] = field(default_factory=dict)  # by path, what to answer with instead
    looks: int = 0  # how often the subscriptions were listed
    page: int = 100  # subscriptions of a page at most
    lock: threading.Lock = field(default_factory=threading.Lock)

    def sent(self, path: str) -> list[dict[str, str]]:
        """The forms of the requests to a path."""
        return [form for _, where, form in self.calls if where == path]

    def forget(self) -> None:
        """Begin anew."""
        parts = (self.prices, self.calls, self.canceled, self.subscriptions, self.answered, self.answer_as)
        for part in (*parts, self.fail, self.slow):
            part.clear()  # type: ignore[attr-defined]
        self.looks = 0

    def answer(self, method: str, path: str, form: dict[str, str], headers: Any) -> tuple[int, Any]:
        """Answer one request."""
        time.sleep(self.slow.get(path, 0))
        with self.lock:
            if (method, path) == ("GET", LIST):
                self.looks += 1  # apart: a service looks by itself, at any time
            else:
                self.calls.append((method, path, form))
            if headers.get("authorization") != f"Bearer {KEY}":
                return 401, {"error": {"type": "invalid_request_error", "message": "Invalid API Key provided: sk_x"}}
            if path in self.fail:
                kind = "api_error" if self.fail[path] >= 429 else "invalid_request_error"
                return self.fail[path], {"error": {"type": kind, "message": f"leaks {KEY}"}}
            if path in self.answer_as:
                return 200, self.answer_as[path]
            key = headers.get("idempotency-key")
            if method == "POST" and key in self.answered:
                return 200, self.answered[key]
            status, made = self._made(method, path, form)
            if method == "POST" and key:
                self.answered[key] = made
            return status, made

    def _made(self, method: str, path: str, form: dict[str, str]) -> tuple[int, Any]:  # noqa: PLR0911 - a table
        number = next(_numbers)
        match method, path.removeprefix("/v1/").split("/"):
            case "GET", ["prices"]:
                wanted = form.get("lookup_keys[0]")
                data = [price for price in self.prices if price["lookup_key"] == wanted]
                if form.get("expand[0]") != "data.product":
                    data = [{**price, "product": price["product"]["id"]} for price in data]
                return 200, {"object": "list", "data": data, "has_more": False, "url": "/v1/prices"}
            case "POST", ["prices"]:
                price = {
                    "id": f"price_{number}",
                    "object": "price",
                    "unit_amount": int(form["unit_amount"]),
                    "currency": form["currency"],
                    "lookup_key": form["lookup_key"],
                    "metadata": {"plan": form["metadata[plan]"]},
                    "recurring": {"interval": form["recurring[interval]"], "interval_count": 1},
                    "product": {
                        "id": f"prod_{number}",
                        "object": "product",
                        "active": True,
                        "name": form["product_data[name]"],
                        "metadata": {"service_plan": form["product_data[metadata][service_plan]"]},
                    },
                }
                for other in self.prices:
                    other["lookup_key"] = None if other["lookup_key"] == price["lookup_key"] else other["lookup_key"]
                self.prices.append(price)
                return 200, price
            case "POST", ["customers"]:
                return 200, {"id": f"cus_{number}", "object": "customer"}
            case "POST", ["checkout", "sessions"]:
                made = {"id": f"cs_{number}", "object": "checkout.session", "url": f"{self.url}/pay/cs_{number}"}
                return 200, made
            case "POST", ["billing_portal", "sessions"]:
                id_ = f"bps_{number}"
                return 200, {"id": id_, "object": "billing_portal.session", "url": f"{self.url}/portal/{id_}"}
            case "GET", ["subscriptions"]:
                ids = [about["id"] for about in self.subscriptions]
                if (after := form.get("starting_after")) is not None and after not in ids:
                    error = {"type": "invalid_request_error", "code": "resource_missing", "message": "No such thing"}
                    return 400, {"error": error}
                rest = self.subscriptions[0 if after is None else 1 + ids.index(after) :]
                limit = min(self.page, int(form["limit"]))
                return 200, {"object": "list", "data": rest[:limit], "has_more": len(rest) > limit}
            case "DELETE", ["subscriptions", id_]:
                if id_ in self.canceled:
                    error = {"type": "invalid_request_error", "code": "resource_missing", "message": "No such thing"}
                    return 404, {"error": error}
                self.canceled.append(id_)
                return 200, {"id": id_, "object": "subscription", "status": "canceled"}
        return 404, {"error": {"type": "invalid_request_error", "message": "Unrecognized request URL"}}


@contextmanager
def running_payments() -> Iterator[FakePayments]:
    """Serve the stand-in on loopback."""
    fake = FakePayments()

    def respond(heard: Heard) -> Given:
        form = dict(parse_qsl(heard.query or heard.body.decode(), keep_blank_values=True))
        # The service takes the time of a look from the answer.
        moment = {"date": formatdate(usegmt=True)}
        return Given.of(*fake.answer(heard.method, heard.path, form, heard.headers), moment)

    server = LoopbackServer(respond)
    fake.url = server.url
    try:
        yield fake
    finally:
        server.close()
