"""The waiting records: bounded by number and bytes, fair between projects, none lost (design §6)."""

from __future__ import annotations

import time

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from service.ingest.intake import BATCH_BYTES, SHARED_BYTES, record_queue
from tests.support.ingest import analytics_item, sender


def item(project: str = "a", *, size: int = 1, late: bool = False, account: str = ""):
    made = analytics_item(of=sender(project, account=account))
    made.size = size
    if late:
        made.deadline = 0.0
    return made


def put_back(waiting, items):
    waiting.put_back((found, ()) for found in items)


def projects(items):
    return [found.sender.project_id for found in items]


def test_the_queue_is_bounded_in_number():
    waiting = record_queue(capacity=4)
    assert [waiting.admit(item(name)) for name in "abcde"] == [True] * 4 + [False]


def test_the_queue_is_bounded_in_bytes():
    waiting = record_queue(capacity_bytes=100)
    assert [waiting.admit(item(name, size=40)) for name in "abc"] == [True, True, False]
    assert waiting.weights.held == 80


def test_one_project_leaves_room_for_the_others():
    waiting = record_queue(capacity=10, capacity_bytes=100)
    assert [waiting.admit(item("a")) for _ in range(7)] == [True] * 4 + [False] * 3
    assert waiting.admit(item("b", size=40))
    assert not waiting.admit(item("b", size=20))
    assert waiting.admit(item("c", size=20))


def test_however_many_flood_there_is_room_for_one_that_sends_little():
    waiting = record_queue(capacity=64, capacity_bytes=6400)
    for name in "abcdef":
        while waiting.admit(item(name)):
            pass
    assert waiting.places.held < 64
    assert waiting.admit(item("quiet"))


