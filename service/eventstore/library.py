"""The log of the service as the eventsourcing library reads it: `PERSISTENCE_MODULE=service.eventstore.library`.

A program names this module in its environment and uses the library's Application, notification log and ProjectionRunner
over a live service. Its positions are those of the log, without gaps, so a reader that tracks them in a database of its
own sees each event once. Nothing is written here: commands go through their machines.

We leave out the recorders of the library itself. They lock the whole table for each write, notify under a global lock,
and report a failure for writes that were committed.
"""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event as Signal
from threading import RLock
from typing import Any, NoReturn

import msgspec
import psycopg
from eventsourcing.persistence import (
    ApplicationRecorder,
    DatabaseError,
    InfrastructureFactory,
    Mapper,
    Notification,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    StoredEvent,
    Subscription,
    TrackingRecorder,
)

import statemachines
from service.eventstore.declare.codec import canonical
from statemachines.kernel.machine import Recorded
from statemachines.kernel.topics import decode_event

ADDRESS = "SERVICE_DATABASE_URL"
POLL_SECONDS = 0.2
"""Between two looks at the end of the log."""
PAGE = 500
"""Events that a subscription reads at once."""
WINDOW = 20_000
"""Positions that it looks through at once for events of some topics."""
AWAY_SECONDS = 60.0
"""The time for which a subscription waits for a database that is away."""

_ERASED = b"null"
_STREAM = (
    "select e.stream_id, e.revision, e.topic, e.payload::text, e.project_id, e.recorded_at, "
    "e.actor_kind || ':' || e.actor_id from events e where e.stream_id = %s "
    "and e.revision > coalesce(%s::bigint, 0) and e.revision <= coalesce(%s::bigint, 9223372036854775807) "
    "order by e.project_id, e.revision"
)
_LOG = (
    "select e.stream_id, e.revision, e.topic, e.payload::text, e.project_id, e.recorded_at, "
    "e.actor_kind || ':' || e.actor_id, i.position from log_index i join events e on e.seq = i.seq "
    "where i.position > %s and i.position <= coalesce(%s::bigint, 9223372036854775807) "
    "and (cardinality(%s::text[]) = 0 or e.topic = any(%s::text[])) order by i.position limit %s"
)
_SIZE = "select size from log_state"


class ErasedEvent(msgspec.Struct, frozen=True):
    """An event whose payload went with its project or account. The envelope and the hashes stay."""

    topic: str


@dataclass(frozen=True)
class StoredInStream(StoredEvent):
    """An event with what its row says of it beside the payload."""

    project_id: str
    recorded_at: int
    actor: str


@dataclass(frozen=True)
class StoredInLog(Notification):
    """The same at its position in the log."""

    project_id: str
    recorded_at: int
    actor: str


class MsgspecMapper(Mapper[str]):
    """Maps recorded events to the library's stored ones and back."""

    def __init__(self) -> None:
        """Need neither transcoder, compressor nor cipher."""

    def to_stored_event(self, domain_event: Any) -> StoredEvent:
        """Encode a Recorded in canonical form."""
        return StoredEvent(
            domain_event.originator_id,
            domain_event.originator_version,
            domain_event.event.TOPIC,
            canonical(domain_event.event),
        )

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        """Decode into a Recorded. Raises UnknownTopic for an event of a later release."""
        topic, state = stored_event.topic, stored_event.state
        event: Any = ErasedEvent(topic) if state == _ERASED else decode_event(topic, state)
        scope, moment, actor = "", 0, ""
        if isinstance(stored_event, StoredInStream | StoredInLog):
            scope, moment, actor = stored_event.project_id, stored_event.recorded_at, stored_event.actor
        return Recorded(str(stored_event.originator_id), stored_event.originator_version, event, scope, moment, actor)


