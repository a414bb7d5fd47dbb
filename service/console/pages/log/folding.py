"""States of a stream, folded from its events as the interface gives them, and what is otherwise between two of them."""

from __future__ import annotations

import difflib
import json
from collections.abc import AsyncIterator, Sequence
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
    states: dict[int, Any] = {}
    machine, state, revision = None, None, 0
    async for event in _events(visit, stream_id, last):
        if event["erased"]:
            return Compared([], "The stream was erased. Its envelopes still prove themselves.")
        if machine is None:
            machine = machines().get(event["kind"])
            if machine is None:
                break
            state = states[0] = machine.initial
        state = machine.evolve(state, decode_event(event["topic"], msgspec.json.encode(event["payload"])))
        revision += 1
        if revision in {first, second}:
            states[revision] = state
    if machine is None:
        return Compared([], "No machine of this release folds the stream.")
    if revision < last:
        return Compared([], f"The stream has {revision} events.")
    return Compared(_differences(_told(states[first]), _told(states[second])), "")


def _told(state: Any) -> list[str]:
    return json.dumps(msgspec.to_builtins(state), indent=2, ensure_ascii=False).split("\n")


async def _events(visit: Visit, stream_id: str, last: int) -> AsyncIterator[Json]:
    """The first events of a stream, of which one page at a time is in memory."""
    count = after = 0
    while count < last:
        query = {"after": after, "limit": min(PAGE, last - count)}
        found = await visit.read("list_stream_events", stream_id=stream_id, query=query)
        if not found["events"]:
            return
        count += len(found["events"])
        after = found["next_after"]
        for event in found["events"]:
            yield event


def _differences(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, str]]:
    kinds = {"+": "added", "-": "removed"}
    found = difflib.ndiff(before, after)
    return [(line, kinds.get(line[0], "")) for line in found if not line.startswith("?")]
