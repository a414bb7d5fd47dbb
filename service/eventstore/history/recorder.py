"""The eventsourcing library's view of the store: its mapper and its recorder, for reading.

Auditors and tests may use the library's own EventStore and notification log over these. Writing is the command
loop's alone: `insert_events` raises. The inherited retries and the inherited DDL are left out on purpose (the first
report a failure for writes that were committed, the second is not ours).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import msgspec
import psycopg
from eventsourcing.persistence import Mapper, Notification, StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore

from service.eventstore.declare.codec import canonical
from statemachines.kernel.machine import Recorded
from statemachines.kernel.topics import decode_event


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
        """Decode into a Recorded; what the library's row does not carry stays empty."""
        event = decode_event(stored_event.topic, stored_event.state)
        return Recorded(str(stored_event.originator_id), stored_event.originator_version, event, "", 0, "")


class _Unconnected(PostgresDatastore):
    """The library's datastore without its pool: a reader needs none of its composite types."""

    def register_type_adapters(self) -> None:
        """Leave the pool closed."""


class ReadOnlyRecorder(PostgresApplicationRecorder):
    """Streams and the gap-free log, through the library's recorder protocol; `conninfo` is a libpq string or URL."""

    def __init__(self, conninfo: str) -> None:
        datastore = _Unconnected(dbname="", host="", port="", user="", password="")
        super().__init__(datastore, events_table_name="events")
        self._conninfo = conninfo

    def create_table(self) -> None:
        """Create nothing: the tables are the migrations' own."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> NoReturn:  # noqa: ARG002
        """Refuse: there is no second write path."""
        raise RuntimeError("only the command loop writes events")

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
        rows = self._fetch(
            "select stream_id, revision, topic, payload::text from events where stream_id = %s "
            "and revision > coalesce(%s::bigint, 0) and revision <= coalesce(%s::bigint, 9223372036854775807) "
            "order by revision * %s limit %s",
            (originator_id, gt, lte, -1 if desc else 1, limit),
        )
        return [StoredEvent(s, revision, topic, _canonical_text(payload)) for s, revision, topic, payload in rows]

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
        rows = self._fetch(
            "select i.position, e.stream_id, e.revision, e.topic, e.payload::text "
            "from log_index i join events e on e.seq = i.seq where i.position > %s "
            "and i.position <= coalesce(%s::bigint, 9223372036854775807) "
            "and (cardinality(%s::text[]) = 0 or e.topic = any(%s::text[])) order by i.position limit %s",
            ((start or 0) - (1 if inclusive_of_start and start else 0), stop, list(topics), list(topics), limit),
        )
        return [
            Notification(originator_id=s, originator_version=r, topic=t, state=_canonical_text(p), id=position)
            for position, s, r, t, p in rows
        ]

    def max_notification_id(self) -> int | None:
        """Return the highest position, None for an empty log."""
        [[size]] = self._fetch("select size from log_state", ())
        return size or None

    def _fetch(self, query: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            return connection.execute(query.encode(), params).fetchall()


def _canonical_text(payload: str | None) -> bytes:
    """Bring JSONB's own order and spacing back to the canonical form."""
    return canonical(msgspec.json.decode(payload or "null"))
