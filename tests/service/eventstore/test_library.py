"""The eventsourcing library reads streams and log through its own protocol, and writes nothing."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from eventsourcing.application import LocalNotificationLog
from eventsourcing.persistence import EventStore as LibraryStore
from eventsourcing.persistence import StoredEvent

from service.eventstore.declare.codec import canonical
from service.eventstore.history.recorder import MsgspecMapper, ReadOnlyRecorder
from service.eventstore.log.sequencer import sequence_all
from statemachines.kernel.machine import Recorded, replay
from tests.support.rounds import Bench, count
from tests.support.toy import TOY, ToyBumped, ToyOpened, simple_bump

Sql = psycopg.Connection[Any]


@pytest.fixture
def recorder(toys_url: str) -> ReadOnlyRecorder:
    return ReadOnlyRecorder(toys_url)


def test_the_librarys_event_store_reads_a_stream(bench: Bench, recorder: ReadOnlyRecorder):
    """Its `get` yields our events, in order, from and to a revision, forwards and backwards."""
    bench.run(*(simple_bump(op=str(n)) for n in range(4)), simple_bump(2))
    store = LibraryStore(mapper=MsgspecMapper(), recorder=recorder)
    events = list(store.get("toy_1"))
    assert [recorded.event for recorded in events] == [ToyOpened("new"), *(ToyBumped(1, str(n)) for n in range(4))]
    assert [recorded.originator_version for recorded in events] == [1, 2, 3, 4, 5]
    assert replay(TOY, (recorded.event for recorded in events)).total == 4
    assert [recorded.revision for recorded in store.get("toy_1", gt=1, lte=4)] == [2, 3, 4]
    assert [recorded.revision for recorded in store.get("toy_1", desc=True, limit=2)] == [5, 4]
    assert list(store.get("toy_9")) == []


def test_the_librarys_notification_log_is_the_gap_free_one(bench: Bench, recorder: ReadOnlyRecorder):
    """Only what has a position; by pages, from a position, up to one, and by topic."""
    assert recorder.max_notification_id() is None
    bench.run(*(simple_bump(n) for n in range(4)))
    sequence_all(bench.connection)
    bench.run(simple_bump("unnumbered"))
    log = LocalNotificationLog(recorder, section_size=3)
    assert recorder.max_notification_id() == 8
    assert [item.id for item in log.select(start=1, limit=3)] == [1, 2, 3]
    assert [item.id for item in log.select(start=7, limit=3)] == [7, 8]
    assert [item.id for item in log["1,3"].items] == [1, 2, 3]
    assert [item.id for item in log["4,6"].items] == [4, 5, 6]
    assert [item.id for item in recorder.select_notifications(start=2, limit=9, stop=5)] == [2, 3, 4, 5]
    assert [item.id for item in recorder.select_notifications(start=2, limit=9, inclusive_of_start=False)] == [
        3,
        4,
        5,
        6,
        7,
        8,
    ]
    assert [item.id for item in recorder.select_notifications(start=None, limit=2)] == [1, 2]
    opened = recorder.select_notifications(start=None, limit=9, topics=[ToyOpened.TOPIC])
    assert [item.id for item in opened] == [1, 3, 5, 7]
    mapped = MsgspecMapper().to_domain_event(opened[0])
    assert (mapped.originator_id, mapped.event) == ("toy_0", ToyOpened("new"))


def test_the_mapper_goes_both_ways_with_the_stored_bytes(bench: Bench, recorder: ReadOnlyRecorder):
    """State is the canonical form that the hashes are made of, whatever order JSONB keeps."""
    bench.run(simple_bump(op="ö", note='"'))
    mapper = MsgspecMapper()
    for stored in recorder.select_events("toy_1"):
        event = mapper.to_domain_event(stored)
        assert stored.state == canonical(event.event)
        assert mapper.to_stored_event(event) == stored


def test_nothing_is_written_through_the_library(bench: Bench, recorder: ReadOnlyRecorder, sql: Sql):
    """There is one write path."""
    event = StoredEvent("toy_1", 1, ToyOpened.TOPIC, b'{"label":"x"}')
    with pytest.raises(RuntimeError, match="only the command loop writes events"):
        recorder.insert_events([event])
    store = LibraryStore(mapper=MsgspecMapper(), recorder=recorder)
    with pytest.raises(RuntimeError, match="only the command loop"):
        store.put([Recorded("toy_1", 1, ToyOpened("x"), "proj_a", 0, "")])
    assert count(sql, "events") == 0


def test_the_library_makes_no_tables(recorder: ReadOnlyRecorder, sql: Sql):
    before = sql.execute("select tablename from pg_tables order by 1").fetchall()
    recorder.create_table()
    assert sql.execute("select tablename from pg_tables order by 1").fetchall() == before
