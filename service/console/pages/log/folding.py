"""States of a stream, folded from its events as the interface gives them, and what is otherwise between two of them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from service.console.kit.visit import Json, Visit
from service.registry import machines
from statemachines.kernel.topics import decode_event

PAGE = 200
MOST_EVENTS = 1000


class Compared(NamedTuple):
    """Two moments of a stream: the lines of the state with their kinds, or why there is no state."""

    lines: Sequence[tuple[str, str]]
    problem: str


async def compare(visit: Visit, stream_id: str, first: int, second: int) -> Compared:
    """Compare the states of a stream after two revisions."""
    last = max(first, second)
    if last > MOST_EVENTS:
        return Compared([], f"The console folds at most {MOST_EVENTS} events. Use: service events diff")
    events = await _read(visit, stream_id, last)
    if len(events) < last:
        return Compared([], f"The stream has {len(events)} events.")
    machine = machines().get(events[0]["kind"]) if events else None
    if machine is None:
        return Compared([], "No machine of this release folds the stream.")
    if any(event["erased"] for event in events):
        return Compared([], "The stream was erased. Its envelopes still prove themselves.")
    states: list[Any] = [machine.initial]
    for event in events:
        states.append(machine.evolve(states[-1], decode_event(event["topic"], msgspec.json.encode(event["payload"]))))
    return Compared(_differences(*(_told(states[revision]) for revision in (first, second))), "")


def _told(state: Any) -> list[str]:
    return json.dumps(msgspec.to_builtins(state), indent=2, ensure_ascii=False).split("\n")


async def _read(visit: Visit, stream_id: str, last: int) -> list[Json]:
    """The first events of a stream."""
    events, after = list[Json](), 0
    while len(events) < last:
        query = {"after": after, "limit": min(PAGE, last - len(events))}
        found = await visit.read("list_stream_events", stream_id=stream_id, query=query)
        if not found["events"]:
            break
        events += found["events"]
        after = found["next_after"]
    return events


def _differences(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, str]]:
    kinds = {"+": "added", "-": "removed"}
    found = difflib.ndiff(before, after)
    return [(line, kinds.get(line[0], "")) for line in found if not line.startswith("?")]
