"""Small drawings of what was recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from statemachines.runs import run

ACTORS = {"key": "a person", "runner": "the runner", "ci": "CI"}


def actor_of(event: Mapping[str, Any]) -> str:
    """Who did it, for people."""
    return ACTORS.get(event["actor_kind"], f"the service itself ({event['actor_id']})")


def path_of(bundle: Mapping[str, Any], run_id: str) -> Iterator[str]:
    """Draw the way of a run through its machine, a line for each move; what moved nothing is a loop after it."""
    [stream] = [stream for stream in bundle["streams"] if stream["stream_id"] == run_id]
    now, line = run.MACHINE.initial.status.name, ""
    for event in stream["events"]:
        before, now = now, status_after(event["topic"], now)
        name = event["topic"].removeprefix("run.").removesuffix(".v1")
        if now == before:
            line += f"{',' if '↺' in line else '  ↺'} {name} ({actor_of(event)})"
            continue
        if line:
            yield line
        line = f"{before.lower():>13} ──▶ {now.lower():13} {name}: {actor_of(event)}"
    yield line


def status_after(topic: str, status: str) -> str:
    """Where an event leads: the machine's table says, and it is the same place from everywhere."""
    destinations = {row.dest for row in run.TABLE.get_transitions(topic)}
    assert len(destinations) == 1, f"{topic} leads to {destinations}"
    return str(destinations.pop() or status)
