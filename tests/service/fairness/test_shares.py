"""The API processes of a machine share its limits: together they never exceed one (G-012)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.fairness.bounds import SHARE, FairBounds, Weighted
from service.http.app import create_app
from service.http.edge.limits import RateLimiter
from service.http.edge.routes import all_endpoints
from service.process.apiserver import MAX_CONNECTIONS
from service.process.assembly import make_services
from service.settings import load_settings
from service.settingvalues import RATE_LIMITS
from tests.service.test_settings import EXTERNAL

PROCESSES = (2, 3, 4, 16)
PAIRS = 2
"""Places of several tenants that a process always has, because one tenant would take the only one."""
ONE_BODY = frozenset({"bodies", "files", "strangers", "weights"})
"""Rooms that always have space for the largest body or event of one sender, and more in all."""
WHOLE = frozenset(
    {"apart", "offload", "pace", "_aside", "_thread", "_worker", "packer", "turns", "_semaphore", "_session"}
)
"""Parts with a thread of each process, the working memory of others, and what an event loop reads at once."""


@pytest.fixture(autouse=True)
def alone_again() -> Iterator[None]:
    yield
    SHARE.processes = 1


def bounds_in(processes: int, directory: Path) -> dict[str, float]:
    """Every bound of an API process that is not started, by its way there, in a machine with so many."""
    SHARE.processes = processes
    services = make_services(load_settings({**EXTERNAL, "SERVICE_DATA_DIR": str(directory)}))
    pipeline = create_app(lambda: services, all_endpoints()).pipeline
    pipeline.limiter = RateLimiter(RATE_LIMITS)
    found: dict[str, float] = {}
    for name, part in (("pipeline", pipeline), ("services", services)):
        _collect(part, name, found, set())
    return found


def _collect(part: Any, way: str, found: dict[str, float], seen: set[int]) -> None:
    if id(part) in seen or way.count(".") > 6:
        return
    seen.add(id(part))
    if isinstance(part, FairBounds):
        for name in ("_most", "_per_tenant", "_per_place", "_per_member"):
            found[f"{way}.{name}"] = getattr(part, name)
    elif isinstance(part, Weighted):
        found[f"{way}._max_bytes"] = part._max_bytes
    elif isinstance(part, RateLimiter):
        found.update({f"{way}.{name}": limit for name, limit in part._limits.items()})
    elif type(part).__module__.startswith("service."):
        names = [*getattr(part, "__dict__", {}), *getattr(type(part), "__slots__", ())]
        for name in names:
            if hasattr(part, name):
                _collect(getattr(part, name), f"{way}.{name}", found, seen)


@pytest.mark.parametrize("processes", PROCESSES)
async def test_the_shares_of_all_processes_are_never_above_the_limit(processes: int, tmp_path: Path):
    """Of every bound of every part, found by walking through them."""
    limits = bounds_in(1, tmp_path)
    shares = bounds_in(processes, tmp_path)
    assert shares.keys() == limits.keys()
    assert len(limits) > 100
    above = {
        way: (limit, shares[way])
        for way, limit in limits.items()
        if limit != float("inf") and processes * shares[way] > limit and shares[way] > PAIRS and not _whole(way)
    }
    assert above == {}
    divided = [way for way, limit in limits.items() if limit != float("inf") and shares[way] < limit]
    assert len(divided) > 60


def _whole(way: str) -> bool:
    return not (ONE_BODY | WHOLE).isdisjoint(way.split("."))


@pytest.mark.parametrize("processes", [1, *PROCESSES])
def test_a_share_is_rounded_down_and_never_nothing(processes: int):
    SHARE.processes = processes
    for limit in (*range(1, 200), 600, 60_000, MAX_CONNECTIONS):
        assert 1 <= SHARE.of(limit) <= limit
        assert processes * SHARE.of(limit) <= max(limit, processes)
        assert min(limit, 2) <= SHARE.of(limit, least=2)
    assert SHARE.of(0) == 0, "a limit that is switched off stays so"


async def test_alone_a_process_has_the_whole(tmp_path: Path):
    """With one process every limit is what it is on the page."""
    limits = bounds_in(1, tmp_path)
    assert {name: limits[f"pipeline.limiter.{name}"] for name in RATE_LIMITS} == dict(RATE_LIMITS)
    assert limits["pipeline.bodies.bounds._most"] == 64 * 1024 * 1024
    assert limits["services.store.reads._turns.bounds._most"] == 6


async def test_the_largest_body_fits_into_a_share(tmp_path: Path):
    """However many processes there are, each body that an operation takes into memory is read."""
    shares = bounds_in(64, tmp_path)
    bodies = [endpoint.operation.body for endpoint in create_app(pytest.fail).pipeline.bound.values()]
    whole = [max(body.max_body, body.largest_form) for body in bodies if not body.piecewise and not body.streams]
    assert max(whole) <= shares["pipeline.bodies.bounds._per_tenant"]
