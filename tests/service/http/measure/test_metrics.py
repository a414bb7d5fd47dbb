"""A scrape is worked out once for all who ask meanwhile (P25)."""

from __future__ import annotations

import asyncio

import pytest

from service.http.measure import metrics as module
from service.http.measure.metrics import Metrics

CROWD = 200


async def test_scrapes_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd costs two: the one under way, and one that began after the last of them came."""
    metrics, rendered, looks = Metrics(), 0, 0
    begun = asyncio.Event()
    monkeypatch.setattr(module, "RESTS", 0)

    async def figures() -> list[module.Figure]:
        nonlocal looks
        looks += 1
        begun.set()
        await asyncio.sleep(0)
        return []

    def render() -> bytes:
        nonlocal rendered
        rendered += 1
        return b"%d" % rendered

    monkeypatch.setattr(metrics, "render", render)
    first = asyncio.create_task(metrics.scrape(figures))
    await begun.wait()
    crowd = [asyncio.create_task(metrics.scrape(figures)) for _ in range(CROWD)]
    assert await first == b"1"
    crowd[0].cancel()  # Who goes away takes the others' scrape from nobody.
    assert await asyncio.gather(*crowd[1:]) == [b"2"] * (CROWD - 1)
    assert await metrics.scrape(figures) == b"3", "whoever comes later is told what is then"
    assert looks == 1, "the database is looked at once in a second"


async def test_a_scrape_that_fails_is_told_and_the_next_one_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = Metrics()
    monkeypatch.setattr(module, "RESTS", 0)

    async def broken() -> list[module.Figure]:
        raise ZeroDivisionError

    async def working() -> list[module.Figure]:
        return []

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await metrics.scrape(broken)
    assert b"service_requests" in await metrics.scrape(working)


async def test_between_two_scrapes_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one begins when three times as long has passed as the last one took."""
    metrics, slept = Metrics(), []
    clock = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: clock)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def figures() -> list[module.Figure]:
        nonlocal clock
        clock += 0.5
        return []

    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    await metrics.scrape(figures)
    clock += module.FIGURES_SECONDS
    await metrics.scrape(figures)
    assert slept[-1] == pytest.approx(3 * 0.5 - module.FIGURES_SECONDS)
