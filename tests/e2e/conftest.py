"""Two API processes on one database, and an arena with a project of its own on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.support.cluster import TestCluster
from tests.support.loop.arena import Arena, open_arena, open_pair
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.server import ServerHandle


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> Iterator[list[ServerHandle]]:
    """Two running services on one database."""
    with open_pair(tmp_path_factory.mktemp("pair"), cluster) as servers:
        yield servers


@pytest.fixture
def prepared(pair: list[ServerHandle]) -> Iterator[HttpScene]:
    """A project with an enabled contract and every credential."""
    with open_scene(pair[0]) as scene:
        yield scene.prepare()


@pytest_asyncio.fixture
async def arena(prepared: HttpScene, pair: list[ServerHandle]) -> AsyncIterator[Arena]:
    """Callers of that project, at both services."""
    async with open_arena(prepared, pair) as opened:
        yield opened
