"""The log of a project and its streams: events, positions, checkpoints, and how to verify them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from service.auth.refusals import NotFound
from service.console.kit.diagrams import Passed, draw
from service.console.kit.following import ALL
from service.console.kit.page import View, page
from service.console.kit.texts import Moments
from service.console.kit.visit import Json, Visit

# Positions and revisions in addresses of pages.

NEWEST = 2**53 - 1
DIGITS = 16


def number_of(visit: Visit, name: str, default: int) -> int:
    """A number in the query. Raises NotFound for any other text."""
    text = visit.query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < DIGITS):
        raise NotFound
    return int(text)


# One stream: its events, its way through its machine, and two of its moments compared.

SHOWN_EVENTS = 100
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
    found = await visit.read("list_stream_events", stream_id=stream_id, query={"before": before, "limit": SHOWN_EVENTS})
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


# The newest signed checkpoint of the log, as a page tells it.

DASH = "— "
LINES = 3


class ShownCheckpoint(NamedTuple):
    """A signed state of the log: its name, its size, its root, the text itself, and who signed beside the log."""

    origin: str
    size: int
    root: str
    text: str
    witnesses: Sequence[str]


async def checkpoint_of(visit: Visit) -> ShownCheckpoint | None:
    """The newest checkpoint. None before the first."""
    said = await visit.ask("get_log_checkpoint", {})
    if not said.ok:
        return None
    text = said.raw.decode()
    body, _, signatures = text.partition("\n\n")
    origin, size, root = body.split("\n")[:LINES]
    signers = [line.removeprefix(DASH).split(" ")[0] for line in signatures.split("\n") if line.startswith(DASH)]
    return ShownCheckpoint(origin, int(size), root, text, sorted({name for name in signers if name != origin}))


# The events of a project, newest first. Owners and auditors may read them.

RECORDS_A_PAGE = 50
LOOKS = 5
"""Pages that are read for one: the log has the events of other projects in between."""


@page("projects/{project_id}/log", section="log")
async def show_log(visit: Visit) -> View:
    """Show the events of a project."""
    project_id = visit.values["project_id"]
    before, events, found = number_of(visit, "before", NEWEST), list[Json](), Json()
    for _ in range(LOOKS):
        query = {"before": before, "limit": RECORDS_A_PAGE - len(events)}
        found = await visit.read("list_events", project_id=project_id, query=query)
        events = [*found["events"], *events]
        before = found["next_before"] or 0
        if not before or len(events) >= RECORDS_A_PAGE:
            break
    facts: dict[str, Any] = {
        "events": events[::-1],
        "older": before,
        "paged": "before" in visit.query,
        "log_size": found["log_size"],
        "checkpoint": await checkpoint_of(visit),
    }
    return View("log/browsed.html", "Event log", facts, project_id, follows=[ALL])


# How to verify the log without trusting the service, with the commands for it.


@page("how-to-verify")
async def show_how(visit: Visit) -> View:
    """Show the newest checkpoint and three commands. Raises ReadRefused for somebody without a session."""
    await visit.read("list_projects", query={"limit": 1})
    settings = visit.call.services.settings
    facts = {"checkpoint": await checkpoint_of(visit), "base_url": settings.base_url}
    return View("log/verifying.html", "How to verify", facts)


PAGES = [find_stream, show_stream, show_log, show_how]
