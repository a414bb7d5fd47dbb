"""The recorders pass the test cases of the eventsourcing library, which come in its wheel.

A case inserts plain events of any topic and state, from version 0 on. What stands between it and the recorder puts its
words into ours: versions from 1 on, topics with a version, states as JSON, and each insert as one command of the loop,
which is the only writer. The selections are the recorder's own.

A fence makes these cases impossible:

* AggregateRecorderTestCase.test_insert_and_select of snapshots: it keeps three versions of one sequence. A stream has
  one snapshot, which the next one replaces under the lock of its head, so that an erasure has one row to drop.
* ProcessRecorderTestCase: it inserts events and a reader's place together. A place here is moved by readers, events
  are written by commands, and neither waits for the other.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from types import ModuleType
from typing import Any
from uuid import uuid4

import msgspec
import psycopg
import pytest
from eventsourcing.persistence import (
    AggregateRecorder,
    IntegrityError,
    Mapper,
    Notification,
    StoredEvent,
    Transcoder,
)
from eventsourcing.postgres import (
    PostgresAggregateRecorder,
    PostgresApplicationRecorder,
    PostgresDatastore,
    PostgresTrackingRecorder,
)

from service.eventstore.connect.connection import connect
from service.eventstore.declare.commands import Answer, Unit
from service.eventstore.library import AddressedDatastore
from service.eventstore.log.sequencer import Sequencer
from service.eventstore.read.recorder import (
    FencedRecorder,
    PositionRecorder,
    SnapshotRecorder,
)
from service.eventstore.read.stored import LogEvent, MsgspecMapper, MsgspecTranscoder, StoredSnapshot, StreamEvent
from service.eventstore.state.unit import Registry
from service.eventstore.store import EventStore
from statemachines.kernel.machine import Event, PreconditionFailed, StateMachine, Stream, transition_table
from tests.service.process.test_loading import SETTINGS
from tests.support.rounds import Bench, wait_until
from tests.support.server import clean_environment
from tests.support.toy import ToyConflict, command, simple_bump

# Beside the cases of recorders there is one of a cipher, whose own library nothing here needs.
without = ModuleType("eventsourcing.cipher")
without.AESCipher = object  # type: ignore[attr-defined]
sys.modules.setdefault(without.__name__, without)
cases = importlib.import_module("eventsourcing.tests.persistence")

PROJECT = "proj_a"


class Status(Enum):
    ABSENT = "absent"
    WRITTEN = "written"


class Written(msgspec.Struct, frozen=True):
    status: Status = Status.ABSENT


EVENTS: dict[str, type[Event]] = {
    topic: msgspec.defstruct(  # type: ignore[misc]
        f"Library{topic.capitalize()}",
        [("state", str)],
        bases=(Event,),
        namespace={"TOPIC": f"library.{topic}.v1"},
        frozen=True,
        module=__name__,
    )
    for topic in ("topic", "topic1", "topic2", "topic3", "topic4")
}
MACHINE = StateMachine(
    "library",
    transition_table(
        Status,
        Status.ABSENT,
        [[event.TOPIC, source, Status.WRITTEN] for event in EVENTS.values() for source in Status],
    ),
    Written(),
    lambda _, __: Written(Status.WRITTEN),
    ToyConflict,
    Written,
)
REGISTRY = Registry({MACHINE.kind: MACHINE}, {})


class CaseRecorder(FencedRecorder):
    """The recorder under test, in the words of the library's cases. `numbered`: an insert returns positions."""

    def __init__(self, url: str, store: EventStore, *, numbered: bool) -> None:
        super().__init__(AddressedDatastore(url))
        self._store = store
        self._numbered = numbered

    def insert_events(self, stored_events: Sequence[StoredEvent], **_: Any) -> Sequence[int] | None:
        streams = {event.originator_id: Stream(MACHINE, PROJECT, str(event.originator_id)) for event in stored_events}

        def decide(unit: Unit) -> Answer:
            for event in stored_events:
                stream = streams[event.originator_id]
                if unit.revision(stream) != event.originator_version:
                    raise PreconditionFailed("Another revision.", current_etag=None)
                unit.append(stream, [EVENTS[event.topic](state=event.state.decode())])  # type: ignore[call-arg]
            return Answer(200, {})

        if not stored_events:
            return None
        try:
            self._store.execute_sync(command(decide, *streams.values()))
        except PreconditionFailed as stale:
            raise IntegrityError(str(stale)) from stale
        return [self._position(event) for event in stored_events] if self._numbered else None

    def _position(self, event: StoredEvent) -> int:
        found: list[int | None] = []

        def numbered() -> bool:
            placed = self.select_placed(str(event.originator_id))
            found[:] = [one.position for one in placed if one.revision == event.originator_version + 1]
            return None not in found

        wait_until(numbered)
        [position] = found
        assert position is not None
        return position

    def select_events(self, originator_id: Any, **asked: Any) -> list[Any]:
        ours = {name: asked[name] + 1 for name in ("gt", "lte") if asked.get(name) is not None}
        return [
            StoredEvent(one.originator_id, one.originator_version - 1, theirs(one.topic), plain(one.state))
            for one in super().select_events(originator_id, **{**asked, **ours})
        ]

    def select_notifications(
        self, start: int | None, limit: int, stop: int | None = None, topics: Sequence[str] = (), **asked: Any
    ) -> list[Any]:
        ours = [EVENTS[topic].TOPIC for topic in topics]
        return [
            Notification(one.originator_id, one.originator_version - 1, theirs(one.topic), plain(one.state), id=one.id)
            for one in super().select_notifications(start, limit, stop, ours, **asked)
        ]


