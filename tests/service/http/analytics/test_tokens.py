"""Tokens of a connection among processes: refreshed once, claimed by one, taken over from the dead (G-022, G-164)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.service.http.analytics.test_connection import provider as provider  # noqa: PLC0414 (found by name)
from tests.service.http.analytics.test_connection import running as running  # noqa: PLC0414
from tests.service.http.analytics.test_connection import server as server  # noqa: PLC0414
from tests.service.http.analytics.test_connection import world as world  # noqa: PLC0414
from tests.support import seen
from tests.support.api import World, ok
from tests.support.connecting import connect
from tests.support.onboarding import Onboarding, onboard
from tests.support.provider import GO_ON, FakeProvider
from tests.support.server import ServerHandle, running_beside

NAMES = "event-names"


@pytest.fixture(scope="module")
def second(
    server: ServerHandle, running: FakeProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerHandle]:
    """Another process on the same database."""
    env = {**running.env, "SERVICE_PROVIDER_CLIENT_SECRET": "client-secret"}
    with running_beside(server, tmp_path_factory.mktemp("second"), env) as handle:
        yield handle


@pytest_asyncio.fixture
async def elsewhere(second: ServerHandle) -> AsyncIterator[World]:
    async with seen.async_client(second.base_url, timeout=30) as client:
        yield World(client, second)


async def connected(world: World, provider: FakeProvider) -> Onboarding:
    onb = await onboard(world)
    await connect(onb, provider)
    provider.requests.clear()
    return onb


async def read(onb: Onboarding, at: World, name: str = NAMES) -> httpx2.Response:
    """Read from the provider by one of the processes, whatever comes of it."""
    headers = {"authorization": f"Bearer {onb.owner.secret}"}
    return await at.client.get(f"/v1/projects/{onb.project_id}/{name}", headers=headers)


def refreshes(provider: FakeProvider) -> list[str]:
    """The refresh tokens that were shown, in order."""
    return [form["refresh_token"] for form in provider.calls("/oauth/token/") if form["grant_type"] == "refresh_token"]


async def test_two_processes_at_once_refresh_once(world: World, elsewhere: World, provider: FakeProvider) -> None:
    """All readers of both find the token ended at the same time. One refresh, and every read succeeds."""
    for _ in range(4):
        onb = await connected(world, provider)
        provider.revoke_access()
        reads = [read(onb, at, name) for at in (world, elsewhere) for name in (NAMES, "event-property-keys")]
        answers = await asyncio.gather(*reads)
        assert [answer.status_code for answer in answers] == [200] * 4
        assert len(refreshes(provider)) == 1


@pytest.mark.parametrize("rotates", [True, False])
async def test_a_refresh_token_is_used_once_if_the_provider_replaces_it(
    world: World, elsewhere: World, provider: FakeProvider, rotates: bool
) -> None:
    onb = await connected(world, provider)
    provider.rotates = rotates
    for at in (world, elsewhere, world):
        provider.revoke_access()
        ok(await read(onb, at))
    shown = refreshes(provider)
    assert (len(shown), len(set(shown))) == (3, 3 if rotates else 1)


async def test_the_others_wait_for_whoever_refreshes(world: World, elsewhere: World, provider: FakeProvider) -> None:
    """While one process waits for its tokens, the other asks the provider for none."""
    onb = await connected(world, provider)
    provider.revoke_access()
    arrived, leave = threading.Event(), threading.Event()
    provider.fail = {"/oauth/token/": holding(arrived, leave)}
    first = asyncio.create_task(read(onb, world))
    try:
        assert await asyncio.to_thread(arrived.wait, 10)
        other = asyncio.create_task(read(onb, elsewhere))
        await until_rejected(provider, 2)
        assert not other.done()
    finally:
        provider.fail = {}
        leave.set()
    assert [(await task).status_code for task in (first, other)] == [200, 200]
    assert len(refreshes(provider)) == 1


async def test_the_claim_of_a_dead_process_runs_out(
    world: World, server: ServerHandle, provider: FakeProvider, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Killed during its refresh, a process leaves a claim of twenty seconds. Then another one refreshes."""
    onb = await connected(world, provider)
    provider.revoke_access()
    arrived, leave = threading.Event(), threading.Event()
    env = {**provider.env, "SERVICE_PROVIDER_CLIENT_SECRET": "client-secret"}
    doomed = ServerHandle(tmp_path_factory.mktemp("doomed"), database_url=server.database_url, env=env)
    doomed.start()
    try:
        provider.fail = {"/oauth/token/": holding(arrived, leave, goes_on=False)}
        async with seen.async_client(doomed.base_url, timeout=30) as client:
            lost = asyncio.create_task(read(onb, World(client, doomed)))
            assert await asyncio.to_thread(arrived.wait, 10)
            doomed.kill()
            with pytest.raises(httpx2.HTTPError):
                await lost
    finally:
        provider.fail = {}
        doomed.stop()
    waiting = asyncio.create_task(read(onb, world))
    await until_rejected(provider, 2)
    assert not waiting.done()
    await world.wait(20)
    assert (await waiting).status_code == 200
    assert len(refreshes(provider)) == 1, "the provider never saw the first one through"
    leave.set()


def holding(arrived: threading.Event, leave: threading.Event, *, goes_on: bool = True) -> Any:
    """Answer the token endpoint only when a test says so: as it is, or not at all."""

    def hold(_: Any) -> Any:
        arrived.set()
        leave.wait(30)
        return GO_ON if goes_on else None

    return hold


async def until_rejected(provider: FakeProvider, times: int) -> None:
    """Wait until so many requests to the API have come, which the provider has rejected."""
    while sum(path.startswith("/api/") for path, _, _ in list(provider.requests)) < times:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
