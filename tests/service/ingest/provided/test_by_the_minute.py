"""The worker looks at connected projects by itself, within 90 seconds of an exception (G-182)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.support import seen
from tests.support.api import World, ok
from tests.support.cluster import TestCluster
from tests.support.connecting import connect
from tests.support.onboarding import onboard
from tests.support.provider import FakeProvider, running_provider
from tests.support.provider.exceptions import exception
from tests.support.server import ServerHandle, running_server


@pytest.fixture
def busy() -> Iterator[FakeProvider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster, busy: FakeProvider) -> Iterator[ServerHandle]:
    """A server whose worker looks by the minute."""
    with running_server(tmp_path_factory.mktemp("minute"), cluster, busy.env) as handle:
        yield handle


async def test_a_case_opens_within_90_seconds(alone: ServerHandle, busy: FakeProvider) -> None:
    """By the clock of the service. The minutes after that count nothing twice."""
    async with seen.async_client(alone.base_url, timeout=30) as client:
        world = World(client, alone)
        onb = await onboard(world)
        await connect(onb, busy)
        busy.capture("$exception", **exception())
        [[began]] = await world.sql("select service_seconds()")
        ok(await world.test_operator.post("/v1/test-clock/advance", {"seconds": 60}))
        until, path = time.monotonic() + 60, f"/v1/projects/{onb.project_id}/cases"
        while not (cases := ok(await onb.owner.get(path))["cases"]):
            assert time.monotonic() < until
            await asyncio.sleep(0.1)
        assert cases[0]["first_seen_at"] - began <= 90
        [[looks]] = await world.sql("select number from provider_looks")
        ok(await world.test_operator.post("/v1/test-clock/advance", {"seconds": 60}))
        while (await world.sql("select number from provider_looks")) == [(looks,)]:
            assert time.monotonic() < until
            await asyncio.sleep(0.1)
        [case] = ok(await onb.owner.get(path))["cases"]
        assert case["event_count"] == 1
