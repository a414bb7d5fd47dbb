"""Deadlines of many waits: each ends in time, and is not mistaken for anything else that ends it."""

from __future__ import annotations

import asyncio

import pytest

from service.deadlines import ROUND, Deadlines


async def wait(among: Deadlines, seconds: float, work: float) -> str:
    with among.within(seconds):
        await asyncio.sleep(work)
    return "done"


async def test_each_wait_ends_within_a_round_of_its_deadline():
    among, running = Deadlines(), asyncio.get_running_loop()
    began = running.time()
    waits = [asyncio.create_task(wait(among, seconds, 30)) for seconds in (0.1, 0.3, 20)]
    ended: list[float] = []
    for task in waits[:2]:
        with pytest.raises(TimeoutError):
            await task
        ended.append(running.time() - began)
    assert ended[0] >= 0.1 - ROUND
    assert ended[1] >= 0.3 - ROUND
    assert not waits[2].done()
    assert len(among) == 1
    waits[2].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits[2]
    assert len(among) == 0


async def test_what_ends_in_time_is_let_be():
    among = Deadlines()
    assert await asyncio.gather(*(wait(among, 5, 0.01) for _ in range(20))) == ["done"] * 20
    await asyncio.sleep(3 * ROUND)
    assert len(among) == 0


async def test_it_goes_round_again_after_a_time_without_waits():
    among = Deadlines()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await wait(among, 0.01, 30)
        await asyncio.sleep(3 * ROUND)


async def test_an_error_and_a_cancelled_task_stay_what_they_are():
    among = Deadlines()

    async def fail() -> None:
        with among.within(5):
            raise KeyError("mine")

    with pytest.raises(KeyError):
        await fail()
    task = asyncio.create_task(wait(among, 5, 30))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_whoever_cancels_in_the_moment_of_the_deadline_is_heard():
    """Both before the task runs again: it was told to end, and ends."""
    deadline = Deadlines().within(5)

    async def work() -> None:
        with deadline:
            await asyncio.sleep(30)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    deadline.expire()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_one_within_another():
    among = Deadlines()
    with pytest.raises(TimeoutError), among.within(0.05), among.within(30):
        await asyncio.sleep(30)
    with among.within(30):
        with pytest.raises(TimeoutError), among.within(0.05):
            await asyncio.sleep(30)
        await asyncio.sleep(0.01)
    assert len(among) == 0
