"""The toy API, and a second server on one database, as fixtures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest
import pytest_asyncio

from tests.service.http.edge.toy_api import Toy, serving
from tests.support.server import ServerHandle, running_beside


@pytest_asyncio.fixture
async def toy() -> AsyncIterator[Toy]:
    async with serving() as client:
        yield client


@pytest.fixture(scope="module")
def second(server: ServerHandle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerHandle]:
    """Another service on the same database."""
    with running_beside(server, tmp_path_factory.mktemp("second")) as handle:
        yield handle


@pytest.fixture
def both(server: ServerHandle, second: ServerHandle) -> Iterator[list[httpx2.Client]]:
    """Clients of two API processes over one database."""
    with server.client() as one, second.client() as other:
        yield [one, other]
