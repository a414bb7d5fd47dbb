"""A provider that is asked too much, or is down, is left alone per connection, and callers are told when (G-164)."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx2
import pytest

from service.http.edge.routes import all_endpoints
from tests.service.http.analytics.test_connection import provider as provider  # noqa: PLC0414 (found by name)
from tests.service.http.analytics.test_connection import running as running  # noqa: PLC0414
from tests.service.http.analytics.test_connection import server as server  # noqa: PLC0414
from tests.service.http.analytics.test_connection import world as world  # noqa: PLC0414
from tests.support import long_after
from tests.support.api import World, at_once, ok, refused
from tests.support.connecting import connect, rested
from tests.support.onboarding import Onboarding, onboard
from tests.support.plans import plan_body
from tests.support.provider import FakeProvider

QUERY = "/api/projects/42/query/"


async def names(world: World, onb: Onboarding) -> httpx2.Response:
    """Read the names of events, whatever comes of it."""
    headers = {"authorization": f"Bearer {onb.owner.secret}"}
    return await world.client.get(f"/v1/projects/{onb.project_id}/event-names", headers=headers)


async def connected(world: World, provider: FakeProvider) -> Onboarding:
    onb = await onboard(world)
    await connect(onb, provider)
    return onb


@pytest.mark.parametrize("status", [429, 503])
async def test_the_provider_says_when_to_come_again(world: World, provider: FakeProvider, status: int) -> None:
    """503 with what is left of its Retry-After. Nobody asks meanwhile, and other connections do."""
    onb, other = await connected(world, provider), await connected(world, provider)
    provider.fail = {QUERY: lambda handler: handler.reply(status, b"{}", {"retry-after": "2"})}
    error = refused(first := await names(world, onb), 503, "service_unavailable")
    assert (first.headers["retry-after"], error["retryable"]) == ("2", True)
    provider.fail = {}
    asked = len(provider.calls(QUERY))
    for answer in await at_once(6, lambda _: names(world, onb)):
        refused(answer, 503, "service_unavailable")
        assert answer.headers["retry-after"] in {"1", "2"}
    assert len(provider.calls(QUERY)) == asked
    ok(await names(world, other))
    ok(await rested(lambda: names(world, onb)))


ALERT = {
    "blueprint_id": "event-count",
    "params": {"event": "paid"},
    "threshold_column": "row_count",
    "threshold_op": "gte",
    "threshold_value": 1,
}
QUESTIONS: dict[str, tuple[str, str, Any]] = {
    "list_event_names": ("GET", "event-names", None),
    "list_event_property_keys": ("GET", "event-property-keys", None),
    "run_query_blueprint": ("POST", "query-blueprints/event-count/run", {"params": {"event": "paid"}}),
    "query_analytics": ("POST", "analytics/query", {"query": "select event from events"}),
    "preview_alert": ("POST", "alerts/preview", ALERT),
    "evaluate_alert": ("POST", "alerts/{alert_id}/evaluate", {}),
    "list_feature_flags": ("GET", "feature-flags", None),
    "list_surveys": ("GET", "surveys", None),
    "list_experiments": ("GET", "experiments", None),
    "list_session_recordings": ("GET", "session-recordings", None),
    "get_next_steps": ("GET", "next-steps", None),
    "verify_install": ("POST", "install/verify", {}),
    "get_verify_report": ("GET", "verify-report", None),
    "list_answer_contracts": ("GET", "answer-contracts", None),
}
"""Operations that ask the connected provider, below the project."""
ELSEWHERE = {
    "configure_provider_session_replay",  # tests/service/http/provider/test_team.py
    "run_public_query",  # tests/service/http/publications/test_serving.py
    "verify_automation_run",  # tests/service/runs/test_verification_provider.py
}


def test_no_operation_that_asks_a_provider_is_forgotten() -> None:
    asking = {one.operation.operation_id for one in all_endpoints() if "upstream_error" in one.operation.docs.errors}
    assert asking == QUESTIONS.keys() | ELSEWHERE


@pytest.mark.parametrize("status", long_after(1, [429, 500, 502, 599]))
async def test_every_question_is_told_that_the_provider_rests(
    world: World, provider: FakeProvider, status: int
) -> None:
    """A 5xx or 429 of the provider is 503 with Retry-After at each operation, also before its first rest (G-205)."""
    for name, (method, path, body) in QUESTIONS.items():
        onb = await connected(world, provider)
        alert = ok(await onb.owner.post(f"/v1/projects/{onb.project_id}/alerts", ALERT), 201)
        mapped = await onb.owner.call("PUT", f"/v1/projects/{onb.project_id}/signal-map", plan_body())
        assert mapped.status_code in {200, 201}, mapped.text
        where = f"/v1/projects/{onb.project_id}/{path.format(alert_id=alert['id'])}"
        provider.fail = {"/api/": lambda handler: handler.reply(status, b"{}", {"retry-after": "7"})}
        headers = {"authorization": f"Bearer {onb.owner.secret}"}
        answer = await world.client.request(method, where, json=body, headers=headers)
        provider.fail = {}
        refused(answer, 503, "service_unavailable")
        assert answer.headers["retry-after"] == "7", name


async def test_a_token_endpoint_that_is_down_counts(world: World, provider: FakeProvider) -> None:
    """Without a token nothing can be asked."""
    onb = await connected(world, provider)
    provider.revoke_access()
    provider.fail = {"/oauth/token/": 500}
    refused(await names(world, onb), 503, "service_unavailable")
    provider.fail = {}
    asked = len(provider.calls("/oauth/token/"))
    refused(await names(world, onb), 503, "service_unavailable")
    assert len(provider.calls("/oauth/token/")) == asked


async def test_a_read_has_eight_seconds(world: World, provider: FakeProvider) -> None:
    """For its turn, its token and its answer. A silent provider is 504, and no reason to leave it alone."""
    onb = await connected(world, provider)
    over = threading.Event()

    def silent(_: Any) -> None:
        over.wait(30)

    provider.fail = {QUERY: silent}
    began = time.monotonic()
    try:
        refused(await names(world, onb), 504, "upstream_timeout")
        assert time.monotonic() - began < 10
    finally:
        provider.fail = {}
        over.set()
    ok(await names(world, onb))
