"""Refusals of one caller leave one after the other, and everybody else's at once (P25)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from service.http.edge.limits import LONGEST_HELD, MOST_CALLERS, REFUSAL_BURST, REFUSAL_RATE, RefusalPace
from tests.service.http.edge.fakes import PROJECT
from tests.service.http.edge.toy_api import Toy, serving

THINGS = f"/v1/projects/{PROJECT}/things"


@given(st.lists(st.floats(0, 3), max_size=400))
def test_a_caller_is_held_once_its_burst_is_gone(pauses: list[float]):
    pace, now = RefusalPace(), 1000.0
    for asked, pause in enumerate(pauses):
        now += pause
        held = pace.delay("flood", now)
        assert 0 <= held <= LONGEST_HELD
        assert asked >= REFUSAL_BURST or held == 0
        assert pace.delay(f"another {asked}", now) == 0


def test_at_one_moment_the_next_leaves_after_the_one_before():
    pace = RefusalPace()
    held = [pace.delay("flood", 1000.0) for _ in range(REFUSAL_BURST + 5)]
    assert held == pytest.approx([0] * REFUSAL_BURST + [number / REFUSAL_RATE for number in range(1, 6)], abs=1e-6)
    assert [pace.delay("flood", 1000.0) for _ in range(10_000)][-1] == pytest.approx(LONGEST_HELD)
    assert pace.delay("flood", 1000.0 + LONGEST_HELD + REFUSAL_BURST / REFUSAL_RATE) == 0


def test_so_many_callers_are_remembered():
    pace = RefusalPace()
    for number in range(MOST_CALLERS + REFUSAL_BURST):
        pace.delay(str(number), 1000.0)
    assert len(pace) == MOST_CALLERS


@pytest.fixture
def slow_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's burst fills again while a test lasts."""
    monkeypatch.setattr("service.http.edge.limits.REFUSAL_RATE", 1e-6)
    monkeypatch.setattr("service.http.edge.limits.LONGEST_HELD", 600.0)


@pytest_asyncio.fixture
async def toy() -> AsyncIterator[Toy]:
    async with serving() as made:
        made.edge.pipeline.pace = RefusalPace()
        yield made


@pytest.mark.usefixtures("slow_pace")
async def test_who_floods_is_answered_after_everybody_else(toy: Toy):
    """Strangers of one address are held; who is known is not, nor is what is refused for itself."""
    pace = toy.edge.pipeline.pace
    flood = [asyncio.create_task(toy.send_as(None, "POST", THINGS, json={})) for _ in range(REFUSAL_BURST + 3)]
    for answered, task in enumerate(asyncio.as_completed(flood, timeout=30), 1):
        assert (await task).status_code == 401
        if answered == REFUSAL_BURST:
            break
    assert (await toy.send_as("owner", "POST", THINGS, json={})).status_code == 400
    assert len(pace.held) == 3
    pace.end()
    assert {answer.status_code for answer in await asyncio.gather(*flood)} == {401}


@pytest.mark.usefixtures("slow_pace")
async def test_the_end_of_the_process_releases_all():
    pace = RefusalPace()
    tasks = [asyncio.create_task(pace.hold("flood")) for _ in range(REFUSAL_BURST + 400)]
    await asyncio.sleep(0)
    assert len(pace.held) == 400
    pace.end()
    await asyncio.gather(*tasks)
    assert not pace.held
    await pace.hold("flood")
