"""Waits by themselves: places, who wakes them, and when they end. Over HTTP: tests/e2e/test_waiting.py."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from schemas.kernel.shape import WaitQuery
from service.eventstore.log.follower import Listener
from service.fairness.turns import ReadNotDone
from service.http.answer.errors import RateLimited
from service.http.waiting import waits as module
from service.http.waiting.waits import RevisionWait, Waits, once_more, waiting_places

PATIENCE = 10


class Log:
    """Tells listeners of what a test says."""

    def __init__(self) -> None:
        self.listeners: set[Listener] = set()
        self.readable = True

    async def listen(self, *, streams: tuple[str, ...]) -> Listener:
        if not self.readable:
            raise ReadNotDone
        listener = Listener(streams, (), self.listeners.discard)
        self.listeners.add(listener)
        return listener

    def move(self) -> None:
        for listener in self.listeners:
            listener.hear(1)


async def present() -> Any:
    """A client that stays."""
    await asyncio.Event().wait()


async def gone() -> Any:
    """A client that has gone away."""
    return {"type": "http.disconnect"}


async def waiting(
    waits: Waits, log: Log, account: str = "a", seconds: int = 60, known: int | None = None
) -> RevisionWait:
    """A wait whose handler has read revision 7."""
    wait = waits.begin()
    await wait.listen(log, account, "run_1", WaitQuery(seconds, known))
    wait.saw(7)
    return wait


async def test_a_change_between_the_listening_and_the_waiting_is_not_missed() -> None:
    """Whether it comes before, while or after the handler reads."""
    waits, log = Waits(), Log()
    with await waiting(waits, log) as wait:
        log.move()
        assert wait.goes_on
        async with asyncio.timeout(PATIENCE):
            assert await wait.again(present)
        await wait.listen(log, "a", "run_1", WaitQuery(60))
        wait.saw(8)
        assert not wait.goes_on
    assert log.listeners == set()
    assert waits.waiting == 0


@pytest.mark.parametrize(("known", "goes_on"), [(None, True), (7, True), (6, False), (8, False)])
async def test_only_who_knows_this_revision_waits(known: int | None, goes_on: bool) -> None:
    waits, log = Waits(), Log()
    with await waiting(waits, log, known=known) as wait:
        assert wait.goes_on is goes_on


async def test_a_refusal_ends_the_wait() -> None:
    waits, log = Waits(), Log()
    with await waiting(waits, log) as wait:
        wait.end()
        assert not wait.goes_on


async def test_a_client_that_goes_away_frees_its_place() -> None:
    waits, log = Waits(), Log()
    with await waiting(waits, log) as wait:
        async with asyncio.timeout(PATIENCE):
            assert not await wait.again(gone)
    assert waits.waiting == 0


async def test_whoever_waits_is_woken_when_the_process_ends() -> None:
    """Then nobody waits again: those that come are answered at once, and it has little time for the others."""
    waits, log = Waits(), Log()
    with await waiting(waits, log) as wait:
        task = asyncio.create_task(wait.again(present))
        await asyncio.sleep(0)
        assert wait.time_left is None
        waits.stop()
        async with asyncio.timeout(PATIENCE):
            assert await task
        wait.saw(7)
        assert not wait.goes_on
        assert 0 < (wait.time_left or 0) <= module.STOP_SECONDS
        with await waiting(waits, log) as late:
            assert not late.goes_on
        assert waits.waiting == 1


async def test_a_stream_that_moves_without_end_is_not_read_without_end() -> None:
    waits, log = Waits(), Log()
    with await waiting(waits, log) as wait:
        readings = 0
        while wait.goes_on:
            log.move()
            assert await wait.again(present)
            await wait.listen(log, "a", "run_1", WaitQuery(60))
            wait.saw(7)
            readings += 1
        assert readings == module.MOST_READINGS


async def test_who_cannot_listen_has_no_place() -> None:
    """Neither without the log, nor beyond what an account may have."""
    waits, log = Waits(), Log()
    log.readable = False
    with pytest.raises(ReadNotDone):
        await waiting(waits, log)
    assert waits.waiting == 0
    log.readable = True
    held = [await waiting(waits, log) for _ in range(module.MOST_OF_ACCOUNT)]
    with pytest.raises(RateLimited):
        await waiting(waits, log)
    held.append(await waiting(waits, log, "b"))
    for wait in held:
        wait.__exit__(None, None, None)
    assert (waits.waiting, log.listeners) == (0, set())


def test_places_are_counted_exactly() -> None:
    """By account and in all; nothing is remembered of who has none."""
    places = waiting_places(3, 2)
    for account in ("a", "a", "b"):
        places.take(account)
    for account in ("a", "c"):
        with pytest.raises(RateLimited):
            places.take(account)
    places.leave("a")
    places.take("c")
    for account in ("a", "b", "c"):
        places.leave(account)
    assert (places.held, len(places)) == (0, 0)


async def test_the_body_is_there_once_more() -> None:
    message: Any = await once_more(b"{}")()
    assert message == {"type": "http.request", "body": b"{}", "more_body": False}
