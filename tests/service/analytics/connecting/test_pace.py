"""The pace of a connection: few at once, verification first, and rests that grow and end (G-164)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from weakref import ref

import pytest

from service.analytics.connecting.http import (
    AT_ONCE,
    MOST_CONNECTIONS,
    MOST_WAITING,
    Answer,
    HttpAnswer,
    Pace,
    Paces,
    Throttled,
)
from statemachines.kernel.machine import ReadFailed

GOOD = HttpAnswer(200, b"{}")


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def says(*answers: Answer) -> tuple[Callable[[], Awaitable[Answer]], list[Answer]]:
    """A request with these answers, one after the other; and those that are left."""
    left = list(answers)

    async def ask() -> Answer:
        return left.pop(0)

    return ask, left


def rest(seconds: int) -> Throttled:
    return Throttled("unreachable", retry_after=seconds)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_rests_double_and_a_good_answer_ends_them(status: int) -> None:
    """1, 2, 4 … 60 seconds, in which nobody asks. Afterwards one does."""
    clock = Clock()
    pace = Pace(clock)
    for seconds in (1, 2, 4, 8, 16, 32, 60, 60, 60):
        ask, left = says(HttpAnswer(status, b""), GOOD)
        assert await pace.send(ask, first=False) == rest(seconds)
        clock.now += seconds - 0.5
        assert await pace.send(ask, first=True) == rest(1), "verification waits as well"
        assert left == [GOOD]
        clock.now += 0.5
    ask, _ = says(GOOD, HttpAnswer(status, b""))
    assert await pace.send(ask, first=False) == GOOD
    assert await pace.send(ask, first=False) == rest(1)


@pytest.mark.parametrize(("told", "rests"), [(7, 7), (300, 300), (3600, 300), (0, 1), (None, 1)])
async def test_the_provider_says_how_long(told: int | None, rests: int) -> None:
    """Up to five minutes."""
    ask, _ = says(HttpAnswer(429, b"", told))
    assert await Pace(Clock()).send(ask, first=False) == rest(rests)


async def test_a_token_endpoint_that_rests_counts() -> None:
    """Its answer comes as Throttled, for there is no request without a token."""
    clock = Clock()
    pace = Pace(clock)
    ask, left = says(rest(7), GOOD)
    assert await pace.send(ask, first=False) == rest(7)
    assert await pace.send(ask, first=False) == rest(7)
    clock.now += 7
    assert await pace.send(ask, first=False) == GOOD
    assert left == []


@pytest.mark.parametrize(
    "answer", [HttpAnswer(400, b""), HttpAnswer(403, b""), ReadFailed("timeout"), ReadFailed("unreachable")]
)
async def test_other_failures_begin_no_rest(answer: Answer) -> None:
    """They are told as they are, and the next request is sent."""
    ask, left = says(answer, GOOD)
    pace = Pace(Clock())
    assert await pace.send(ask, first=False) == answer
    assert await pace.send(ask, first=False) == GOOD
    assert left == []


class Held:
    """Requests that end when a test says so, in the order in which they began."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ends: dict[str, asyncio.Future[Answer]] = {}

    def ask(self, name: str) -> Callable[[], Awaitable[Answer]]:
        async def ask() -> Answer:
            self.begun.append(name)
            self.ends[name] = asyncio.get_running_loop().create_future()
            return await self.ends[name]

        return ask

    async def settle(self) -> None:
        """Let every task go as far as it can."""
        for _ in range(10):
            await asyncio.sleep(0)


async def test_verification_goes_first_and_the_others_in_order() -> None:
    held, pace = Held(), Pace(Clock())
    names = ["a", "b", "c", "d", "e", "proof 1", "f", "proof 2"]
    tasks = [asyncio.create_task(pace.send(held.ask(name), first=name.startswith("proof"))) for name in names]
    await held.settle()
    assert held.begun == ["a", "b", "c"]
    assert len(held.begun) == AT_ONCE
    while len(held.ends) < len(names) or any(not end.done() for end in held.ends.values()):
        next(end for end in held.ends.values() if not end.done()).set_result(GOOD)
        await held.settle()
    assert held.begun == ["a", "b", "c", "proof 1", "proof 2", "d", "e", "f"]
    assert await asyncio.gather(*tasks) == [GOOD] * len(names)


