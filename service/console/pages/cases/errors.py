"""The stored errors of a case: the list, newest first, one of them in full, and the people affected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from service.console.kit.page import View, page
from service.console.kit.visit import Json, Visit
from service.console.pages.cases.context import evidence_of

PAGE = 25
MOST_TAGS = 12
MOST_VALUES = 3


class Shared(NamedTuple):
    """A tag with its most frequent values, each with its number of errors, and the number of other values."""

    name: str
    values: Sequence[tuple[str, int]]
    others: int


@page("cases/{case_id}/errors", section="cases")
async def show_errors(visit: Visit) -> View:
    """Show the stored errors of a case, a page of them."""
    case_id = visit.values["case_id"]
    query = {"cursor": visit.query.get("cursor"), "limit": PAGE}
    found = await visit.read("list_case_events", case_id=case_id, query=query)
    facts = {"found": found, "case_id": case_id, "shared": shared(found["events"])}
    return View("cases/errors.html", "Errors of a case", facts, found["project_id"])


def shared(events: Sequence[Json]) -> list[Shared]:
    """What errors have in common: release, environment and tags, those of most errors first."""
    counts: dict[str, Counter[str]] = {}
    for event in events:
        for name, value in _named(event):
            counts.setdefault(name, Counter())[value] += 1
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1].total(), pair[0]))[:MOST_TAGS]
    return [Shared(name, told.most_common(MOST_VALUES), max(len(told) - MOST_VALUES, 0)) for name, told in ordered]


def _named(event: Json) -> Iterator[tuple[str, str]]:
    yield "environment", event["environment"]
    if event["release"]:
        yield "release", event["release"]
    yield from ((name, str(value)) for name, value in event["tags"].items() if name not in {"environment", "release"})


@page("cases/{case_id}/errors/{event_id}", section="cases")
async def show_error(visit: Visit) -> View:
    """Show one stored error with its sources."""
    case_id = visit.values["case_id"]
    event = await visit.read("get_case_event", case_id=case_id, event_id=visit.values["event_id"])
    beside = {"newer": event["newer_event_id"], "older": event["older_event_id"]}
    facts = {"shown": evidence_of(event), "case_id": case_id, **beside}
    return View("cases/error.html", event["message"].partition("\n")[0][:200], facts, event["project_id"])


@page("cases/{case_id}/people", section="cases")
async def show_people(visit: Visit) -> View:
    """Show the people affected by a case, most errors first."""
    case_id = visit.values["case_id"]
    case = await visit.read("read_case", case_id=case_id)
    found = await visit.read("list_case_users", case_id=case_id)
    facts = {"found": found, "case_id": case_id}
    return View("cases/people.html", "People affected by a case", facts, case["project_id"])


PAGES = [show_errors, show_error, show_people]