def test_a_flush_is_shared_by_cost_not_by_number():
    """Beside heavy records the light ones of another project all go, and the flush stays short for them."""
    waiting = record_queue()
    for _ in range(20):
        waiting.admit(item("heavy", size=SHARED_BYTES // 4))
    for _ in range(100):
        waiting.admit(item("light", size=100))
    batch, _ = waiting.take(256, BATCH_BYTES)
    assert projects(batch).count("light") == 100
    assert 1 <= projects(batch).count("heavy") <= 4
    assert sum(found.size for found in batch) <= 2 * SHARED_BYTES


def test_a_flush_of_one_account_is_short_while_others_are_about(monkeypatch: pytest.MonkeyPatch):
    """Whoever comes next waits for the end of it; an account that is alone has whole ones."""
    waiting = record_queue()
    waiting.admit(item("light", size=100))
    for _ in range(40):
        waiting.admit(item("heavy", size=SHARED_BYTES // 4))
    assert len(projects(waiting.take(256, BATCH_BYTES)[0])) == 5
    assert projects(waiting.take(256, BATCH_BYTES)[0]) == ["heavy"] * 2
    monkeypatch.setattr("service.fairness.turns.ABOUT", -1.0)
    assert projects(waiting.take(256, BATCH_BYTES)[0]) == ["heavy"] * (BATCH_BYTES // (SHARED_BYTES // 4))


def test_more_projects_than_fit_take_turns_too():
    waiting = record_queue()
    for number in range(10):
        for _ in range(9):
            waiting.admit(item(f"p{number}", size=SHARED_BYTES // 4))
    served = [name for _ in range(5) for name in projects(waiting.take(256, BATCH_BYTES)[0])]
    assert set(served) == {f"p{number}" for number in range(10)}
    waiting = record_queue()
    for number in range(10):
        for _ in range(9):
            waiting.admit(item(f"p{number}"))
    served = [name for _ in range(5) for name in projects(waiting.take(3)[0])]
    assert set(served) == {f"p{number}" for number in range(10)}


def test_an_account_has_one_share_however_many_projects_it_has():
    """In the queue, in a flush and among held records; within its share, its projects take turns."""
    waiting = record_queue(capacity=64)
    flood = [waiting.admit(item(f"flood{number % 8}", account="one")) for number in range(64)]
    assert flood.count(True) == 32
    assert all(waiting.admit(item(name, account="other")) for name in "abcd")
    batch, _ = waiting.take(8)
    assert [name for name in projects(batch) if len(name) == 1] == list("abcd")
    assert sorted(name for name in projects(batch) if len(name) > 1) == ["flood0", "flood1", "flood2", "flood3"]
    held = [item(f"flood{number}", account="one") for number in range(20)] + [item("quiet")]
    waiting = record_queue()
    put_back(waiting, held)
    for found in held:
        found.due = 0.0
    assert "quiet" in projects(waiting.take(4)[0])


def test_a_project_that_floods_leaves_room_to_the_others_of_its_account():
    waiting = record_queue(capacity=64)
    while waiting.admit(item("flood", account="one")):
        pass
    assert waiting.admit(item("quiet", account="one"))
    batch, _ = waiting.take(2)
    assert sorted(projects(batch)) == ["flood", "quiet"]


def test_held_records_take_turns():
    waiting = record_queue()
    held = [item("flood") for _ in range(20)] + [item("quiet")]
    put_back(waiting, held)
    for found in held:
        found.due = 0.0
    assert sorted(projects(waiting.take(8)[0])) == ["flood"] * 3 + ["quiet"]


def test_projects_take_turns():
    waiting = record_queue()
    for name in "aaaaaaaabbc":
        waiting.admit(item(name))
    batch, _ = waiting.take(6)
    assert sorted(projects(batch)) == list("aaabbc")
    assert projects(waiting.take(100)[0]) == list("aaaaa")


def test_no_project_waits_behind_a_flood():
    waiting = record_queue()
    for _ in range(50):
        waiting.admit(item("flood"))
    served = []
    for number in range(10):
        waiting.admit(item(f"quiet{number}"))
        served += projects(waiting.take(4)[0])
    assert {f"quiet{number}" for number in range(10)} <= set(served)


def test_held_records_wait_longer_each_time_and_fill_half_a_batch():
    waiting = record_queue()
    held = [item("a") for _ in range(6)]
    put_back(waiting, held)
    assert [round(found.delay, 3) for found in held] == [0.001] * 6
    put_back(waiting, held[:1])
    assert held[0].delay == 0.002
    for _ in range(9):
        put_back(waiting, held[:1])
    assert held[0].delay == 0.032
    waiting = record_queue()
    put_back(waiting, held)
    for found in held:
        found.due = 0.0
    waiting.admit(item("b"))
    batch, _ = waiting.take(6)
    assert sorted(projects(batch)) == list("aaab")


def test_what_is_not_due_stays():
    waiting = record_queue()
    held = item("a")
    put_back(waiting, [held])
    held.due = time.monotonic() + 5
    assert waiting.take(8) == ([], [])
    assert 4 < waiting.next_due() <= 5


def test_there_is_something_to_do_now_later_or_never():
    waiting = record_queue()
    assert waiting.next_due() is None
    put_back(waiting, [item("a")])
    assert 0 < waiting.next_due() < 0.01
    waiting.admit(item("a"))
    assert waiting.next_due() == 0.0


@pytest.mark.parametrize("held", [False, True])
def test_what_is_overdue_is_given_up(held):
    waiting = record_queue()
    late = item("a", late=True)
    if held:
        put_back(waiting, [late])
    else:
        waiting.admit(late)
    assert waiting.expire() == [late]
    assert (len(waiting), waiting.next_due()) == (0, None)
    waiting.admit(item("a", late=True))
    assert [len(part) for part in waiting.take(8)] == [0, 1]


def test_a_batch_is_bounded_in_bytes():
    waiting = record_queue()
    for _ in range(5):
        waiting.admit(item("a", size=40))
    assert [len(waiting.take(9, 100)[0]) for _ in range(3)] == [3, 2, 0]


class WaitingMachine(RuleBasedStateMachine):
    """Nothing is lost, nothing is handed out twice, and the sums are those of what is not done."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = record_queue(capacity=12, capacity_bytes=60)
        self.inside = {}
        self.outside = []

    @rule(name=st.sampled_from("abc"), size=st.integers(1, 20), late=st.booleans(), account=st.sampled_from(["", "x"]))
    def admit(self, name, size, late, account):
        made = item(name, size=size, late=late, account=account)
        if self.waiting.admit(made):
            self.inside[id(made)] = made

    def leave(self, found):
        self.waiting.done(found)
        for gone in found:
            del self.inside[id(gone)]

    @rule(size=st.integers(1, 5), max_bytes=st.integers(1, 40))
    def take(self, size, max_bytes):
        put_back(self.waiting, self.outside)
        batch, overdue = self.waiting.take(size, max_bytes)
        assert len(batch) <= size
        assert sum(found.size for found in batch[:-1]) < max_bytes
        assert all(found.deadline for found in batch)
        assert not any(found.deadline for found in overdue)
        self.leave(overdue)
        self.outside = batch

    @rule()
    def finish(self):
        self.leave(self.outside)
        self.outside = []

    @rule()
    def expire(self):
        self.leave(self.waiting.expire())
        outside = {id(found) for found in self.outside}
        assert all(found.deadline for id_, found in self.inside.items() if id_ not in outside)

    @invariant()
    def sums(self):
        assert self.waiting.places.held == len(self.inside)
        assert self.waiting.weights.held == sum(found.size for found in self.inside.values())


TestWaiting = WaitingMachine.TestCase
