"""Shared reads: one for all who wait, none of which began before they asked (G-163)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from service.fairness.turns import Looks, ReadNotDone


class Source:
    """A number that a test changes, read when the test lets a read end."""

    def __init__(self) -> None:
        self.number = 0
        self.reads = 0
        self.gate = asyncio.Event()
        self.failure: BaseException | None = None

    async def read(self, _: str) -> int:
        self.reads += 1
        seen, failure = self.number, self.failure
        await self.gate.wait()
        if failure is not None:
            raise failure
        return seen


async def until(holds: Callable[[], bool]) -> None:
    """Let the others run until something holds."""
    for _ in range(1_000):
        if holds():
            return
        await asyncio.sleep(0)
    pytest.fail("it never held")


async def test_those_who_ask_during_a_read_share_the_next_one() -> None:
    """Fifty who come while the first read is under way see what has changed since that began."""
    source = Source()
    looks = Looks(source.read)
    first = asyncio.create_task(looks.look("a"))
    await until(lambda: source.reads == 1)
    source.number = 1
    others = [asyncio.create_task(looks.look("a")) for _ in range(50)]
    await asyncio.sleep(0)
    source.gate.set()
    assert await first == 0
    assert await asyncio.gather(*others) == [1] * 50
    assert source.reads == 2
    source.number = 2
    assert await looks.look("a") == 2


async def test_names_do_not_wait_for_each_other() -> None:
    source = Source()
    looks = Looks(source.read)
    tasks = [asyncio.create_task(looks.look(name)) for name in "abc"]
    await until(lambda: source.reads == 3)
    source.gate.set()
    assert await asyncio.gather(*tasks) == [0, 0, 0]


async def test_who_goes_away_takes_no_read_along() -> None:
    """Neither the caller of the first read nor the one who began the shared one: the others get their answer."""
    source = Source()
    looks = Looks(source.read)
    callers = [asyncio.create_task(looks.look("a")) for _ in range(3)]
    await until(lambda: source.reads == 1)
    callers[0].cancel()
    await until(lambda: source.reads == 2)
    callers[1].cancel()
    source.gate.set()
    assert await callers[2] == 0
    assert source.reads == 2


async def test_a_read_ahead_is_one_that_nobody_waits_for() -> None:
    """There is one at a time; who asks meanwhile waits for one that begins later."""
    source = Source()
    looks = Looks(source.read)
    looks.look_ahead("a")
    looks.look_ahead("a")
    await until(lambda: source.reads == 1)
    looks.look_ahead("a")
    source.number = 1
    asked = asyncio.create_task(looks.look("a"))
    source.gate.set()
    assert await asked == 1
    assert source.reads == 2
    source.failure = ValueError("nobody hears of it")
    looks.look_ahead("a")
    await until(lambda: source.reads == 3)


async def test_a_failure_is_told_to_all_and_not_kept() -> None:
    source = Source()
    looks = Looks(source.read)
    source.failure = ValueError("gone")
    source.gate.set()
    found = await asyncio.gather(*(looks.look("a") for _ in range(3)), return_exceptions=True)
    assert found == [source.failure] * 3
    source.failure = None
    assert await looks.look("a") == 0


async def test_without_a_turn_for_the_one_the_others_take_their_own() -> None:
    """Whoever has no turn left began the shared read: the others are not refused for that."""
    source = Source()
    looks = Looks(source.read)
    first, second, *others = [asyncio.create_task(looks.look("a")) for _ in range(4)]
    await until(lambda: source.reads == 1)
    source.failure = ReadNotDone()
    first.cancel()
    await until(lambda: source.reads == 2)
    source.failure = None
    source.gate.set()
    with pytest.raises(ReadNotDone):
        await second
    assert await asyncio.gather(*others) == [0, 0]
