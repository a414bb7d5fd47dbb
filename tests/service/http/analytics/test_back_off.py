"""A provider that is asked too much, or is down, is left alone per connection, and callers are told when (G-164)."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx2
import pytest

from tests.service.http.analytics.test_connection import provider as provider  # noqa: PLC0414 (found by name)
from tests.service.http.analytics.test_connection import running as running  # noqa: PLC0414
from tests.service.http.analytics.test_connection import server as server  # noqa: PLC0414
from tests.service.http.analytics.test_connection import world as world  # noqa: PLC0414
from tests.support.api import World, at_once, ok, refused
from tests.support.connecting import connect, rested
from tests.support.onboarding import Onboarding, onboard
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