class LogRecorder(ApplicationRecorder):
    """Streams and the gap-free log. `source` is a libpq string or URL, or a connection that somebody else closes."""

    def __init__(self, source: str | psycopg.Connection[Any]) -> None:
        super().__init__()
        self._lock = RLock()
        self._conninfo = source if isinstance(source, str) else None
        self._connection = None if isinstance(source, str) else source

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> NoReturn:  # noqa: ARG002
        """Refuse. There is no second write path."""
        raise NotSupportedError(
            "only the command loop writes events: use the API, whose commands go through their machines"
        )

    def select_events(
        self,
        originator_id: Any,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Read a stream, as the library asks."""
        order = " desc limit %s" if desc else " limit %s"
        rows = self._fetch(_STREAM + order, (str(originator_id), gt, lte, limit))
        return [
            StoredInStream(stream, revision, topic, _canonical_text(payload), scope, int(at.timestamp()), actor)
            for stream, revision, topic, payload, scope, at, actor in rows
        ]

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """Read the log by position, as the library asks."""
        after = (start or 0) - (1 if inclusive_of_start and start else 0)
        rows = self._fetch(_LOG, (after, stop, list(topics), list(topics), limit))
        return [
            StoredInLog(stream, revision, topic, _canonical_text(payload), at, scope, int(moment.timestamp()), actor)
            for stream, revision, topic, payload, scope, moment, actor, at in rows
        ]

    def max_notification_id(self) -> int | None:
        """Return the highest position, None for an empty log."""
        [[size]] = self._fetch(_SIZE, ())
        return size or None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        """Follow the log after a position."""
        return PollingSubscription(self, gt=gt, topics=topics)

    def close(self) -> None:
        """Close the connection that was opened here."""
        with self._lock:
            if self._conninfo is not None and self._connection is not None:
                self._connection.close()
                self._connection = None

    def _fetch(self, query: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self._lock, _told_as_the_librarys():
            if self._connection is None or (self._conninfo is not None and self._connection.broken):
                assert self._conninfo is not None
                self._connection = psycopg.connect(self._conninfo, autocommit=True)
            return self._connection.execute(query.encode(), params).fetchall()


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


class Factory(InfrastructureFactory[TrackingRecorder]):
    """What the library asks for, over the database of the service.

    `SERVICE_DATABASE_URL` names it, also with the application's name before it, as the library looks up each setting.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._recorders: list[LogRecorder] = []
        _import_machines()

    def mapper(self, transcoder: Any = None, mapper_class: Any = None) -> Any:  # noqa: ARG002
        """Return our mapper: payloads have one form."""
        return MsgspecMapper()

    def aggregate_recorder(self, purpose: str = "events") -> LogRecorder:
        """Return a recorder of the streams. Raises NotSupportedError for snapshots."""
        if purpose != "events":
            raise NotSupportedError("the snapshots of the service are not those of the library: leave them off")
        return self.application_recorder()

    def application_recorder(self) -> LogRecorder:
        """Return a recorder of the log. Raises ProgrammingError without an address."""
        address = self.env.get(ADDRESS)
        if not address:
            raise ProgrammingError(f"set {ADDRESS} to the database of the service, best with a role that only reads")
        self._recorders.append(LogRecorder(address))
        return self._recorders[-1]

    def tracking_recorder(self, tracking_recorder_class: Any = None) -> NoReturn:  # noqa: ARG002
        """Refuse. A reader tracks its place in a database of its own."""
        raise NotSupportedError(
            "track your place in a database of your own: set PERSISTENCE_MODULE for your projection, "
            "with its name before it, such as COUNTER_PERSISTENCE_MODULE=eventsourcing.sqlite"
        )

    def process_recorder(self) -> NoReturn:
        """Refuse, because it writes events beside its place."""
        raise NotSupportedError("an application that writes events has a database of its own")

    def close(self) -> None:
        """Close the connections."""
        for recorder in self._recorders:
            recorder.close()


@contextmanager
def _told_as_the_librarys() -> Iterator[None]:
    """Raise the errors of the driver as those that the library declares."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise OperationalError(error) from error
    except psycopg.ProgrammingError as error:
        raise ProgrammingError(error) from error
    except psycopg.Error as error:
        raise DatabaseError(error) from error


def _import_machines() -> None:
    """Import each machine, so that each event can be read."""
    for found in pkgutil.walk_packages(statemachines.__path__, "statemachines."):
        importlib.import_module(found.name)


def _canonical_text(payload: str | None) -> bytes:
    """Bring JSONB's own order and spacing back to the canonical form."""
    return canonical(msgspec.json.decode(payload or _ERASED))
