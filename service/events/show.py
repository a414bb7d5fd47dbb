"""Events of the log as answers show them: with their whole envelope, or as CloudEvents 1.0 in the JSON format."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any

import msgspec

from schemas.events.event import LoggedEvent
from service.eventstore.history.audit import envelope_of
from service.eventstore.history.stored import StoredEvent

Encode = Callable[[StoredEvent], bytes]

_NULL = msgspec.Raw(b"null")


def show_event(event: StoredEvent) -> LoggedEvent:
    """Show one event with its hashes. An erased one has neither payload nor salt."""
    assert event.position is not None, "only numbered events are read"
    return LoggedEvent(
        **msgspec.structs.asdict(envelope_of(event)),
        position=event.position,
        erased=event.payload is None,
        payload=_NULL if event.payload is None else msgspec.Raw(event.payload.encode()),
        salt=None if event.salt is None else event.salt.hex(),
        leaf=event.leaf.hex(),
        chain=event.chain.hex(),
    )


def encode_event(event: StoredEvent) -> bytes:
    """Write one event as a line of JSON."""
    return msgspec.json.encode(show_event(event))


def cloud_event(event: StoredEvent, base_url: str) -> dict[str, Any]:
    """Show one event as a CloudEvent. Numbers of the log are strings: CloudEvents' integers have 32 bits."""
    assert event.position is not None, "only numbered events are read"
    return {
        "specversion": "1.0",
        "id": event.event_id,
        "source": f"{base_url}/v1/projects/{event.project_id}",
        "type": event.topic,
        "subject": event.stream_id,
        "time": event.recorded_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "dataschema": f"{base_url}/v1/events/schemas?topic={event.topic}",
        "position": str(event.position),
        "revision": str(event.revision),
        "actor": f"{event.actor_kind}:{event.actor_id}",
        "payloadhash": event.payload_hash.hex(),
        "leafhash": event.leaf.hex(),
        "erased": event.payload is None,
        "data": None if event.payload is None else msgspec.Raw(event.payload.encode()),
    }


def encode_cloud_event(base_url: str) -> Encode:
    """Make what writes one event as a CloudEvent."""
    return lambda event: msgspec.json.encode(cloud_event(event, base_url))
