"""The eventsourcing library reads streams and log through its own protocol, and writes nothing.

The selecting half of its ApplicationRecorderTestCase and AggregateRecorderTestCase is here, over events of commands.
docs/how-to/read-with-library.md names what cannot hold.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest
from eventsourcing.application import Application, LocalNotificationLog
from eventsourcing.persistence import EventStore as LibraryStore
from eventsourcing.persistence import (
    InfrastructureFactory,
    Notification,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    StoredEvent,
    Tracking,
)
from eventsourcing.popo import POPOTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner

from service.eventstore.library import AddressedDatastore, ErasedEvent, Factory
from service.eventstore.log.sequencer import sequence_all
from service.eventstore.read import recorder as recorders
from service.eventstore.read.recorder import FencedRecorder
from service.eventstore.read.stored import MsgspecMapper, StreamEvent, canonical
from statemachines.kernel.machine import Recorded, replay
from statemachines.kernel.topics import UnknownTopic
from tests.support.rounds import Bench, count
from tests.support.toy import TOY, ToyBumped, ToyOpened, simple_bump

Sql = psycopg.Connection[Any]


@pytest.fixture
def recorder(toys_url: str) -> Iterator[FencedRecorder]:
    made = FencedRecorder(AddressedDatastore(toys_url))
    yield made
    made.close()


def test_the_librarys_event_store_reads_a_stream(bench: Bench, recorder: FencedRecorder):
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


def test_the_librarys_notification_log_is_the_gap_free_one(bench: Bench, recorder: FencedRecorder):
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


def test_the_mapper_goes_both_ways_with_the_stored_bytes(bench: Bench, recorder: FencedRecorder):
    """State is the canonical form that the hashes are made of, whatever order JSONB keeps."""
    bench.run(simple_bump(op="ö", note='"'))
    mapper = MsgspecMapper()
    for stored in recorder.select_events("toy_1"):
        event = mapper.to_domain_event(stored)
        assert stored.state == canonical(event.event)
        made = mapper.to_stored_event(event)
        assert (made.originator_id, made.originator_version) == (stored.originator_id, stored.originator_version)
        assert (made.topic, made.state) == (stored.topic, stored.state)


def test_nothing_is_written_through_the_library(bench: Bench, recorder: FencedRecorder, sql: Sql):
    """There is one write path."""
    event = StoredEvent("toy_1", 1, ToyOpened.TOPIC, b'{"label":"x"}')
    with pytest.raises(NotSupportedError, match="only the command loop writes events"):
        recorder.insert_events([event])
    store = LibraryStore(mapper=MsgspecMapper(), recorder=recorder)
    with pytest.raises(NotSupportedError, match="only the command loop"):
        store.put([Recorded("toy_1", 1, ToyOpened("x"), "proj_a", 0, "")])
    assert count(sql, "events") == 0


# ---- the library's own cases, for what selects --------------------------------------------------------------------

FOUR = [("toy_1", 1), ("toy_1", 2), ("toy_2", 1), ("toy_2", 2)]


def places(found: Any) -> list[tuple[str, int]]:
    return [(str(event.originator_id), event.originator_version) for event in found]


def ids(found: Any) -> list[int]:
    return [notification.id for notification in found]


@pytest.fixture
def four(bench: Bench) -> Bench:
    """Two toys, each opened and bumped, all numbered."""
    bench.run(simple_bump(1))
    bench.run(simple_bump(2))
    sequence_all(bench.connection)
    return bench


def test_insert_and_select(recorder: FencedRecorder, four: Bench):
    """AggregateRecorderTestCase: a stream whole, backwards, its end, and between revisions."""
    assert recorder.select_events("toy_3") == []
    assert recorder.select_events("toy_3", desc=True, limit=1) == []
    stored = recorder.select_events("toy_1")
    assert places(stored) == [("toy_1", 1), ("toy_1", 2)]
    assert all(isinstance(event.state, bytes) for event in stored)
    assert places(recorder.select_events("toy_1", desc=True, limit=1)) == [("toy_1", 2)]
    assert places(recorder.select_events("toy_1", lte=1, desc=True, limit=1)) == [("toy_1", 1)]
    assert places(recorder.select_events("toy_1", gt=1, lte=2)) == [("toy_1", 2)]
    assert places(recorder.select_events("toy_2")) == [("toy_2", 1), ("toy_2", 2)]
    four.run(simple_bump(1))
    assert places(recorder.select_events("toy_1", gt=2)) == [("toy_1", 3)]  # a stream shows what has no position yet


def test_insert_select(recorder: FencedRecorder, bench: Bench):
    """ApplicationRecorderTestCase: from, up to, by topic, limited, with and without the start."""
    assert list(recorder.select_notifications(start=None, limit=3)) == []
    assert list(recorder.select_notifications(start=None, limit=3, topics=[ToyOpened.TOPIC])) == []
    assert recorder.max_notification_id() is None
    bench.run(simple_bump(1), simple_bump(2))
    sequence_all(bench.connection)
    select = recorder.select_notifications
    whole = select(start=None, limit=10)
    assert ids(whole) == [1, 2, 3, 4]
    assert places(whole) == FOUR
    assert [one.topic for one in whole] == [ToyOpened.TOPIC, ToyBumped.TOPIC] * 2
    assert all(isinstance(one, Notification) for one in whole)
    opened, bumped = ToyOpened.TOPIC, ToyBumped.TOPIC
    for wanted, found in (
        ([1, 2, 3, 4], select(start=1, limit=10)),
        ([1, 2], select(start=None, stop=2, limit=10)),
        ([2, 3, 4], select(start=1, limit=10, inclusive_of_start=False)),
        ([3, 4], select(start=2, limit=10, inclusive_of_start=False)),
        ([1, 2, 3, 4], select(start=None, limit=10, topics=[opened, bumped])),
        ([1, 3], select(1, 10, topics=[opened])),
        ([2, 4], select(1, 10, topics=[bumped])),
        ([1], select(1, 1, topics=[opened])),
        ([1], select(None, 1)),
        ([2], select(2, 1)),
        ([2], select(1, 1, inclusive_of_start=False)),
        ([2, 3], select(2, 2)),
        ([4], select(4, 1)),
        ([], select(4, 1, inclusive_of_start=False)),
        ([2], select(start=2, limit=10, stop=2)),
        ([1, 2], select(start=1, limit=10, stop=2)),
        ([2], select(start=1, limit=10, stop=2, inclusive_of_start=False)),
    ):
        assert ids(found) == wanted
    assert recorder.max_notification_id() == 4


def test_insert_subscribe(recorder: FencedRecorder, four: Bench):
    """The same case for subscriptions: from a place, over new events, by topic, and stopped at each moment."""
    for start in (0, None):
        with recorder.subscribe(gt=start) as subscription:
            assert next(subscription).id == 1
    with recorder.subscribe(gt=2) as subscription:
        assert ids([next(subscription), next(subscription)]) == [3, 4]
        four.run(simple_bump(1))
        sequence_all(four.connection)
        assert places([next(subscription)]) == [("toy_1", 3)]
    with recorder.subscribe(gt=0) as subscription:
        for number, _ in enumerate(subscription):
            subscription.stop()
            assert number < 1
    for enter_first in (True, False):
        stopped = recorder.subscribe(gt=None)
        if not enter_first:
            stopped.stop()
        with stopped:
            stopped.stop()
            assert list(stopped) == []
    with recorder.subscribe(gt=None, topics=[ToyOpened.TOPIC]) as subscription:
        assert ids([next(subscription), next(subscription)]) == [1, 3]


def test_a_subscription_by_topic_goes_on_over_what_it_does_not_want(
    recorder: FencedRecorder, four: Bench, monkeypatch: pytest.MonkeyPatch
):
    """It looks through windows and pages of the log, and comes to the end."""
    monkeypatch.setattr(recorders, "WINDOW", 3)
    monkeypatch.setattr(recorders, "PAGE", 2)
    four.run(*(simple_bump(1) for _ in range(7)), simple_bump(3))
    sequence_all(four.connection)
    with recorder.subscribe(topics=[ToyOpened.TOPIC]) as subscription:
        assert ids([next(subscription) for _ in range(3)]) == [1, 3, 12]
    with recorder.subscribe() as subscription:
        assert ids([next(subscription) for _ in range(13)]) == list(range(1, 14))


def test_concurrent_readers_miss_nothing(recorder: FencedRecorder, toys_url: str):
    """test_concurrent_no_conflicts writes and reads at once. Ours also looks at what the readers saw: all, in order."""
    writers = [Bench(toys_url) for _ in range(3)]
    numbering = Bench(toys_url)
    done = threading.Event()
    seen: list[list[int]] = [[], []]

    def write(number: int) -> None:
        for n in range(12):
            writers[number].run(simple_bump(f"{number}-{n}"), simple_bump(f"{number}-{n}"))

    def number_them() -> None:
        while not done.is_set():
            sequence_all(numbering.connection)

    def read(found: list[int]) -> None:
        with recorder.subscribe() as subscription:
            for notification in subscription:
                found.append(notification.id)
                if notification.id == 3 * 12 * 3:
                    return

    readers = [threading.Thread(target=read, args=(found,)) for found in seen]
    writing = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    sequencer = threading.Thread(target=number_them)
    for thread in (*readers, *writing, sequencer):
        thread.start()
    for thread in (*writing, *readers):
        thread.join(60)
    done.set()
    sequencer.join(60)
    for made in (*writers, numbering):
        made.close()
    assert seen == [list(range(1, 109))] * 2


# ---- what is ours alone -------------------------------------------------------------------------------------------


class Log(Application[str]):
    """The service's log as an application of the library."""


