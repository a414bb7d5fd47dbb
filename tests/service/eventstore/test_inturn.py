"""A queue between threads that serves tenants in turn, and ends when it is told to."""

from __future__ import annotations

import threading

from service.fairness.queue import FairQueue

Of = tuple[str, str | int]


def _queue() -> FairQueue[Of]:
    return FairQueue(lambda entry: entry[0])


def _got(queue: FairQueue[Of]) -> str | int | None:
    entry = queue.get()
    return None if entry is None else entry[1]


def test_tenants_are_served_in_turn_and_each_in_its_order():
    queue = _queue()
    for number in range(3):
        queue.put(("flood", f"f{number}"))
    queue.put(("quiet", "q"))
    assert [_got(queue) for _ in range(4)] == ["f0", "q", "f1", "f2"]


def test_what_is_left_is_taken_before_the_end_unless_it_is_dropped():
    kept = _queue()
    kept.put(("a", 1))
    kept.close()
    assert (_got(kept), _got(kept)) == (1, None)
    dropped = _queue()
    dropped.put(("a", 1))
    dropped.close(drop=True)
    assert _got(dropped) is None


def test_whoever_waits_is_woken():
    queue = _queue()
    found: list[str | int | None] = []
    threads = [threading.Thread(target=lambda: found.append(_got(queue))) for _ in range(2)]
    for thread in threads:
        thread.start()
    queue.put(("a", 1))
    queue.close()
    for thread in threads:
        thread.join(5)
    assert sorted(found, key=str) == [1, None]
