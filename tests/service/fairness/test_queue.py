"""The queue, whatever its policies: bounds hold, nobody starves, nothing is lost, and its end wakes everybody."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from service.fairness import queue as queue_module
from service.fairness import turns as turns_module
from service.fairness.bounds import FairBounds
from service.fairness.held import HeldByName, HeldByTime
from service.fairness.queue import FairQueue
from service.fairness.turns import place_of

MEMBERS = ["strangers 192.0.2.1", "strangers 192.0.2.2", "strangers 192.0.2.3"]
NAMES = ["a", "b", "c", *MEMBERS]
LINES = st.lists(st.sampled_from(NAMES), max_size=60)


@dataclass(eq=False)
class Entry:
    tenant: str
    weight: int = 1
    late: bool = False
    names: tuple[str, ...] = ()
    last: bool = False
    due: float = 0.0
    delay: float = 0.0
    needs: frozenset[str] = field(init=False)
    keeps: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.needs = self.keeps = frozenset(self.names)


def plain(bounds: FairBounds | None = None) -> FairQueue[Entry]:
    return FairQueue(lambda entry: entry.tenant, places=bounds)


@given(LINES)
def test_the_next_turn_of_a_tenant_comes_within_one_round(names: list[str]) -> None:
    """Between two turns of whoever waits nobody has more than one, neither a tenant nor a member of a place."""
    queue = plain()
    for name in names:
        assert queue.admit(Entry(name))
    order = [entry.tenant for _ in names if (entry := queue.pop()) is not None]
    assert Counter(order) == Counter(names)
    for served in ([place_of(name) for name in order], [name for name in order if name in MEMBERS]):
        for name in set(served):
            turns = [0, *(at + 1 for at, other in enumerate(served) if other == name)]
            for begin, end in pairwise(turns):
                assert max(Counter(served[begin : end - 1]).values(), default=0) <= 1


@given(LINES, st.integers(6, 20))
def test_in_a_batch_everybody_has_a_turn_before_anybody_has_more(names: list[str], size: int) -> None:
    queue = plain()
    for name in names:
        queue.admit(Entry(name))
    batch, late = queue.take(size)
    had, wanted = (Counter(map(place_of, some)) for some in ((entry.tenant for entry in batch), names))
    assert late == []
    assert len(batch) == min(size, len(names))
    assert set(had) == set(wanted)
    short = [had[place] for place in wanted if had[place] < wanted[place]]
    assert max(had.values(), default=0) <= min(short, default=size) + size % len(had or "x") + 1


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=40))
def test_what_goes_last_waits_for_what_does_not_and_keeps_its_order(sent: list[tuple[str, bool]]) -> None:
    queue = FairQueue[Entry](lambda entry: entry.tenant, last=lambda entry: entry.last)
    entries = [Entry(name, last=last) for name, last in sent]
    for entry in entries:
        queue.admit(entry)
    order = [entry for _ in entries if (entry := queue.pop()) is not None]
    assert [entry.last for entry in order] == sorted(entry.last for entry in entries)
    for name in NAMES:
        for last in (False, True):
            mine = [entry for entry in entries if (entry.tenant, entry.last) == (name, last)]
            assert [entry for entry in order if entry in mine] == mine


@given(st.integers(1, 4), LINES)
def test_an_end_wakes_every_thread(threads: int, names: list[str]) -> None:
    """Whether they wait or work off what is left, one entry of a tenant at a time; then nothing is taken in."""
    queue = FairQueue[Entry](lambda entry: entry.tenant, at_once=1)
    found: list[Entry] = []
    running: Counter[str] = Counter()
    most = 0

    def work() -> None:
        nonlocal most
        while (entry := queue.get()) is not None:
            running[place_of(entry.tenant)] += 1
            most = max(most, *running.values())
            running[place_of(entry.tenant)] -= 1
            found.append(entry)
            queue.finish(entry)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    assert all(queue.put(Entry(name)) for name in names)
    queue.close()
    for worker in workers:
        worker.join(10)
    assert not any(worker.is_alive() for worker in workers)
    assert Counter(entry.tenant for entry in found) == Counter(names)
    assert most <= 1
    assert not queue.put(Entry("a"))


def test_what_is_set_aside_keeps_its_turn_and_the_queue_from_its_end() -> None:
    queue = FairQueue[Entry](lambda entry: entry.tenant, at_once=1)
    first, second, other = Entry("a"), Entry("a"), Entry("b")
    for entry in (first, second, other):
        queue.put(entry)
    assert queue.get() is first
    queue.set_aside()
    assert queue.get() is other
    queue.finish(other)
    queue.close()
    found: list[Entry | None] = []
    waiting = threading.Thread(target=lambda: found.append(queue.get()))
    waiting.start()
    queue.again(first)
    waiting.join(10)
    assert found == [first]
    queue.finish(first)
    assert (queue.get(), queue.get()) == (second, None)


def test_dropping_what_is_left_ends_it_at_once() -> None:
    queue = plain()
    queue.put(Entry("a"))
    queue.close(drop=True)
    assert (queue.get(), len(queue), queue.places.held) == (None, 0, 0)


class Clock:
    """A clock that stands still until a step moves it."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


