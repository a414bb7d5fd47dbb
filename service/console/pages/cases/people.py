"""The people whom errors of a project affected, and what is known of one."""

from __future__ import annotations

from collections.abc import Sequence

from service.auth.refusals import NotFound
from service.console.kit.page import View, page
from service.console.kit.visit import Visit

DAYS: Sequence[tuple[str, str]] = (
    ("1", "the last day"),
    ("7", "the last 7 days"),
    ("30", "the last 30 days"),
    ("90", "the last 90 days"),
)


@page("projects/{project_id}/people", section="people")
async def show_people(visit: Visit) -> View:
    """Show the people affected, most errors first."""
    return await _people(visit)


async def _people(visit: Visit) -> View:
    project_id = visit.values["project_id"]
    query = {"days": visit.query.get("days"), "limit": 100}
    found = await visit.read("list_users", project_id=project_id, query=query)
    return View("cases/affected.html", "People", {"found": found, "days": DAYS}, project_id)


@page("projects/{project_id}/people/person", section="people")
async def show_person(visit: Visit) -> View:
    """Show one person, whose id is in the query: it may hold any character."""
    project_id, distinct_id = visit.values["project_id"], visit.query.get("id", "")
    if not distinct_id:
        return await _people(visit)
    try:
        found = await visit.read("get_user_summary", project_id=project_id, distinct_id=distinct_id)
    except NotFound:  # no path of the API can hold such an id
        return View("cases/unnamed-person.html", "Person", {"distinct_id": distinct_id}, project_id)
    recordings = [(one, _outside(one["web_ui_url"])) for one in found["recent_recordings"]]
    facts = {"found": found, "recordings": recordings, "at_provider": _outside(found.get("web_ui_url", ""))}
    return View("cases/person.html", "Person", facts, project_id)


def _outside(address: str) -> str:
    """An address to link to: one of the web, else none."""
    return address if address.startswith(("https://", "http://")) else ""


PAGES = [show_people, show_person]
