"""A queue between threads that serves tenants in turn, and ends when it is told to."""

from __future__ import annotations

import threading

from service.fairness.turns import InTurn


def test_tenants_are_served_in_turn_and_each_in_its_order():
    queue: InTurn[str] = InTurn()
    for number in range(3):
        queue.put("flood", f"f{number}")
    queue.put("quiet", "q")
    assert [queue.take() for _ in range(4)] == ["f0", "q", "f1", "f2"]


def test_what_is_left_is_taken_before_the_end_unless_it_is_dropped():
    kept: InTurn[int] = InTurn()
    kept.put("a", 1)
    kept.close()
    assert (kept.take(), kept.take()) == (1, None)
    dropped: InTurn[int] = InTurn()
    dropped.put("a", 1)
    dropped.close(drop=True)
    assert dropped.take() is None


def test_whoever_waits_is_woken():
    queue: InTurn[int] = InTurn()
    found: list[int | None] = []
    threads = [threading.Thread(target=lambda: found.append(queue.take())) for _ in range(2)]
    for thread in threads:
        thread.start()
    queue.put("a", 1)
    queue.close()
    for thread in threads:
        thread.join(5)
    assert sorted(found, key=str) == [1, None]
