"""Whether snapshots are what replay would make of their streams: a state from which decisions start. Reads only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import psycopg
from psycopg import sql

from service.eventstore.history.audit import Difference, Report, count_rows, reported, unreported
from service.eventstore.history.stored import EVENT_COLUMNS, StoredEvent
from statemachines.kernel.machine import StateMachine
from statemachines.kernel.topics import UnknownTopic, decode_event

Connection = psycopg.Connection[Any]

TABLE = "snapshots"

_SNAPSHOTS = (
    "select s.project_id, s.stream_id, s.revision, s.version, s.state::text, h.kind, h.revision from snapshots s "
    "left join stream_heads h using (project_id, stream_id) order by s.project_id, s.stream_id"
)


def check_snapshots(
    connection: Connection, machines: Mapping[str, StateMachine[Any]], report: Report = unreported
) -> Iterator[Difference]:
    """Replay each stream up to its snapshot and compare; yields the streams whose snapshot is another state.

    One of another form of the state is not taken up by this release, and passed over; so is one of erased events.
    """
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        with connection.cursor(name="snapshots") as cursor:
            cursor.itersize = 100
            cursor.execute(_SNAPSHOTS)
            stored = reported(cursor, count_rows(connection, TABLE), report)
            for project_id, stream_id, revision, version, text, kind, head in stored:
                machine = machines.get(kind or "")
                if head is None or revision > head:
                    yield Difference("extra", project_id, stream_id)
                elif machine is not None and version == machine.snapshot_version:
                    what = _compare(connection, machine, (project_id, stream_id, revision), text)
                    if what is not None:
                        yield Difference(what, project_id, stream_id)


def _compare(connection: Connection, machine: StateMachine[Any], name: tuple[str, str, int], text: str) -> str | None:
    """What is wrong with a snapshot, given as JSON, of a stream up to a revision."""
    query = sql.SQL(
        "select null::bigint, {} from events e where e.project_id = %s and e.stream_id = %s and e.revision <= %s "
        "order by e.revision"
    ).format(sql.SQL(EVENT_COLUMNS))
    state = machine.initial
    for row in connection.execute(query, name):
        event = StoredEvent._make(row)
        if event.payload is None:
            return None
        try:
            state = machine.evolve(state, decode_event(event.topic, event.payload))
        except UnknownTopic:
            return None
        except Exception:  # noqa: BLE001 - whatever a payload that no release wrote makes of it
            return "history_unreadable"
    try:
        found = msgspec.json.decode(text, type=machine.state_type)
    except (msgspec.MsgspecError, RecursionError):
        return "row_unreadable"
    return None if found == state else "different"
