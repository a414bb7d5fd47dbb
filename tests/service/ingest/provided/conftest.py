"""A server with a connected project, and looks of the test's own beside its worker, whose job is still."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from service.ingest.provided.counting import LookStep
from service.process.assembly import make_services
from service.services import Services
from service.settings import load_settings
from tests.support import seen
from tests.support.api import World, ok
from tests.support.cluster import TestCluster
from tests.support.connecting import connect, without_looks
from tests.support.onboarding import Onboarding, onboard
from tests.support.provider import FakeProvider, running_provider
from tests.support.server import ServerHandle, running_server


@pytest.fixture(scope="package")
def running() -> Iterator[FakeProvider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture(scope="package")
def server(
    tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster, running: FakeProvider
) -> Iterator[ServerHandle]:
    with running_server(tmp_path_factory.mktemp("provided"), cluster, running.env) as handle:
        without_looks(handle)
        yield handle


@pytest.fixture
def provider(running: FakeProvider) -> FakeProvider:
    """The provider, forgetful between tests."""
    running.forget()
    return running


@dataclass
class Watched:
    """A connected project whose exceptions are looked at."""

    world: World
    onb: Onboarding
    services: Services
    dying: list[str] = field(default_factory=list)

    async def look(self) -> int:
        """Look once. Returns how many exceptions were counted."""
        return await self.services.exceptions.look(self.onb.project_id)

    async def cases(self) -> list[dict[str, Any]]:
        """The cases of the project, the oldest first."""
        found: list[dict[str, Any]] = ok(await self.onb.owner.get(f"/v1/projects/{self.onb.project_id}/cases"))["cases"]
        return found[::-1]

    async def case(self, case_id: str) -> Any:
        """A case in full."""
        return ok(await self.onb.owner.get(f"/v1/cases/{case_id}"))

    async def sql(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of a query over the project, which it names by its one place."""
        return await self.world.sql(query, self.onb.project_id)

    def store(self, step: LookStep) -> None:
        """Store a step, as a look does."""
        self.services.exceptions._counter.store(step)


@pytest_asyncio.fixture
async def watched(server: ServerHandle, provider: FakeProvider) -> AsyncIterator[Watched]:
    """A connected project."""
    async with seen.async_client(server.base_url, timeout=30) as client:
        world = World(client, server)
        onb = await onboard(world)
        assert (await connect(onb, provider))["status"] == "connected"
        services = make_services(load_settings({**server.env}))
        await services.store.start()
        try:
            yield Watched(world, onb, services)
        finally:
            await services.store.stop()
            services.exceptions.close()
