"""Batches: their one edge, their id and repetition."""

from __future__ import annotations

from statemachines.cases import batch
from statemachines.cases.batch import BatchAct, Status
from tests.statemachines.tables import check_released, check_table

ENDED = batch.CaseBatchEnded("assign", "usr_1", 3, 2, 5)


def test_a_batch_ends_once():
    check_table(batch.MACHINE, [(ENDED.TOPIC, Status.ABSENT, Status.ENDED)], {ENDED.TOPIC: ENDED})
    events = batch.decide_end(batch.Batch(), BatchAct.ASSIGN, "usr_1", cases=3, moved=2, now=5)
    assert events == [ENDED]
    ended = batch.evolve(batch.Batch(), ENDED)
    assert batch.decide_end(ended, BatchAct.ASSIGN, "usr_1", cases=3, moved=3, now=6) == []


def test_a_batch_that_moves_nothing_records_nothing():
    assert batch.decide_end(batch.Batch(), BatchAct.IGNORE, None, cases=3, moved=0, now=5) == []


def test_an_id_tells_a_batch_from_other_requests():
    one = batch.batch_id("proj_1", "usr_1", "key")
    assert one == batch.batch_id("proj_1", "usr_1", "key")
    assert one != batch.batch_id("proj_1", "usr_2", "key")
    assert batch.is_batch(one)
    assert not batch.is_batch("req_1")


def test_stored_events_stay_readable():
    check_released(batch.MACHINE, [ENDED])
