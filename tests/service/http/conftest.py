"""The toy API as a fixture."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.service.http.edge.toy_api import Toy, serving


@pytest_asyncio.fixture
async def toy() -> AsyncIterator[Toy]:
    async with serving() as client:
        yield client