def theirs(topic: str) -> str:
    return topic.split(".")[1]


def plain(state: bytes) -> bytes:
    text: str = msgspec.json.decode(state)["state"]
    return text.encode()


class Words:
    """What the library's cases leave open: ids are text here."""

    INITIAL_VERSION = 0

    def new_originator_id(self) -> str:
        return str(uuid4())


@pytest.fixture
def running(toys_url: str) -> Iterator[EventStore]:
    """The loop of a process, and a sequencer."""
    store, sequencer = EventStore(toys_url, REGISTRY), Sequencer(toys_url)
    store.start_writing()
    sequencer.start()
    yield store
    sequencer.stop()
    store.stop_writing()


class TestStreamsAsAggregates(Words, cases.AggregateRecorderTestCase):
    """Streams in the protocol of an aggregate recorder."""

    @pytest.fixture(autouse=True)
    def prepared(self, toys_url: str, running: EventStore) -> Iterator[None]:
        self.recorder = CaseRecorder(toys_url, running, numbered=False)
        yield
        self.recorder.close()

    def create_recorder(self) -> AggregateRecorder:
        return self.recorder


class TestStreamsAndLog(Words, cases.ApplicationRecorderTestCase):
    """Streams and log in the protocol of an application recorder, written to from ten threads too."""

    @pytest.fixture(autouse=True)
    def prepared(self, toys_url: str, running: EventStore) -> Iterator[None]:
        self.recorder = CaseRecorder(toys_url, running, numbered=True)
        yield
        self.recorder.close()

    def create_recorder(self) -> CaseRecorder:
        return self.recorder

    @pytest.mark.release
    def test_concurrent_no_conflicts(self) -> None:
        """Ten threads at once, for fifteen seconds of a processor."""
        super().test_concurrent_no_conflicts()

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class OneByOne(SnapshotRecorder):
    """Snapshots as a case has them: without project, version and size."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **_: Any) -> None:
        super().insert_events(
            [
                StoredSnapshot(PROJECT, one.originator_id, one.originator_version + 1, 1, '{"a": 1}', 8, 8)
                for one in stored_events
            ]
        )


class TestSnapshots(Words, cases.AggregateRecorderTestCase):
    """Snapshots in the protocol of an aggregate recorder."""

    @pytest.fixture(autouse=True)
    def prepared(self, toys_url: str) -> Iterator[None]:
        self.connection = connect(toys_url, application="test-snapshots")
        yield
        self.connection.close()

    def create_recorder(self) -> AggregateRecorder:
        return OneByOne.over(self.connection)

    def test_insert_and_select(self) -> None:
        """Impossible: one snapshot a stream. What can hold of it holds."""
        recorder = self.create_recorder()
        assert recorder.insert_events([]) is None
        assert recorder.select_events("toy_1", project_id=PROJECT) == []
        for version in (0, 4):
            recorder.insert_events([StoredEvent("toy_1", version, "", b"")])
        [snapshot] = recorder.select_events("toy_1", project_id=PROJECT, desc=True, limit=1)
        assert (snapshot.originator_id, snapshot.originator_version) == ("toy_1", 5)
        assert snapshot.state == b'{"a": 1}'
        assert recorder.select_events("toy_1", project_id=PROJECT, gt=5) == []
        assert recorder.select_events("toy_1", project_id=PROJECT, lte=4) == []
        assert recorder.select_events("toy_2", project_id=PROJECT) == []


class TestPositions(cases.TrackingRecorderTestCase):
    """The places of readers in the protocol of a tracking recorder."""

    @pytest.fixture(autouse=True)
    def prepared(self, toys_url: str) -> Iterator[None]:
        self.connection = connect(toys_url, application="test-positions")
        yield
        self.connection.close()

    def create_recorder(self) -> PositionRecorder:
        return PositionRecorder.over(self.connection)


def test_the_classes_are_the_librarys():
    assert issubclass(FencedRecorder, PostgresApplicationRecorder)
    assert issubclass(SnapshotRecorder, PostgresAggregateRecorder)
    assert issubclass(PositionRecorder, PostgresTrackingRecorder)
    assert issubclass(AddressedDatastore, PostgresDatastore)
    assert issubclass(MsgspecMapper, Mapper)
    assert issubclass(MsgspecTranscoder, Transcoder)
    assert issubclass(StreamEvent, StoredEvent)
    assert issubclass(StoredSnapshot, StoredEvent)
    assert issubclass(LogEvent, Notification)


def test_every_event_goes_through_the_recorder(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    """Mapper and insert are on the write path, and what loads a stream reads through the recorder."""
    inserted: list[StoredEvent] = []
    tails: list[StoredEvent] = []
    insert, select = FencedRecorder.insert_events, FencedRecorder.select_tails

    def inserting(self: FencedRecorder, events: Sequence[StoredEvent], **kwargs: Any) -> Any:
        inserted.extend(events)
        return insert(self, events, **kwargs)

    def selecting(self: FencedRecorder, known: Sequence[str]) -> Iterator[StreamEvent]:
        def later() -> Iterator[StreamEvent]:
            for event in answer:
                tails.append(event)
                yield event

        answer = select(self, known)
        return later()

    monkeypatch.setattr(FencedRecorder, "insert_events", inserting)
    monkeypatch.setattr(FencedRecorder, "select_tails", selecting)
    bench.run(simple_bump(1), simple_bump(2))
    bench.cache.clear()
    bench.run(simple_bump(1))
    stored = [one for name in ("toy_1", "toy_2") for one in FencedRecorder.over(bench.connection).select_placed(name)]
    assert {(one.originator_id, one.originator_version, one.topic, one.state) for one in inserted} == {
        (one.originator_id, one.originator_version, one.topic, one.state) for one in stored
    }
    assert len(inserted) == len(stored) == 5
    assert [(one.originator_id, one.originator_version) for one in tails] == [("toy_1", 1), ("toy_1", 2)]


def test_nothing_but_the_recorder_inserts_events():
    """One statement inserts them, and one place sends it."""
    import service

    [root] = service.__path__
    found = subprocess.run(
        ["grep", "-rlE", "insert into events |INSERT_EVENTS", root, "--include=*.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    named = {line.removeprefix(f"{root}/") for line in found.stdout.split()}
    assert named == {"eventstore/read/recorder.py", "eventstore/read/statements.py"}


def test_neither_table_lock_nor_notify_nor_pool(bench: Bench, sql: psycopg.Connection[Any]):
    """What the library's own insert does beside inserting stays out, and its pool is never opened."""
    bench.run(simple_bump(1))
    recorder = FencedRecorder.over(bench.connection)
    assert recorder.datastore.pool.closed
    assert recorder is FencedRecorder.over(bench.connection)
    bench.connection.execute("begin")
    bench.connection.execute("insert into unsequenced values (1000000)")
    modes = sql.execute(
        "select mode from pg_locks where pid = %s and relation in ('events'::regclass, 'unsequenced'::regclass)",
        (bench.connection.info.backend_pid,),
    ).fetchall()
    assert {mode for (mode,) in modes} == {"RowExclusiveLock"}
    bench.connection.execute("rollback")


def test_the_library_is_loaded_by_api_and_worker():
    """Both are copies of what is loaded before they begin."""
    code = "import service.process.serving; from service.process.apiserver import load; load()"
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"],
        env=clean_environment(**SETTINGS),
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"eventsourcing.persistence", "eventsourcing.postgres", "service.eventstore.read.recorder"} <= set(
        shown.stdout.split()
    )
