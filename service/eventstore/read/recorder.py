"""The recorders of the eventsourcing library as the service stands on them, over connections of our own.

`FencedRecorder` is where events are written and read: its `insert_events` is the set-wise insert of the command loop,
its selections are what loading, tailing, rebuild and audit read through. Beside the library's selections of one stream
and of the log by position there are those of many streams at once, which it has no word for.

Three habits of the library's own recorders stay out: they lock the whole table for each write, notify under a global
lock, and repeat an insert of which only the acknowledgement was lost.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from threading import Event as Signal
from typing import Any, NamedTuple, Self, cast
from weakref import WeakKeyDictionary, ref

import msgspec
import psycopg
from eventsourcing.persistence import (
    ApplicationRecorder,
    IntegrityError,
    Notification,
    NotSupportedError,
    OperationalError,
    StoredEvent,
    Subscription,
    Tracking,
    TrackingRecorder,
)
from eventsourcing.postgres import (
    PostgresAggregateRecorder,
    PostgresApplicationRecorder,
    PostgresDatastore,
    PostgresRecorder,
    PostgresTrackingRecorder,
)

from service.eventstore.connect.pipeline import Value, columns
from service.eventstore.read import statements
from service.eventstore.read.stored import LogEvent, StoredSnapshot, StreamEvent
from service.sql import Query

POLL_SECONDS = 0.2
"""Between two looks at the end of the log."""
PAGE = 500
"""Events that a subscription reads at once."""
WINDOW = 20_000
"""Positions that it looks through at once for events of some topics."""
AWAY_SECONDS = 60.0
"""The time for which a subscription waits for a database that is away."""
FOLLOWED_PAGE = 1000
"""Events that `follow` reads at once."""

Connection = psycopg.Connection[tuple[Any, ...]]
_END = (1 << 63) - 1
_tuple = tuple.__new__
_encode = msgspec.json.Encoder().encode


class BorrowedDatastore(PostgresDatastore):
    """A connection of somebody else. Errors come as the driver raises them.

    The library's own pool is never opened: it has settings, waits and rows of another kind.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__("", "", "", "", "", originator_id_type="text")
        self._connection = ref(connection)

    def register_type_adapters(self) -> None:
        """Need none: events go in as one document."""

    @contextmanager
    def get_connection(self) -> Iterator[Any]:
        """Lend it."""
        connection = self._connection()
        assert connection is not None, "its owner has dropped the connection"
        yield connection


class LockedHeads(NamedTuple):
    """What a writing transaction holds: its moment, and its heads as they are to be moved and made.

    Its locks are held until COMMIT. A head that is not where it was fails the insert.
    """

    moment: datetime
    moved: Sequence[tuple[Value, ...]]
    made: Sequence[tuple[Value, ...]]


class _Recorder(PostgresRecorder):
    """What the recorders have in common: tables that migrations make, and a connection that is lent."""

    @classmethod
    def over(cls, connection: Connection) -> Self:
        """The recorder over a connection: made once, for it takes as long as a round trip, and dropped with it."""
        made = _OVER.setdefault(connection, {})
        if cls not in made:
            made[cls] = cls(BorrowedDatastore(connection))
        found = made[cls]
        assert isinstance(found, cls)
        return found

    def create_table(self) -> None:
        """Leave tables to the migrations."""

    def lent(self) -> AbstractContextManager[Connection]:
        """The connection, for a block."""
        return cast("AbstractContextManager[Connection]", self.datastore.get_connection())


_OVER: WeakKeyDictionary[Connection, dict[type[_Recorder], _Recorder]] = WeakKeyDictionary()


