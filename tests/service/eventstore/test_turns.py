"""Places that tenants take in turn: whoever has little to do waits for nobody's line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.fairness.bounds import FairBounds
from service.fairness.semaphore import SHORT, FairSemaphore
from service.fairness.turns import LONGEST, ReadNotDone, Rests, fair_shares


class Work:
    """Things that hold a place until they are told to end."""

    def __init__(self, turns: FairSemaphore) -> None:
        self.turns = turns
        self.running: list[str] = []
        self.order: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.begun: dict[str, asyncio.Event] = {}

    def begin(self, name: str) -> asyncio.Task[None]:
        """Start something; its tenant is the first character of its name."""
        self._ends[name] = asyncio.Event()
        self.begun[name] = asyncio.Event()
        return asyncio.create_task(self._run(name))

    async def _run(self, name: str) -> None:
        async with self.turns.place(name[0]):
            self.running.append(name)
            self.order.append(name)
            self.begun[name].set()
            await self._ends[name].wait()
        self.running.remove(name)

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def drain(work: Work, tasks: list[asyncio.Task[None]]) -> None:
    while work.running:
        await work.end(work.running[0])
    await asyncio.gather(*tasks)


async def test_a_tenant_has_at_most_its_places_and_the_others_theirs():
    work = Work(FairSemaphore(FairBounds(3, per_tenant=2), waiting=10))
    tasks = [work.begin(name) for name in ("a1", "a2", "a3", "b1", "c1")]
    await settle()
    assert work.running == ["a1", "a2", "b1"]
    await work.end("b1")
    assert work.running == ["a1", "a2", "c1"]
    await work.end("a1")
    assert work.running == ["a2", "c1", "a3"]
    await drain(work, tasks)


async def test_tenants_are_served_in_turn_however_long_their_lines_are():
    work = Work(FairSemaphore(FairBounds(1, per_tenant=1), waiting=100))
    tasks = [work.begin(f"a{number}") for number in range(50)]
    await settle()
    tasks += [work.begin(name) for name in ("b1", "b2", "c1")]
    await settle()
    await drain(work, tasks)
    assert work.order[:7] == ["a0", "a1", "b1", "c1", "a2", "b2", "a3"]
    assert len(work.order) == 53


async def test_a_line_that_is_full_refuses_its_own_tenant_alone():
    work = Work(FairSemaphore(FairBounds(1, per_tenant=1), waiting=2))
    tasks = [work.begin(name) for name in ("a1", "a2", "a3")]
    await settle()
    with pytest.raises(ReadNotDone):
        await work.begin("a4")
    tasks.append(work.begin("b1"))
    await settle()
    assert work.turns.waiting == 3
    await drain(work, tasks)


async def _cancel_while_it_waits(work: Work, waiting: asyncio.Task[None]) -> None:
    waiting.cancel()
    await settle()
    await work.end("a1")


async def _cancel_as_its_turn_comes(work: Work, waiting: asyncio.Task[None]) -> None:
    work._ends["a1"].set()
    await asyncio.sleep(0)  # a1 gives its place away; who got it has not run yet
    waiting.cancel()
    await settle()


async def _cancel_before_its_turn_comes(work: Work, waiting: asyncio.Task[None]) -> None:
    work._ends["a1"].set()
    waiting.cancel()  # and hears of it only after a1 has looked who is next
    await settle()


@pytest.mark.parametrize("cancel", [_cancel_while_it_waits, _cancel_as_its_turn_comes, _cancel_before_its_turn_comes])
async def test_whoever_goes_away_leaves_no_place_taken(
    cancel: Callable[[Work, asyncio.Task[None]], Awaitable[None]],
):
    work = Work(FairSemaphore(FairBounds(1, per_tenant=1), waiting=10))
    first, waiting = work.begin("a1"), work.begin("b1")
    await settle()
    await cancel(work, waiting)
    after = work.begin("c1")
    await settle()
    assert work.running == ["c1"]
    assert work.turns.waiting == 0
    await drain(work, [first, after])
    assert waiting.cancelled()


async def hold_for_long(work: Work, name: str) -> None:
    """Hold a place for longer than anybody may without a rest."""
    held = work.begin(name)
    await asyncio.sleep(2 * SHORT)
    await work.end(name)
    await held


async def test_who_held_a_place_for_long_rests_while_others_are_about():
    """Its next turn comes later than those of others, and comes although nobody gives a place back then."""
    work = Work(FairSemaphore(FairBounds(2, per_tenant=2), waiting=10, rest=20))
    work.turns.note("b")
    await hold_for_long(work, "a1")
    tasks = [work.begin("a2"), work.begin("a3"), work.begin("b1")]
    await settle()
    assert work.running == ["b1"]
    assert work.turns.waiting == 2
    await work.end("b1")
    assert work.running == []
    async with asyncio.timeout(5):
        await asyncio.gather(*(work.begun[name].wait() for name in ("a2", "a3")))
    assert work.running == ["a2", "a3"]
    await drain(work, tasks)


async def test_a_rest_that_ends_while_it_is_looked_at_keeps_nobody(monkeypatch: pytest.MonkeyPatch):
    """Seen when it was asked for the place, and over when it was asked how long to wait: nobody else would wake it."""
    work = Work(FairSemaphore(FairBounds(2, per_tenant=2), waiting=10, rest=20))
    work.turns.note("b")
    await hold_for_long(work, "a1")
    seen = iter([0.001, 0.0])
    monkeypatch.setattr(work.turns._rests, "left", lambda _: next(seen, 0.0))
    after = work.begin("a2")
    async with asyncio.timeout(5):
        await work.begun["a2"].wait()
    await drain(work, [after])


async def test_rests_add_up():
    """Two places held at once count twice."""
    work = Work(FairSemaphore(FairBounds(2, per_tenant=2), waiting=10, rest=5))
    work.turns.note("b")
    first, second = work.begin("a1"), work.begin("a2")
    await asyncio.sleep(2 * SHORT)
    await work.end("a1")
    until = work.turns._rests._until["a"]
    await work.end("a2")
    assert work.turns._rests._until["a"] >= until + 5 * 2 * SHORT
    await drain(work, [first, second])


async def test_nobody_rests_for_longer_than_a_request_may_wait():
    work = Work(FairSemaphore(FairBounds(1, per_tenant=1), waiting=10, rest=1000))
    work.turns.note("b")
    await hold_for_long(work, "a1")
    assert work.turns._rests._until["a"] <= time.monotonic() + LONGEST


def test_rests_are_counted_once_each_and_short_ones_not_at_all():
    begun, resting = Rests.begun, Rests.resting()
    rests, spared = Rests(), Rests(spared=LONGEST)
    rests.add("a", LONGEST)
    rests.add("a", LONGEST)
    spared.add("b", LONGEST / 2)
    assert (Rests.begun - begun, Rests.resting() - resting) == (1, 1)
    spared.add("a", LONGEST / 2)
    rests.add("b", LONGEST)
    assert (Rests.begun - begun, Rests.resting() - resting) == (2, 2)


async def test_who_waits_while_its_tenant_begins_to_rest_is_served_after_it():
    work = Work(FairSemaphore(FairBounds(1, per_tenant=1), waiting=10, rest=2))
    work.turns.note("b")
    held, waiting = work.begin("a1"), work.begin("a2")
    await asyncio.sleep(2 * SHORT)
    await work.end("a1")
    assert work.running == []
    async with asyncio.timeout(5):
        await work.begun["a2"].wait()
    await drain(work, [held, waiting])


@pytest.mark.parametrize("rest", [0, 20])
async def test_a_tenant_alone_never_rests(rest: float):
    work = Work(FairSemaphore(FairBounds(1, per_tenant=1), waiting=10, rest=rest))
    if not rest:
        work.turns.note("b")
    await hold_for_long(work, "a1")
    after = work.begin("a2")
    await settle()
    assert work.running == ["a2"]
    await drain(work, [after])


@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=2), st.integers(1, 300)), st.integers(1, 64))
def test_shares_are_fair(wanted: dict[str, int], size: int):
    """All that is wanted, if it fits; else nobody goes short by more than one against whoever has most."""
    shares = fair_shares(wanted.items(), size)
    assert sum(shares.values()) == min(size, sum(wanted.values()))
    assert all(shares[tenant] <= wanted[tenant] for tenant in wanted)
    most = max(shares.values(), default=0)
    assert all(shares[tenant] == wanted[tenant] or shares[tenant] >= most - 1 for tenant in wanted)
