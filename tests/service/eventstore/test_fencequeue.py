"""The line before the lane: tenants in turn, one fence of each at a time, stops before saves."""

from __future__ import annotations

import threading

from service.eventstore.state.cache import Entry
from service.eventstore.write.lane import fence_queue
from service.fairness.queue import FairQueue
from tests.support.rounds import entry_of
from tests.support.toy import lower_flag


def fence(tenant: str, *, saves: bool = False) -> Entry:
    command = lower_flag()
    command.tenant, command.saves = tenant, saves
    return entry_of(command)


def filled(*entries: Entry) -> FairQueue[Entry]:
    queue = fence_queue()
    assert all(queue.put(entry) for entry in entries)
    return queue


def taken(queue: FairQueue[Entry], number: int) -> list[Entry]:
    """Take so many by one thread."""
    found = []
    for _ in range(number):
        entry = queue.get()
        assert entry is not None
        queue.finish(entry)
        found.append(entry)
    return found


def test_tenants_are_served_in_turn():
    many = [fence("a") for _ in range(5)]
    one, two = fence("b"), fence("c")
    assert taken(filled(*many, one, two), 5) == [many[0], one, two, many[1], many[2]]


def test_stops_come_before_saves_whoever_sent_them():
    saves = [fence("a", saves=True), fence("b", saves=True)]
    stops = [fence("c"), fence("a")]
    assert taken(filled(*saves, *stops), 4) == [stops[1], stops[0], saves[1], saves[0]]


def test_a_tenant_never_holds_two_threads():
    """The second thread waits rather than take another of the same tenant, and takes what comes from anybody else."""
    mine = [fence("a"), fence("a")]
    queue = filled(*mine)
    assert queue.get() is mine[0]
    found: list[Entry | None] = []
    second = threading.Thread(target=lambda: found.append(queue.get()))
    second.start()
    second.join(0.05)
    assert found == []
    other = fence("b")
    queue.put(other)
    second.join(5)
    assert found == [other]
    queue.finish(mine[0])
    assert queue.get() is mine[1]


def test_a_full_share_refuses_its_tenant_alone():
    queue = filled(*(fence("a") for _ in range(16)))
    assert not queue.put(fence("a"))
    assert queue.put(fence("b"))


def test_a_full_queue_refuses_everybody():
    queue = filled(*(fence(str(number)) for number in range(64)))
    assert not queue.put(fence("late"))


def test_a_closed_queue_is_worked_off():
    entries = [fence("a"), fence("b")]
    queue = filled(*entries)
    queue.close()
    assert not queue.put(fence("c"))
    assert taken(queue, 2) == entries
    assert queue.get() is None