class FencedRecorder(_Recorder, PostgresApplicationRecorder):
    """Streams and the gap-free log.

    Positions are given after the commit, so an insert returns none. `select_events` shows an event before it has one.
    Ids are text. Revisions and positions begin at 1 and have no gaps.
    """

    def __init__(self, datastore: PostgresDatastore) -> None:
        super().__init__(datastore, events_table_name="events")
        self.snapshots = SnapshotRecorder(datastore)

    # ---- writing

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Insert events, and move the heads of their streams, in the transaction that holds these: `fence`.

        Raises NotSupportedError without one: commands go through their machines. An open pipeline sends the statements
        at its end, and raises there what they raise.
        """
        fence = kwargs.get("fence")
        if not isinstance(fence, LockedHeads):
            raise NotSupportedError(
                "only the command loop writes events: use the API, whose commands go through their machines"
            )
        with self.lent() as connection:
            if stored_events:
                rows = _encode([_inserted(event) for event in stored_events]).decode()
                connection.execute(statements.INSERT_EVENTS, (fence.moment, rows), prepare=True)
            if fence.moved:
                moved = (*columns(fence.moved, 7), len(fence.moved))
                connection.execute(statements.UPDATE_HEADS, moved, prepare=True)
            if fence.made:
                connection.execute(statements.INSERT_HEADS, columns(fence.made, 7), prepare=True)
        return None

    # ---- streams

    def select_events(  # a project beside the id, which alone finds a stream without an index
        self,
        originator_id: Any,
        *,
        project_id: str | None = None,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> list[StreamEvent]:
        """Read a stream, as the library asks. It goes by the index when its project is named."""
        bounds = gt or 0, _END if lte is None else lte, limit
        if project_id is not None and not desc:
            return self._events(statements.STREAM, (project_id, originator_id, *bounds), prepare=True)
        query = statements.ANY_STREAM_BACK if desc else statements.ANY_STREAM
        return self._events(query, (str(originator_id), *bounds))

    def select_tails(self, known: Sequence[str]) -> Iterable[StreamEvent]:
        """What came of many streams after what is `known` of each (statements.SEE_STREAMS has the same places).

        Sent with the open pipeline, and read after its end.
        """
        with self.lent() as connection:
            answer = connection.execute(statements.TAILS, known, prepare=True)
        return _later(answer)

    def select_streams(self, have: Sequence[tuple[str, str, int]]) -> list[StreamEvent]:
        """What came of many streams, each given by project and id, after the revision that is had."""
        places = tuple(list(column) for column in zip(*have, strict=True)) or ([], [], [])
        return self._events(statements.STREAMS, places)

    def select_history(self, kinds: Sequence[str], after: tuple[str, str, int], limit: int) -> list[StreamEvent]:
        """A page of all streams of some kinds, in the order of project, stream and revision."""
        return self._events(statements.HISTORY, (list(kinds), *after, limit), prepare=True)

    def select_placed(self, originator_id: str) -> list[LogEvent]:
        """Read a stream with the whole envelope of each event, and its position once it has one."""
        with self.lent() as connection:
            rows = connection.execute(statements.PLACED_STREAM, (originator_id,)).fetchall()
        return list(map(LogEvent._make, rows))

    def select_all(self, page: int) -> Iterator[LogEvent]:
        """Read all streams with their envelopes, in the order of project, stream and revision, in a transaction."""
        with self.lent() as connection, connection.cursor(name="history") as cursor:
            cursor.itersize = page
            cursor.execute(statements.ALL_EVENTS)
            yield from map(LogEvent._make, cursor)

    # ---- the log

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> list[LogEvent]:
        """Read the log by position, as the library asks."""
        after = (start or 0) - (1 if inclusive_of_start and start else 0)
        bounds = after, _END if stop is None else stop
        query, places = statements.LOG, (*bounds, limit)
        if topics:
            query, places = statements.LOG_OF_TOPICS, (*bounds, list(topics), limit)  # type: ignore[assignment]
        with self.lent() as connection:
            return list(map(LogEvent._make, connection.execute(query, places, prepare=True).fetchall()))

    def max_notification_id(self) -> int | None:
        """Return the highest position, None for an empty log."""
        with self.lent() as connection:
            [[size]] = connection.execute(statements.LOG_SIZE).fetchall()
        return int(size) or None

    def select_after(self, position: int, limit: int = FOLLOWED_PAGE) -> list[LogEvent]:
        """Read a page of the log after a position."""
        return self.select_notifications(position, limit, inclusive_of_start=False)

    def follow(self, after: int = 0) -> Iterator[LogEvent]:
        """Yield everything numbered so far after a position, page by page."""
        while events := self.select_after(after):
            yield from events
            after = events[-1].id

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        """Follow the log after a position."""
        return PollingSubscription(self, gt=gt, topics=topics)

    def close(self) -> None:
        """Close the connection that was opened here."""
        self.datastore.close()

    def _events(self, query: Query, places: Sequence[Any], *, prepare: bool = False) -> list[StreamEvent]:
        with self.lent() as connection:
            rows = connection.execute(query, places, prepare=prepare).fetchall()
        return [_tuple(StreamEvent, row) for row in rows]


def _later(answer: Iterable[tuple[Any, ...]]) -> Iterator[StreamEvent]:
    """Read an answer when it is there: the rows of a pipeline come at its end."""
    yield from map(StreamEvent._make, answer)


class _InsertedEvent(msgspec.Struct, frozen=True):
    """An event as its insert takes it, salt and hashes in hex."""

    project_id: str
    stream_id: str
    revision: int
    kind: str
    topic: str
    payload: msgspec.Raw
    event_id: str
    command_id: str
    actor_kind: str
    actor_id: str
    request_id: str
    correlation_id: str
    causation_id: str
    salt: str
    payload_hash: str
    leaf: str
    chain: str


def _inserted(event: StoredEvent) -> _InsertedEvent:
    assert isinstance(event, LogEvent), "an event is written with its envelope"
    assert event.payload is not None
    assert event.salt is not None
    scope, names = event[1:6], event[7:14]  # project to topic, and event to causation
    hashes = event.salt.hex(), event.payload_hash.hex(), event.leaf.hex(), event.chain.hex()
    return _InsertedEvent(*scope, msgspec.Raw(event.payload), *names, *hashes)


class SnapshotRecorder(_Recorder, PostgresAggregateRecorder):
    """Snapshots. A stream has one, the newest, which goes with the history that it was made of."""

    def __init__(self, datastore: PostgresDatastore) -> None:
        super().__init__(datastore, events_table_name="snapshots")

    def insert_events(self, stored_events: Sequence[StoredEvent], **_: Any) -> None:
        """Put snapshots in the place of the older ones. Whoever does it holds the heads of their streams."""
        if stored_events:
            assert all(isinstance(event, StoredSnapshot) for event in stored_events)
            rows: Any = stored_events
            with self.lent() as connection:
                connection.execute(statements.UPSERT_SNAPSHOTS, columns(rows, 7), prepare=True)

    def select_events(  # type: ignore[override] # a project beside the id
        self,
        originator_id: Any,
        *,
        project_id: str,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,  # noqa: ARG002 - there is one
        limit: int | None = None,  # noqa: ARG002
    ) -> list[StoredSnapshot]:
        """Read the snapshot of a stream, if it has one within these revisions."""
        with self.lent() as connection:
            rows = connection.execute(statements.SNAPSHOT, (project_id, originator_id)).fetchall()
        found = map(StoredSnapshot._make, rows)
        return [one for one in found if (gt or 0) < one.revision <= (_END if lte is None else lte)]


class PositionRecorder(_Recorder, PostgresTrackingRecorder):
    """The places of the service's own readers of the log, each kept in the transaction of what it did there."""

    def __init__(self, datastore: PostgresDatastore) -> None:
        super().__init__(datastore, tracking_table_name="checkpoints")

    def insert_tracking(self, tracking: Tracking) -> None:
        """Move a reader on. Raises IntegrityError unless it is behind."""
        places = tracking.application_name, tracking.notification_id
        with self.lent() as connection:
            if connection.execute(statements.KEEP_POSITION, places, prepare=True).fetchone() is None:
                raise IntegrityError(f"{tracking.application_name} has passed {tracking.notification_id}")

    def take(self, application_name: str) -> int | None:
        """Lock a reader's place until the end of the transaction. None while another process holds it."""
        with self.lent() as connection:
            rows = connection.execute(statements.TAKE_POSITION, (application_name,), prepare=True).fetchall()
        return rows[0][0] if rows else None

    def max_tracking_id(self, application_name: str) -> int | None:
        """Return how far a reader is, None for one that never read."""
        with self.lent() as connection:
            [[position]] = connection.execute(statements.POSITION, (application_name,)).fetchall()
        return None if position is None else int(position)

    has_tracking_id = TrackingRecorder.has_tracking_id  # without the retry of PostgresTrackingRecorder


