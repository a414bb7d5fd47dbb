"""The events of a project as webhooks are told of them, read by position (G-161)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from service.webhooks.catalogue import TOPICS, name_of
from service.webhooks.outbox.composing import Data, ToldEvent, data_of
from statemachines.kernel.machine import derived_id

LOOKED_AT = 5_000
"""Events of a project that one page looks at."""

_PROJECT_EVENTS = load_sql("webhooks", "project_events")


class FollowedEvent(NamedTuple):
    """An event at its position."""

    told: ToldEvent
    position: int
    data: Data


async def events_of(
    store: EventStore, project_id: str, names: Collection[str], after: int, limit: int
) -> tuple[list[FollowedEvent], int]:
    """Read events under some names after a position, and the position to go on from. Raises as reading does."""
    topics = [topic for name in names for topic in TOPICS[name]]
    rows = await store.fetch(
        _PROJECT_EVENTS, project_id=project_id, after=after, looked=LOOKED_AT, topics=topics, limit=limit
    )
    found = []
    for _, position, event_id, topic, stream_id, revision, at in rows:
        if position is None:
            continue
        name = name_of(topic)
        assert name is not None, "only topics with a name are asked for"
        told = ToldEvent(project_id, derived_id("evt", project_id, event_id), name, stream_id, revision, at)
        data = await data_of(store, told)
        if data is not None:
            found.append(FollowedEvent(told, position, data))
    full = len(rows) == limit and rows[-1][1] is not None
    return found, rows[-1][1] if full else rows[0][0]
