"""A server with an operator's account at the stand-in, for every file of the folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.service.http.provider.scene import Provided
from tests.support import seen
from tests.support.api import World
from tests.support.cluster import TestCluster
from tests.support.provider.api import FakeApi, running_api
from tests.support.server import ServerHandle, running_server


@pytest.fixture(scope="module")
def running() -> Iterator[FakeApi]:
    with running_api() as api:
        yield api


@pytest.fixture
def api(running: FakeApi) -> Iterator[FakeApi]:
    """The interface, forgetful between tests. Each request of a test has to have fitted the document."""
    for part in (running.projects, running.fail, running.requests):
        part.clear()
    running.ignores_search, running.page_at_most = False, 100
    yield running
    assert running.faults == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster, running: FakeApi) -> Iterator[ServerHandle]:
    with running_server(tmp_path_factory.mktemp("provided"), cluster, running.env()) as handle:
        yield handle


@pytest_asyncio.fixture
async def world(server: ServerHandle) -> AsyncIterator[World]:
    async with seen.async_client(server.base_url, timeout=60) as client:
        yield World(client, server)


@pytest_asyncio.fixture
async def provided(world: World, api: FakeApi) -> Provided:
    owner = await world.sign_in()
    return Provided(world, api, owner, await owner.create_project())
