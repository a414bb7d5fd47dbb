"""Deliveries made again: one by its id, or all of a range of the log (G-161).

They are facts beside the stream of their webhook. The statement that queues them looks at the webhook and its project
under their rows, as the beginning of an attempt does: none is queued after a stop, a deletion or a fence.

A delivery keeps the mark of the keyed request that queued it last, for a day. So twins queue it once, and so does the
repeat of a request whose process died before its answer was stored: it finds the mark, and is answered as if it had
queued the delivery itself.
"""

from __future__ import annotations

import msgspec

from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from service.webhooks.catalogue import TOPICS, is_subscribed, name_of
from service.webhooks.reads import StandingWebhook
from service.webhooks.signing import delivery_id

_RESEND = load_sql("webhooks", "resend")
_EVENTS_BETWEEN = load_sql("webhooks", "events_between")
_REPLAY = load_sql("webhooks", "replay")
_REPLAYED = load_sql("webhooks", "replayed")
MARK_SECONDS = 86_400
"""As long as the record of a key."""
_TOPICS = [topic for topics in TOPICS.values() for topic in topics]


async def resend(store: EventStore, project_id: str, webhook_id: str, delivery: str, asked: str | None) -> None:
    """Queue a delivery again, once for a mark. Nothing happens while the webhook is stopped, or gone.

    Raises as writing facts does.
    """
    values = {"project_id": project_id, "webhook_id": webhook_id, "id": delivery, "asked": asked, "kept": MARK_SECONDS}
    async with store.facts.connection() as connection:
        await connection.execute(_RESEND.encode(), values)


async def replay(store: EventStore, webhook: StandingWebhook, after: int, until: int, asked: str | None) -> int:
    """Queue every event of a range of positions that the webhook is subscribed to, once for a mark.

    Returns their number: 0 while the webhook is stopped, or gone. Raises as reading and writing facts do.
    """
    row = webhook.row
    about = {"project_id": row.project_id, "webhook_id": row.id}
    found = await store.fetch(_EVENTS_BETWEEN, **about, after=after, until=until, topics=_TOPICS)
    rows = []
    for position, event_id, topic, stream_id, revision, at in found:
        name = name_of(topic)
        if name is not None and is_subscribed(row.events, name):
            rows.append(
                {
                    "position": position,
                    "id": delivery_id(row.id, event_id),
                    "event": name,
                    "subject_id": stream_id,
                    "stream_revision": revision,
                    "created_at": at,
                }
            )
    if not rows:
        return 0
    async with store.facts.connection() as connection:
        values = {**about, "rows": msgspec.json.encode(rows).decode(), "asked": asked, "kept": MARK_SECONDS}
        queued = (await connection.execute(_REPLAY.encode(), values)).rowcount
        if asked is None or queued:
            return queued
    # Only now, so that it sees what a twin has queued meanwhile.
    async with store.facts.connection() as connection:
        within = {**about, "after": after, "until": until, "asked": asked}
        [[twin]] = await (await connection.execute(_REPLAYED.encode(), within)).fetchall()
    return int(twin)