class Seen(POPOTrackingRecorder):
    """A view in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Recorded] = []


class Collect(Projection[Seen]):
    """Keeps what it is given."""

    def process_event(self, domain_event: Any, tracking: Tracking) -> None:
        self.view.events.append(domain_event)
        self.view.insert_tracking(tracking)


def settings(url: str) -> Mapping[str, str]:
    return {
        "PERSISTENCE_MODULE": "service.eventstore.library",
        "SERVICE_DATABASE_URL": url,
        "COLLECT_PERSISTENCE_MODULE": "eventsourcing.popo",
    }


def test_the_librarys_application_and_its_runner_read_the_log(four: Bench, toys_url: str):
    """By one line of the environment; each event says also whose it is, when it was, and by whom."""
    with Log(env=dict(settings(toys_url))) as app:
        assert ids(app.notification_log["1,10"].items) == [1, 2, 3, 4]
        assert [recorded.event for recorded in app.events.get("toy_1")] == [ToyOpened("new"), ToyBumped(1)]
        with pytest.raises(NotSupportedError, match="machines"):
            app.save(Recorded("toy_1", 3, ToyBumped(1), "", 0, ""))  # type: ignore[arg-type]
    with ProjectionRunner(
        application_class=Log, projection_class=Collect, view_class=Seen, env=dict(settings(toys_url))
    ) as runner:
        runner.wait(4, timeout=30)
        four.run(simple_bump(1))
        sequence_all(four.connection)
        runner.wait(5, timeout=30)
    assert [(one.originator_id, one.revision) for one in runner.view.events] == [*FOUR, ("toy_1", 3)]
    assert {one.project_id for one in runner.view.events} == {"proj_a"}
    assert all(one.recorded_at > 1_700_000_000 and ":" in one.actor for one in runner.view.events)


def test_an_erased_event_is_told_as_one_and_an_unknown_one_stops_the_reader(
    recorder: FencedRecorder, four: Bench, sql: Sql
):
    """The place of an erased event stays. A reader that is older than the service must not pass over what it lacks."""
    erased = StreamEvent("proj_a", "toy_1", 1, ToyOpened.TOPIC, None, 5, "key:key_1")
    assert erased.state == b"null"
    assert MsgspecMapper().to_domain_event(erased) == Recorded(
        "toy_1", 1, ErasedEvent(ToyOpened.TOPIC), "proj_a", 5, "key:key_1"
    )
    with pytest.raises(UnknownTopic):
        MsgspecMapper().to_domain_event(StoredEvent("toy_1", 1, "toy.melted.v1", b"{}"))


def test_the_factory_says_what_it_does_not_make(toys_url: str):
    factory = InfrastructureFactory.construct(dict(settings(toys_url)))
    assert isinstance(factory, Factory)
    for refused, words in (
        (factory.tracking_recorder, "database of your own"),
        (factory.process_recorder, "of its own"),
        (lambda: factory.aggregate_recorder("snapshots"), "snapshots"),
    ):
        with pytest.raises(NotSupportedError, match=words):
            refused()
    without = InfrastructureFactory.construct({"PERSISTENCE_MODULE": "service.eventstore.library"})
    with pytest.raises(ProgrammingError, match="SERVICE_DATABASE_URL"):
        without.application_recorder()


def test_a_lost_connection_is_made_again_and_a_wrong_address_told_at_once(
    recorder: FencedRecorder, four: Bench, sql: Sql
):
    with recorder.subscribe() as subscription:
        assert next(subscription).id == 1
        sql.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where query ~ 'log_index' and pid <> pg_backend_pid()"
        )
        four.run(simple_bump(1))
        sequence_all(four.connection)
        assert ids([next(subscription) for _ in range(4)]) == [2, 3, 4, 5]
    began = time.monotonic()
    nobody = FencedRecorder(AddressedDatastore("postgresql://nobody@127.0.0.1:1/none"))
    with pytest.raises(OperationalError), nobody.subscribe() as subscription:
        next(subscription)
    assert time.monotonic() - began < recorders.AWAY_SECONDS


def test_the_library_makes_no_tables(toys_url: str, sql: Sql):
    before = sql.execute("select tablename from pg_tables order by 1").fetchall()
    with Log(env=dict(settings(toys_url))):
        pass
    assert sql.execute("select tablename from pg_tables order by 1").fetchall() == before
