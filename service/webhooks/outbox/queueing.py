"""The queueing half of the outbox, a reader of the log, in the transaction of its own checkpoint (R-WEB-07, G-159).

A delivery exists exactly when its event has a position and the checkpoint has passed it, so that a crash neither loses
one nor makes one for work that was rolled back. The events of the webhooks themselves come in the same order: the
reader keeps them, and so knows whether a webhook was registered and active at an event. A stop and a
fence drop the queue: only positions after `since` count.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from schemas.webhooks.event import FENCED
from service.eventstore.connect.connection import Connection
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.history.stored import StoredEvent, read_log
from service.eventstore.log.polling import Repeating
from service.webhooks.catalogue import is_subscribed, name_of
from service.webhooks.signing import delivery_id
from statemachines.kernel.topics import UnknownTopic, latest_topic
from statemachines.projects.project import ProjectFenced
from statemachines.webhooks.webhook import (
    WebhookChanged,
    WebhookDeleted,
    WebhookRegistered,
    WebhookReopened,
    WebhookStopped,
)

NAME = "outbox"
PAGE = 500
POLL = 0.1  # seconds

_PLACE = load_sql("webhooks", "outbox/place")
_SUBSCRIPTIONS = load_sql("webhooks", "outbox/subscriptions")
_KEEP = load_sql("webhooks", "outbox/keep_subscriptions")
_FORGET = load_sql("webhooks", "outbox/forget_subscriptions")
_QUEUE = load_sql("webhooks", "outbox/queue")
_MOVE = load_sql("webhooks", "outbox/move")

_OWN = frozenset(
    event.TOPIC
    for event in (
        WebhookRegistered,
        WebhookChanged,
        WebhookStopped,
        WebhookReopened,
        WebhookDeleted,
        ProjectFenced,
    )
)

Key = tuple[str, str]


class Subscription(NamedTuple):
    """A webhook at the place of the reader. Events after the position `since` are queued while `active`."""

    events: tuple[str, ...]
    active: bool
    since: int


def queue_once(connection: Connection) -> int:
    """Read the next page of the log. Returns its number of events, 0 also while another process reads it."""
    with connection.transaction():
        row = connection.execute(_PLACE.encode(), {"name": NAME}).fetchone()
        if row is None:
            return 0
        events = read_log(connection, row[0], PAGE)
        if not events:
            return 0
        _Page(connection, [event for event in events if _concerns(event)]).queue()
        moved = {"name": NAME, "position": events[-1].position}
        connection.execute(_MOVE.encode(), moved)
        return len(events)


def _concerns(event: StoredEvent) -> bool:
    return _is_own(event) or name_of(event.topic) is not None


def _is_own(event: StoredEvent) -> bool:
    """Whether an event of any version is one of webhooks themselves, or the fence of their project."""
    try:
        return latest_topic(event.topic) in _OWN
    except UnknownTopic:
        return False


class _Page:
    """The events of one page about webhooks and their subjects."""

    def __init__(self, connection: Connection, events: list[StoredEvent]) -> None:
        self._connection = connection
        self._events = events
        self._known: dict[str, dict[str, Subscription]] = {}
        self._changed: dict[Key, Subscription | None] = {}
        self._deliveries: list[dict[str, Any]] = []

    def queue(self) -> None:
        """Go through them in order, then write the result."""
        if not self._events:
            return
        projects = sorted({event.project_id for event in self._events})
        found = self._connection.execute(_SUBSCRIPTIONS.encode(), {"projects": projects})
        for project_id, webhook_id, names, active, since in found.fetchall():
            self._known.setdefault(project_id, {})[webhook_id] = Subscription(tuple(names), active, since)
        for event in self._events:
            name = name_of(event.topic)
            if name is not None:
                self._queue(event, name)
            elif event.payload is not None:  # An erased event is one of a project that is gone.
                self._follow(event)
        self._write()

    def _follow(self, event: StoredEvent) -> None:
        """Take in an event of a webhook, or of its whole project."""
        assert event.position is not None, "the log is read by position"
        mine = self._known.setdefault(event.project_id, {})
        before = mine.get(event.stream_id)
        match event.recorded().event:
            case WebhookRegistered(events=events):
                after: Subscription | None = Subscription(tuple(events), active=True, since=event.position)
            case WebhookDeleted():
                after = None
            case ProjectFenced():
                self._queue(event, FENCED)  # the last that they are told
                for webhook_id, one in list(mine.items()):
                    self._change(event.project_id, webhook_id, one._replace(active=False))
                return
            case _ if before is None:
                return
            case WebhookChanged(events=events):
                after = before._replace(events=tuple(events))
            case WebhookStopped():
                after = before._replace(active=False)
            case WebhookReopened():
                after = before._replace(active=True, since=event.position)
            case _:
                return
        self._change(event.project_id, event.stream_id, after)

    def _change(self, project_id: str, webhook_id: str, after: Subscription | None) -> None:
        if after is None:
            self._known[project_id].pop(webhook_id, None)
        else:
            self._known[project_id][webhook_id] = after
        self._changed[project_id, webhook_id] = after

    def _queue(self, event: StoredEvent, name: str) -> None:
        """Queue an event under a name for each webhook subscribed to that."""
        for webhook_id, one in self._known.get(event.project_id, {}).items():
            if one.active and is_subscribed(one.events, name):
                self._deliveries.append(
                    {
                        "project_id": event.project_id,
                        "webhook_id": webhook_id,
                        "position": event.position,
                        "id": delivery_id(webhook_id, event.event_id),
                        "event": name,
                        "subject_id": event.stream_id,
                        "stream_revision": event.revision,
                        "created_at": int(event.recorded_at.timestamp()),
                    }
                )

    def _write(self) -> None:
        kept = [(key, one) for key, one in self._changed.items() if one is not None]
        gone = [key for key, one in self._changed.items() if one is None]
        if kept:
            rows = [
                {"project_id": key[0], "id": key[1], "events": one.events, "active": one.active, "since": one.since}
                for key, one in kept
            ]
            self._connection.execute(_KEEP.encode(), {"rows": msgspec.json.encode(rows).decode()})
        if gone:
            projects, webhooks = map(list, zip(*gone, strict=True))
            self._connection.execute(_FORGET.encode(), {"projects": projects, "webhooks": webhooks})
        if self._deliveries:
            rows_text = msgspec.json.encode(self._deliveries).decode()
            self._connection.execute(_QUEUE.encode(), {"rows": rows_text})


class OutboxReader(Repeating):
    """Runs `queue_once` for ever."""

    def __init__(self, conninfo: str) -> None:
        super().__init__(NAME, conninfo)

    def turn(self, connection: Connection) -> float:
        """Read a page. Look again at once after a full one."""
        return 0.0 if queue_once(connection) == PAGE else POLL
