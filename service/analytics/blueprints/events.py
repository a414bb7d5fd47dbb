"""Blueprints that count events and the people behind them. A person is a `distinct_id` (G-153)."""

from __future__ import annotations

from service.analytics.blueprints import columns
from service.analytics.blueprints.declared import Blueprint, Read, one_read
from service.analytics.blueprints.parameters import EventParams, TopParams
from service.eventstore.declare.sqlfiles import load_sql

EVENT_COUNT_SQL = load_sql("analytics", "blueprints/event_count")
EVENT_COUNT_HOGQL = load_sql("analytics", "connected/event_count")
TOP_EVENTS_SQL = load_sql("analytics", "blueprints/top_events")
TOP_EVENTS_HOGQL = load_sql("analytics", "connected/top_events")

EVENT_COUNT = Blueprint(
    id="event-count",
    title="Count of an event",
    description="How often an event was received, and from how many people.",
    source="events",
    params=EventParams,
    event_params=("event",),
    columns=(
        columns.integer("row_count", "events", "Events of this name."),
        columns.integer("unique_users", "people", "Different people among them."),
    ),
    answer=one_read(
        lambda params: Read(
            source="events",
            local=EVENT_COUNT_SQL,
            connected=EVENT_COUNT_HOGQL,
            row=tuple[columns.Count, columns.Count],
            single=True,
            values={"event": params.event},
        )
    ),
)

TOP_EVENTS = Blueprint(
    id="top-events",
    title="Most frequent events",
    description="The events that were received most often, the most frequent first.",
    source="events",
    params=TopParams,
    columns=(
        columns.text("event", "name", "Name of the event."),
        columns.integer("row_count", "events", "Events of this name."),
        columns.integer("unique_users", "people", "Different people among them."),
        columns.epoch("last_seen_at", "When the latest of them was received."),
    ),
    answer=one_read(
        lambda _: Read(
            source="events",
            local=TOP_EVENTS_SQL,
            connected=TOP_EVENTS_HOGQL,
            row=tuple[str, columns.Count, columns.Count, columns.Count],
        )
    ),
)

BLUEPRINTS = (EVENT_COUNT, TOP_EVENTS)
