"""P25 in a short form: each shape for a few seconds; `make torture` holds the neighbours to their p95 as well.

Here only what must never happen is judged, and what a loaded machine cannot cause: an error, a fence that takes more
than two seconds, half a second where milliseconds were usual, memory that grows without bound.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.cluster import TestCluster
from tests.torture.neighbours.attacks import SHAPES
from tests.torture.neighbours.storm import SHORT, Street, street
from tests.torture.neighbours.victims import Seen
from tests.torture.neighbours.world import SHORT as EXTENT

# Not held yet: such a body is decoded, hashed and explained on the event loop, a tenth of a second in one piece.
AWAITED = {
    "history": "a plan of half a megabyte with thousands of places is taken apart in one piece",
    "bodies": "a plan of half a megabyte is refused in one piece; on a busy machine that is too long",
    "strangers": "right after the attacks before it the mark was missed once in five runs, and nobody knows why yet",
}

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def built(cluster: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Street, Seen]]:
    """The service with its three tenants, and how the neighbours fare alone."""
    async with street(cluster, tmp_path_factory.mktemp("street"), EXTENT) as made:
        idle = await made.quiet(SHORT)
        assert idle.wrong == []
        yield made, idle


def _shape(name: str) -> Any:
    reason = AWAITED.get(name)
    return pytest.param(name, marks=[pytest.mark.xfail(strict=False, reason=reason)] if reason else [])


@pytest.mark.parametrize("shape", [_shape(name) for name in SHAPES])
async def test_p25_nobody_stops_another(built: tuple[Street, Seen], shape: str):
    street_, idle = built
    verdict = await street_.attack(shape, idle, SHORT)
    if not verdict.built:
        pytest.skip("answered 501: not built yet")
    assert verdict.wrong == [], str(verdict)
