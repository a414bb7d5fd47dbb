"""One event, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.cli.shared.common import print_json, say

if TYPE_CHECKING:
    from service.eventstore.read.stored import LogEvent


def print_event(event: LogEvent, *, as_json: bool) -> None:
    """One event on one line."""
    if as_json:
        from service.eventstore.read.stored import exported

        print_json(exported(event))
        return
    at = event.recorded_at.strftime("%Y-%m-%d %H:%M:%S")
    place = "-" if event.position is None else event.position
    who = f"{event.actor_kind}:{event.actor_id}"
    say(f"{place:>8}  {at}  {event.topic:<40} {event.stream_id} r{event.revision}  {who}")
