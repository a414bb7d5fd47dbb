"""Reading history: one stream, or the whole log by position. Tailers read `position > cursor` and miss nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Any, NamedTuple

import msgspec
import psycopg

from statemachines.kernel.machine import Recorded
from statemachines.kernel.topics import decode_event

EVENT_COLUMNS = (
    "e.project_id, e.stream_id, e.revision, e.kind, e.topic, e.payload::text, e.event_id, e.command_id, "
    "e.actor_kind, e.actor_id, e.request_id, e.correlation_id, e.causation_id, e.recorded_at, e.salt, "
    "e.payload_hash, e.leaf, e.chain"
)


class StoredEvent(NamedTuple):
    """A stored event with its whole envelope. `position` is None while the sequencer has not numbered it."""

    position: int | None
    project_id: str
    stream_id: str
    revision: int
    kind: str
    topic: str
    payload: str | None
    event_id: str
    command_id: str
    actor_kind: str
    actor_id: str
    request_id: str
    correlation_id: str
    causation_id: str
    recorded_at: Any
    salt: bytes | None
    payload_hash: bytes
    leaf: bytes
    chain: bytes

    def recorded(self) -> Recorded:
        """Decode the event. Raises AssertionError for an erased one."""
        assert self.payload is not None, "an erased event has no payload"
        return Recorded(
            self.stream_id,
            self.revision,
            decode_event(self.topic, self.payload),
            self.project_id,
            int(self.recorded_at.timestamp()),
            f"{self.actor_kind}:{self.actor_id}",
        )


def exported(event: StoredEvent) -> dict[str, Any]:
    """Lay out an event for programs as exports have it: its whole envelope, payload as JSON, hashes as hex.

    A line of an export is the canonical form of it.
    """
    fields = event._asdict()
    payload = None if event.payload is None else msgspec.json.decode(event.payload)
    hashes = {name: value.hex() for name, value in fields.items() if isinstance(value, bytes)}
    recorded_at = event.recorded_at.astimezone(UTC).isoformat()
    return {**fields, **hashes, "payload": payload, "recorded_at": recorded_at}


def read_log(connection: psycopg.Connection[Any], after: int, limit: int = 1000) -> list[StoredEvent]:
    """Read events with position > `after`, in order."""
    query = (
        f"select i.position, {EVENT_COLUMNS} from log_index i join events e on e.seq = i.seq "  # noqa: S608 - constants
        "where i.position > %s order by i.position limit %s"
    )
    return _events(connection.execute(query.encode(), (after, limit), prepare=True).fetchall())


def read_stream(connection: psycopg.Connection[Any], stream_id: str) -> list[StoredEvent]:
    """Read one stream by its id, in order of revision."""
    query = (
        f"select i.position, {EVENT_COLUMNS} from events e left join log_index i on i.seq = e.seq "  # noqa: S608
        "where e.stream_id = %s order by e.project_id, e.revision"
    )
    return _events(connection.execute(query.encode(), (stream_id,)).fetchall())


def follow(connection: psycopg.Connection[Any], after: int = 0, page: int = 1000) -> Iterator[StoredEvent]:
    """Yield everything numbered so far, page by page."""
    while events := read_log(connection, after, page):
        yield from events
        after = events[-1].position or after


def _events(rows: Sequence[tuple[Any, ...]]) -> list[StoredEvent]:
    return [StoredEvent._make(row) for row in rows]
