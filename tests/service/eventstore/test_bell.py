"""A commit wakes the worker, which rests until then: nobody polls quickly for what somebody can tell."""

from __future__ import annotations

import multiprocessing
import threading
from typing import Any

import psycopg
import pytest

from service.eventstore.connect.connection import Bell
from service.eventstore.log import sequencer as sequencers
from service.eventstore.log.sequencer import Sequencer
from service.eventstore.store import EventStore
from service.eventstore.write import writing
from tests.support.rounds import count, wait_until
from tests.support.toy import simple_bump

SECONDS = 10.0


class Heard:
    """Counts rings."""

    def __init__(self, bell: Bell) -> None:
        self.number = 0
        self._came = threading.Condition()
        bell.listen(self._hear)

    def _hear(self) -> None:
        with self._came:
            self.number += 1
            self._came.notify_all()

    def reach(self, number: int) -> bool:
        """Wait for so many."""
        with self._came:
            return self._came.wait_for(lambda: self.number >= number, SECONDS)


@pytest.fixture
def bell() -> Bell:
    made = Bell()
    made.hang()
    return made


def test_a_ring_is_heard_from_another_process(bell: Bell):
    heard = Heard(bell)
    bell.expect()
    process = multiprocessing.get_context("fork").Process(target=bell.ring)
    process.start()
    process.join()
    assert heard.reach(1)


def test_only_the_first_of_many_rings(bell: Bell):
    heard = Heard(bell)
    bell.ring()  # nobody rests
    for number in (1, 2):
        bell.expect()
        for _ in range(3):
            bell.ring()
        assert heard.reach(number)
        assert heard.number == number
    bell.expect()
    bell.cover()
    bell.ring()
    assert heard.number == 2


def test_a_pipe_that_nobody_reads_stops_no_commit(bell: Bell):
    for _ in range(100_000):
        bell.expect()
        bell.ring()


def test_a_bell_that_was_not_hung_does_nothing():
    bell = Bell()
    heard = Heard(bell)
    bell.expect()
    bell.ring()
    bell.cover()
    assert heard.number == 0


async def test_a_commit_is_numbered_without_waiting_for_a_look(
    monkeypatch: pytest.MonkeyPatch, bell: Bell, toys_url: str, store: EventStore, sql: psycopg.Connection[Any]
):
    """Each commit meets a sequencer that would rest for an hour."""
    monkeypatch.setattr(sequencers, "IDLE_POLL", 3600.0)
    monkeypatch.setattr(writing, "COMMITTED", bell)
    running = Sequencer(toys_url, bell=bell)
    running.start()
    try:
        for number in range(1, 6):
            await store.execute(simple_bump(number))
            wait_until(lambda number=number: count(sql, "log_index") >= number and count(sql, "unsequenced") == 0)
    finally:
        running.stop()
