"""The people whom errors of a project affected, what is known of one, and the deletion of a person."""

from __future__ import annotations

from collections.abc import Sequence

from service.auth.refusals import NotFound
from service.console.kit.commands import FormProblem
from service.console.kit.fields import Fields, first
from service.console.kit.page import View, form, page
from service.console.kit.visit import Visit
from service.ids import new_id

DAYS: Sequence[tuple[str, str]] = (
    ("1", "the last day"),
    ("7", "the last 7 days"),
    ("30", "the last 30 days"),
    ("90", "the last 90 days"),
)

ABOUTS: Sequence[tuple[str, str]] = (("all", "All of it"), ("none", "Without a case"))
WRITTEN = 25


@page("projects/{project_id}/people", section="people")
async def show_people(visit: Visit) -> View:
    """Show the people affected, most errors first."""
    return await _people(visit)


async def _people(visit: Visit) -> View:
    project_id = visit.values["project_id"]
    query = {"days": visit.query.get("days"), "limit": 100}
    found = await visit.read("list_users", project_id=project_id, query=query)
    return View("cases/affected.html", "People", {"found": found, "days": DAYS}, project_id)


@page("projects/{project_id}/feedback", section="people")
async def show_feedback(visit: Visit) -> View:
    """Show texts of people, newest first: all, those without a case, or those of one."""
    project_id, about = visit.values["project_id"], visit.query.get("about", "all")
    query = {"case_id": visit.query.get("case_id"), "cursor": visit.query.get("cursor"), "limit": WRITTEN}
    if about == "none":
        query["without_case"] = "true"
    found = await visit.read("list_feedback_reports", project_id=project_id, query=query)
    facts = {"found": found, "abouts": ABOUTS, "about": about, "case_id": visit.query.get("case_id", "")}
    return View("cases/feedback.html", "What people wrote", facts, project_id)


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


@form("projects/{project_id}/people/delete")
async def delete_person(visit: Visit, fields: Fields) -> View:
    """Begin the deletion of a person, or show its progress. The same request does both. Raises FormProblem."""
    project_id, key = visit.values["project_id"], first(fields, "_key") or new_id("req")
    distinct_id = first(fields, "id")
    if first(fields, "begun") != "yes" and first(fields, "confirm").strip() != distinct_id.strip():
        raise FormProblem.of_field("confirm", "is not the id of this person")
    path = {"project_id": project_id, "distinct_id": distinct_id}
    said = await visit.ask("delete_user", path, body={}, headers={"idempotency-key": key})
    if not said.ok:
        raise FormProblem(said.status, said.error)
    facts = {"found": said.body, "key": key, "distinct_id": distinct_id}
    return View("cases/person-deleted.html", "Deletion of a person", facts, project_id)


def _outside(address: str) -> str:
    """An address to link to: one of the web, else none."""
    return address if address.startswith(("https://", "http://")) else ""


PAGES = [show_people, show_feedback, show_person]
FORMS = [delete_person]