async def test_a_line_is_bounded_and_who_leaves_it_makes_room() -> None:
    held, pace = Held(), Pace(Clock())
    tasks = [asyncio.create_task(pace.send(held.ask(str(n)), first=n % 2 == 0)) for n in range(AT_ONCE + MOST_WAITING)]
    await held.settle()
    assert await pace.send(held.ask("late"), first=True) == rest(1)
    tasks[-1].cancel()
    await held.settle()
    waiting = asyncio.create_task(pace.send(held.ask("in time"), first=False))
    tasks[0].cancel()  # Its place goes to the next in line.
    await held.settle()
    assert len(held.begun) == AT_ONCE + 1
    while any(not end.done() for end in held.ends.values()):
        next(end for end in held.ends.values() if not end.done()).set_result(GOOD)
        await held.settle()
    assert await waiting == GOOD
    assert "late" not in held.begun
    assert set(held.begun) == {"in time", *map(str, range(AT_ONCE + MOST_WAITING - 1))}


async def test_who_waited_during_a_failure_does_not_ask() -> None:
    """The rest began before their turn."""
    held, pace = Held(), Pace(Clock())
    tasks = [asyncio.create_task(pace.send(held.ask(str(n)), first=False)) for n in range(AT_ONCE + 2)]
    await held.settle()
    for name in list(held.begun):
        held.ends[name].set_result(HttpAnswer(503, b"", 9))
    answers = await asyncio.gather(*tasks)
    assert answers == [rest(9)] * len(tasks)
    assert len(held.begun) == AT_ONCE


async def test_a_turn_given_to_who_has_just_gone_is_passed_on() -> None:
    held, pace = Held(), Pace(Clock())
    tasks: list[asyncio.Task[Answer]] = []

    async def ask() -> Answer:
        answer = await held.ask("0")()
        asyncio.get_running_loop().call_soon(tasks[AT_ONCE].cancel)  # Before its turn, given next, wakes it.
        return answer

    tasks += [asyncio.create_task(pace.send(ask, first=False))]
    tasks += [asyncio.create_task(pace.send(held.ask(str(n)), first=False)) for n in range(1, AT_ONCE + 2)]
    await held.settle()
    held.ends["0"].set_result(GOOD)
    await held.settle()
    assert held.begun == ["0", "1", "2", str(AT_ONCE + 1)]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await pace.send(says(GOOD)[0], first=False) == GOOD


def test_so_many_connections_are_remembered() -> None:
    """The one not used for longest is forgotten, which is to its advantage."""
    paces = Paces()
    oldest = paces.of("0")
    kept = ref(paces.of("1"))
    assert paces.of("0") is oldest
    for number in range(2, MOST_CONNECTIONS + 1):
        paces.of(str(number))
    assert paces.of("0") is oldest
    assert kept() is None


async def test_a_connection_in_use_is_never_forgotten() -> None:
    """Not while its requests are under way, however many others come: it has one pace, and no more at once (G-164)."""
    paces, over = Paces(), asyncio.Event()
    begun: list[int] = []

    async def ask() -> Answer:
        begun.append(1)
        await over.wait()
        return GOOD

    under_way = [asyncio.create_task(paces.of("busy").send(ask, first=False)) for _ in range(AT_ONCE)]
    await asyncio.sleep(0)
    for number in range(MOST_CONNECTIONS + 10):
        paces.of(str(number))
    late = asyncio.create_task(paces.of("busy").send(ask, first=False))
    await asyncio.sleep(0)
    assert len(begun) == AT_ONCE
    over.set()
    await asyncio.gather(*under_way, late)
    assert len(begun) == AT_ONCE + 1