class PollingSubscription(Subscription[ApplicationRecorder]):
    """Events after a position, then those that come, until it is stopped.

    The size of the log is read before its events: what is numbered later has a higher position. So a page that is
    looked through is done with, also when no event in it has one of the topics.
    """

    def __init__(self, recorder: ApplicationRecorder, gt: int | None = None, topics: Sequence[str] = ()) -> None:
        super().__init__(recorder=recorder, gt=gt, topics=topics)
        self._after = gt or 0
        self._page: deque[Notification] = deque()
        self._stopped = Signal()
        self._has_read = False

    def stop(self) -> None:
        """Stop. A thread that waits for events is told at once."""
        super().stop()
        self._stopped.set()

    def __next__(self) -> Notification:
        """Return the next event, when there is one. Raises OperationalError when the database stays away."""
        away_since: float | None = None
        while not self._stopped.is_set():
            if self._page:
                return self._page.popleft()
            try:
                found = self._read()
            except OperationalError:
                away_since = away_since or time.monotonic()
                if not self._has_read or time.monotonic() - away_since > AWAY_SECONDS:
                    raise
                found = False
            else:
                away_since, self._has_read = None, True
            if not found:
                self._stopped.wait(POLL_SECONDS)
        raise StopIteration

    def _read(self) -> bool:
        """Read a page. Returns whether there may be more at once."""
        size = self._recorder.max_notification_id() or 0
        until = min(size, self._after + WINDOW)
        if until <= self._after:
            return False
        page = self._recorder.select_notifications(self._after, PAGE, until, self._topics, inclusive_of_start=False)
        self._page.extend(page)
        self._after = page[-1].id if len(page) == PAGE else until
        return True
