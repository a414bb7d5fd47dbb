"""A request that a handler makes for its caller: every check of its operation, one place and one token (G-168)."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from service.http.answer.reply import Reply
from service.http.declare.headers import HEAD_KEY, Head
from service.http.edge.exchange import InnerExchange
from service.http.edge.routes import bind
from service.http.edge.steps import answer_inside
from tests.service.http.edge.fakes import PROJECT
from tests.service.http.edge.toy_api import ENDPOINTS, THING, Toy, serving

BOUND = {bound.name: bound for bound in bind(ENDPOINTS)}


async def _body(body: bytes) -> Any:
    return {"type": "http.request", "body": body, "more_body": False}


async def ask(toy: Toy, name: str, who: str, body: bytes = b"", **headers: str) -> Reply:
    """Make an inner request to an operation of the toy API."""
    operation = BOUND[name].operation
    head = {"authorization": f"Bearer {who}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope: Any = {
        "type": "http",
        "method": operation.method,
        "path": operation.path,
        "query_string": b"",
        "headers": [],
        "path_params": {"project_id": PROJECT} if "{" in operation.path else {},
        "client": ("192.0.2.1", 1),
        HEAD_KEY: Head("req_outer", head, frozenset()),
    }
    return await answer_inside(InnerExchange(toy.edge.pipeline, BOUND[name], scope, partial(_body, body)))


async def test_it_takes_no_token_and_no_place_of_its_own() -> None:
    """The outer request has paid, so that a tool costs what its operation costs."""
    async with serving(rate_limits={"key": 2}, max_in_flight=1) as toy:
        first = await toy.send_as("member", "GET", "/v1/things")
        for _ in range(5):
            inner = await ask(toy, "search", "member")
            assert inner.status == 200
            assert "ratelimit-limit" not in inner.headers
        last = await toy.send_as("member", "GET", "/v1/things")
        assert [answer.headers["ratelimit-remaining"] for answer in (first, last)] == ["1", "0"]
        assert len(toy.edge.pipeline.in_flight) == 0


async def test_it_passes_every_check_of_its_operation(toy: Toy) -> None:
    """Credential, kind, form and key, with the codes of the operation, under the id of the outer request."""
    body = msgspec.json.encode(THING)
    for who, sent, headers, status, code in (
        ("nobody", body, {"idempotency_key": "k"}, 401, "unauthenticated"),
        ("dsn", body, {"idempotency_key": "k"}, 403, "principal_not_allowed"),
        ("member", b"{", {"idempotency_key": "k", "content_type": "application/json"}, 400, "invalid_payload"),
        ("member", body, {"content_type": "application/json"}, 400, "idempotency_key_required"),
    ):
        reply = await ask(toy, "member_write", who, sent, **headers)
        assert (reply.status, msgspec.json.decode(reply.body)["error"]["code"]) == (status, code)
        assert reply.headers["x-service-request-id"] == "req_outer"
    done = await ask(toy, "member_write", "member", body, content_type="application/json", idempotency_key="k")
    assert (done.status, toy.edge.pipeline.running) == (200, 0)