class QueueMachine(RuleBasedStateMachine):
    """Against a list as the model: nothing is lost or handed out twice, and every bound holds at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.patch = Clock(), pytest.MonkeyPatch()
        for module in (queue_module, turns_module):
            self.patch.setattr(module, "time", self.clock)

    def teardown(self) -> None:
        self.patch.undo()

    @initialize(
        until_done=st.booleans(), by_name=st.booleans(), leaving=st.booleans(), shared=st.sampled_from([inf, 9])
    )
    def begin(self, *, until_done: bool, by_name: bool, leaving: bool, shared: float) -> None:
        self.bounds = FairBounds(
            12, per_tenant=inf if leaving else 6, per_member=inf if leaving else 3, leaving=leaving
        )
        self.until_done, self.leaving = until_done, leaving
        self.queue: FairQueue[Entry] = FairQueue(
            lambda entry: entry.tenant,
            places=self.bounds,
            weight=lambda entry: entry.weight,
            weights=FairBounds(60, per_tenant=40),
            names=lambda entry: entry.names,
            per_name=4,
            until_done=until_done,
            late=lambda entry, _: entry.late,
            hold=HeldByName() if by_name else HeldByTime(),
            shared=shared,
        )
        self.inside: list[Entry] = []
        self.outside: list[Entry] = []

    def counted(self) -> list[Entry]:
        return [*self.inside, *self.outside] if self.until_done else self.inside

    @rule(
        tenant=st.sampled_from(NAMES),
        weight=st.integers(1, 20),
        late=st.booleans(),
        names=st.sets(st.sampled_from("xy")),
    )
    def admit(self, tenant: str, weight: int, late: bool, names: set[str]) -> None:
        entry = Entry(tenant, weight, late, tuple(names))
        held = self.counted()
        mine = [other for other in held if place_of(other.tenant) == place_of(tenant)]
        fits = (
            len(held) < 12
            and sum(other.weight for other in held) + weight <= 60
            and sum(other.weight for other in mine) + weight <= 40
            and all(sum(name in other.names for other in held) < 4 for name in names)
        )
        same = sum(other.tenant == tenant for other in mine)
        if self.leaving:
            free = 12 - len(held)
            fits = fits and len(mine) < free and not (same and 4 * (same + 1) > 3 * free)
        else:
            fits = fits and len(mine) < 6 and (tenant not in MEMBERS or same < 3)
        assert self.queue.admit(entry) == fits
        if fits:
            self.inside.append(entry)

    @rule(seconds=st.sampled_from([0.001, 0.04, 2.0]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @precondition(lambda self: not self.outside)
    @rule(size=st.integers(1, 8), most=st.sampled_from([1, 10, 25, inf]))
    def take(self, size: int, most: float) -> None:
        batch, late = self.queue.take(size, most)
        assert len(batch) <= size
        assert sum(entry.weight for entry in batch[:-1]) < most
        assert all(entry.late for entry in late)
        assert not any(entry.late for entry in batch)
        self._went([*batch, *late])
        self.outside = batch
        if self.until_done:
            self.queue.done(late)

    @rule()
    def put_back(self) -> None:
        self.queue.put_back((entry, entry.names[:1]) for entry in self.outside)
        self.inside, self.outside = [*self.inside, *self.outside], []

    @rule()
    def done(self) -> None:
        if self.until_done:
            self.queue.done(self.outside)
        self.outside = []

    @rule()
    def expire(self) -> None:
        late = self.queue.expire()
        assert {id(entry) for entry in late} == {id(entry) for entry in self.inside if entry.late}
        self._went(late)
        if self.until_done:
            self.queue.done(late)

    @precondition(lambda self: not self.until_done and not self.outside)
    @rule()
    def drain(self) -> None:
        self._went(self.queue.drain())
        assert self.inside == []

    def _went(self, entries: list[Entry]) -> None:
        gone = {id(entry) for entry in entries}
        assert len(gone) == len(entries), "twice"
        kept = [entry for entry in self.inside if id(entry) not in gone]
        assert len(kept) + len(entries) == len(self.inside), "of nowhere"
        self.inside = kept

    @invariant()
    def counts(self) -> None:
        counted = self.counted()
        assert len(self.queue) == len(self.inside)
        assert self.bounds.held == len(counted)
        assert self.queue.weights is not None
        assert self.queue.weights.held == sum(entry.weight for entry in counted)
        for name in (*NAMES, "strangers"):
            mine = [entry for entry in counted if name in (entry.tenant, place_of(entry.tenant))]
            assert self.bounds.of(name) == len(mine)
        assert (self.queue.next_due() is None) == (not self.inside)


TestQueue = QueueMachine.TestCase
