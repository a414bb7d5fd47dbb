"""One stream: its events, its way through its machine, and two of its moments compared."""

from __future__ import annotations

from typing import Any

import msgspec

from service.auth.refusals import NotFound
from service.console.diagrams.drawing import Passed, draw
from service.console.kit.page import View, page
from service.console.kit.visit import Visit
from service.console.pages.log.positions import NEWEST, number_of
from service.console.texts.folding import Moments

LISTED = 100
PAGE = 50
"""Events that are read at once for a comparison."""
MOST_EVENTS = 1000
MOST_BYTES = 8 * 1024 * 1024


@page("streams", section="log")
async def find_stream(visit: Visit) -> View:
    """Show the stream that a form asks for. Raises NotFound without one."""
    return await _shown(visit, visit.query.get("stream_id", "").strip())


@page("streams/{stream_id}", section="log")
async def show_stream(visit: Visit) -> View:
    """Show a stream."""
    return await _shown(visit, visit.values["stream_id"])


async def _shown(visit: Visit, stream_id: str) -> View:
    if not stream_id:
        raise NotFound
    event = number_of(visit, "event", 0)
    before = number_of(visit, "before", event + 1 if event else NEWEST)
    found = await visit.read("list_stream_events", stream_id=stream_id, query={"before": before, "limit": LISTED})
    events = found["events"]
    passed = [Passed(one["revision"], one["topic"]) for one in events]
    first, second = number_of(visit, "from", -1), number_of(visit, "to", -1)
    asked = first >= 0 and second >= 0
    moments, problem = await _moments(visit, stream_id, first, second) if asked else (None, "")
    facts: dict[str, Any] = {
        "stream_id": stream_id,
        "events": events[::-1],
        "kind": events[-1]["kind"] if events else "",
        "event": event,
        "older": found["next_before"],
        "paged": before != NEWEST,
        "drawing": draw(events[-1]["kind"], passed) if events else None,
        "complete": [one.revision for one in passed] == list(range(1, len(passed) + 1)),
        "moments": moments,
        "problem_of_moments": problem,
        "from_": first if asked else max(events[-1]["revision"] - 1, 0) if events else 0,
        "to": second if asked else events[-1]["revision"] if events else 0,
    }
    return View("log/stream.html", "Stream", facts, found["project_id"], follows=[stream_id])


async def _moments(visit: Visit, stream_id: str, first: int, second: int) -> tuple[Moments | None, str]:
    """Two moments of a stream with its events up to the later one, or why they are not compared here."""
    last = max(first, second)
    if last > MOST_EVENTS:
        return None, f"The console folds at most {MOST_EVENTS} events. Use: service events diff"
    events: list[tuple[str, bytes]] = []
    kind, size, after = "", 0, 0
    while len(events) < last:
        query = {"after": after, "limit": min(PAGE, last - len(events))}
        found = await visit.read("list_stream_events", stream_id=stream_id, query=query)
        if not found["events"]:
            return None, f"The stream has {len(events)} events."
        after = found["next_after"]
        for event in found["events"]:
            if event["erased"]:
                return None, "The stream was erased. Its envelopes still prove themselves."
            kind = event["kind"]
            events.append((event["topic"], msgspec.json.encode(event["payload"])))
            size += len(events[-1][1])
        if size > MOST_BYTES:
            return None, f"The console folds at most {MOST_BYTES // 1024**2} MB of events. Use: service events diff"
    return Moments(kind, events, first, second), ""


PAGES = [find_stream, show_stream]
