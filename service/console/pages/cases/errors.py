"""The stored errors of a case: the list, newest first, one of them in full, and the people affected."""

from __future__ import annotations

from service.console.kit.page import View, page
from service.console.kit.visit import Visit
from service.console.pages.cases.context import evidence_of

PAGE = 25


@page("cases/{case_id}/errors", section="cases")
async def show_errors(visit: Visit) -> View:
    """Show the stored errors of a case, a page of them, and what all of them share."""
    case_id = visit.values["case_id"]
    query = {"cursor": visit.query.get("cursor"), "limit": PAGE}
    found = await visit.read("list_case_events", case_id=case_id, query=query)
    common = await visit.try_read("get_case_common", case_id=case_id) if found["events"] else None
    facts = {"found": found, "case_id": case_id, "common": common}
    return View("cases/errors.html", "Errors of a case", facts, found["project_id"])


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
