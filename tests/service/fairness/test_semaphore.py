"""The semaphore, whatever its policies: bounds hold, nobody starves, and who goes away leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from service.fairness.bounds import FairBounds, Full
from service.fairness.semaphore import FairSemaphore
from service.fairness.turns import ReadNotDone, place_of

MEMBERS = ["strangers 192.0.2.1", "strangers 192.0.2.2"]
NAMES = ["a", "b", "c", *MEMBERS]


async def settle() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


@given(st.lists(st.sampled_from(NAMES), max_size=40), st.integers(1, 3))
def test_the_next_turn_of_a_tenant_comes_within_one_round(names: list[str], places: int) -> None:
    """With `places` that others hold already, nobody is passed by more than once by anybody else."""

    async def order() -> list[str]:
        semaphore, served = FairSemaphore(FairBounds(places, per_tenant=places)), list[str]()

        async def work(name: str) -> None:
            async with semaphore.place(name):
                served.append(place_of(name))
                await asyncio.sleep(0)

        for number in range(places):
            await semaphore.enter(f"first{number}")
        tasks = [asyncio.create_task(work(name)) for name in names]
        await settle()
        for number in range(places):
            semaphore.leave(f"first{number}")
        await asyncio.gather(*tasks)
        assert (semaphore.held, semaphore.waiting, len(semaphore)) == (0, 0, 0)
        return served

    served = asyncio.run(order())
    assert Counter(served) == Counter(map(place_of, names))
    for name in set(served):
        for begin, end in pairwise([0, *(at + 1 for at, other in enumerate(served) if other == name)]):
            assert max(Counter(served[begin : end - 1]).values(), default=0) <= 1


def test_what_is_refused_names_its_bound() -> None:
    told: list[tuple[Full, str]] = []

    def refuse(full: Full, name: str) -> Exception:
        told.append((full, name))
        return RuntimeError(name)

    semaphore = FairSemaphore(FairBounds(10, per_tenant=4, per_member=2), refuse=refuse)
    semaphore.take("a", 4)
    semaphore.take(MEMBERS[0], 2)
    for name, weight in (("a", 1), (MEMBERS[0], 1), (MEMBERS[1], 3), ("b", 4)):
        if name == "b":
            semaphore.take("c", 3)
        with pytest.raises(RuntimeError):
            semaphore.take(name, weight)
    assert told == [
        (Full.TENANT, "a"),
        (Full.MEMBER, MEMBERS[0]),
        (Full.MEMBER, MEMBERS[1]),
        (Full.ALL, "b"),
    ]
    assert semaphore.held == 9


def test_the_last_places_are_for_those_who_hold_nothing() -> None:
    bounds = FairBounds(4, for_first=2)
    for name, full in (("a", None), ("a", None), ("a", Full.ALL), ("b", None), ("b", Full.ALL), ("c", None)):
        assert bounds.full(name) is full
        if full is None:
            bounds.add(name)
    assert bounds.full("d") is Full.ALL


def test_what_is_held_by_parts_is_given_back_together() -> None:
    semaphore = FairSemaphore(FairBounds(10))
    with semaphore.of("a") as held:
        held.take(4)
        held.take(3)
        held.give_back(2)
        with pytest.raises(ReadNotDone):
            held.expect(6)
        assert semaphore.held == 5
    assert (semaphore.held, len(semaphore)) == (0, 0)


async def test_who_is_first_goes_before_the_others_of_its_tenant() -> None:
    semaphore, served = FairSemaphore(FairBounds(1), ranked=True), list[str]()

    async def work(name: str, *, first: bool) -> None:
        async with semaphore.place("a", first=first):
            served.append(name)

    await semaphore.enter("a")
    async with asyncio.TaskGroup() as group:
        for name, first in (("one", False), ("two", False), ("verify", True)):
            group.create_task(work(name, first=first))
        await settle()
        semaphore.leave("a")
    assert served == ["verify", "one", "two"]


async def test_a_new_share_lets_in_who_waits_and_one_may_exceed_it() -> None:
    semaphore = FairSemaphore(FairBounds(10))
    await semaphore.enter("a", 25)
    waiting = [asyncio.create_task(semaphore.enter(name, 6)) for name in "bcd"]
    await settle()
    assert semaphore.waiting == 3
    semaphore.renew()
    await settle()
    assert ([task.done() for task in waiting], semaphore.held) == ([True, True, False], 12)
    semaphore.renew()
    await waiting[2]


async def test_nobody_waits_longer_than_its_patience() -> None:
    semaphore = FairSemaphore(FairBounds(1), patience=0.001)
    await semaphore.enter("a")
    with pytest.raises(ReadNotDone):
        await semaphore.enter("b")
    assert (semaphore.waiting, semaphore.held) == (0, 1)


class SemaphoreMachine(RuleBasedStateMachine):
    """Tasks that come, hold and go away at any step: what is held is what they hold, and no place is free in vain."""

    @initialize(places=st.integers(1, 4), per_tenant=st.integers(1, 3), waiting=st.integers(1, 3))
    def begin(self, places: int, per_tenant: int, waiting: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.places, self.per_tenant, self.most = places, per_tenant, waiting
        self.semaphore = FairSemaphore(FairBounds(places, per_tenant=per_tenant), waiting=waiting)
        self.tasks: list[tuple[str, asyncio.Task[None], asyncio.Event]] = []
        self.holding: list[asyncio.Task[None]] = []

    def run(self) -> None:
        self.loop.run_until_complete(settle())
        self.tasks = [entry for entry in self.tasks if not entry[1].done()]

    @rule(name=st.sampled_from(NAMES))
    def come(self, name: str) -> None:
        end = asyncio.Event()

        async def work() -> None:
            async with self.semaphore.place(name):
                task = asyncio.current_task()
                assert task is not None
                self.holding.append(task)
                try:
                    await end.wait()
                finally:
                    self.holding.remove(task)

        waiting = sum(whose == name and task not in self.holding for whose, task, _ in self.tasks)
        task = self.loop.create_task(work())
        self.loop.run_until_complete(settle())
        if waiting >= self.most:
            assert isinstance(task.exception(), ReadNotDone)
        else:
            self.tasks.append((name, task, end))

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), cancelled=st.integers(0, 2), together=st.booleans())
    def go(self, data: st.DataObject, cancelled: int, together: bool) -> None:
        """One ends, and others are cancelled while they wait or hold: in the same pass of the loop, or after it."""
        some = data.draw(st.lists(st.sampled_from(self.tasks), min_size=1, max_size=1 + cancelled, unique_by=id))
        some[0][2].set()
        if not together:
            self.run()
        for _, task, _ in some[1:]:
            task.cancel()
        self.run()

    @invariant()
    def bounds_hold_and_nobody_waits_in_vain(self) -> None:
        held = Counter(place_of(name) for name, task, _ in self.tasks if task in self.holding)
        waiting = [place_of(name) for name, task, _ in self.tasks if task not in self.holding]
        assert held.total() == self.semaphore.held <= self.places
        assert max(held.values(), default=0) <= self.per_tenant
        assert len(waiting) == self.semaphore.waiting
        if held.total() < self.places:
            assert all(held[place] == self.per_tenant for place in waiting)

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            for _, task, _ in self.tasks:
                task.cancel()
            self.run()
            assert (self.semaphore.held, self.semaphore.waiting, len(self.semaphore)) == (0, 0, 0)
            self.loop.close()


TestSemaphore = SemaphoreMachine.TestCase
