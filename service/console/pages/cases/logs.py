"""The stored records below error of a project: filtered, in pages, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from service.console.kit.page import View, page
from service.console.kit.visit import Json, Visit
from service.console.pages.cases import frames
from service.console.pages.cases.context import facts_of, person_of, trace_of
from service.console.pages.cases.listing import SEEN

PAGE = 25
MOST_FRAMES = 50
"""Frames of a record on the page, those of each cause besides."""
LEVELS = ("warning", "info", "debug")
ASKED = ("level", "q", "user", "release", "trace")
GIVEN = "given"
"""The choice of times for those in `from` and `to`, as links to the page have them."""


class ShownLog(NamedTuple):
    """A record with its short facts, its stack as text, its person and its trace. Empty texts for none."""

    log: Json
    facts: Sequence[tuple[str, str]]
    stack: str
    person: str
    trace: str


@page("projects/{project_id}/logs", section="logs")
async def show_logs(visit: Visit) -> View:
    """Show the records below error of a project, a page of them."""
    project_id, asked = visit.values["project_id"], visit.query
    when, times = asked.get("when", GIVEN), dict[str, str]()
    if when in SEEN:
        query = {"from": str(await visit.call.services.store.now() - SEEN[when][1])}
    else:
        query = times = {name: asked[name] for name in ("from", "to") if when == GIVEN and asked.get(name)}
    query = {**query, **{name: asked.get(name, "") for name in (*ASKED, "cursor")}, "limit": str(PAGE)}
    found = await visit.read("list_logs", project_id=project_id, query=query)
    facts = {
        "found": found,
        "logs": [_shown(log) for log in found["logs"]],
        "levels": LEVELS,
        "seen": [(name, label) for name, (label, _) in SEEN.items()],
        "when": when,
        "times": {name: int(value) for name, value in times.items()},
        "filtered": bool(times) or when in SEEN or any(asked.get(name) for name in ASKED),
        "ends_early": found["next_cursor"] is not None and found["count"] < PAGE,
    }
    return View("cases/logs.html", "Logs", facts, project_id)


def _shown(log: Json) -> ShownLog:
    return ShownLog(log, facts_of(log), _stack(log), person_of(log), trace_of(log))


def _stack(log: Json) -> str:
    """The exceptions of a record with their frames, as they were sent."""
    sent = log["exception"]
    if sent is None:
        return ""
    all_sent = [sent, *(sent.get("causes") or ())]
    return frames.as_text([frames.sent_cause({**one, "frames": one["frames"][:MOST_FRAMES]}) for one in all_sent])


PAGES = [show_logs]
