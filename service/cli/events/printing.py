"""One event, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from service.cli.shared.common import print_json, say

if TYPE_CHECKING:
    from service.eventstore.history.stored import StoredEvent


def envelope(event: StoredEvent) -> dict[str, Any]:
    """An event for programs: its whole envelope, payload as JSON, hashes as hex."""
    fields = event._asdict()
    payload = None if event.payload is None else msgspec.json.decode(event.payload)
    hashes = {name: value.hex() for name, value in fields.items() if isinstance(value, bytes)}
    return {**fields, **hashes, "payload": payload, "recorded_at": event.recorded_at.isoformat()}


def print_event(event: StoredEvent, *, as_json: bool) -> None:
    """One event on one line."""
    if as_json:
        print_json(envelope(event))
        return
    at = event.recorded_at.strftime("%Y-%m-%d %H:%M:%S")
    place = "-" if event.position is None else event.position
    who = f"{event.actor_kind}:{event.actor_id}"
    say(f"{place:>8}  {at}  {event.topic:<40} {event.stream_id} r{event.revision}  {who}")
