"""The requests of a project for a decision, pending and decided."""

from __future__ import annotations

from service.console.kit.following import ALL
from service.console.kit.page import View, page
from service.console.kit.visit import Visit
from service.console.pages.runs.requests import request_of, states_of
from service.console.pages.runs.told import kind_of, words

STATUSES = ("pending", "approved", "rejected", "expired", "cancelled")
LISTED = 20


@page("projects/{project_id}/approvals", section="runs")
async def show_approvals(visit: Visit) -> View:
    """Show the pending requests, or those of another status, newest first."""
    project_id = visit.values["project_id"]
    status = visit.query.get("status", "pending")
    query = {"status": status, "cursor": visit.query.get("cursor"), "limit": LISTED}
    found = await visit.read("list_automation_approvals", project_id=project_id, query=query)
    requests = [request_of(one) for one in found["approvals"]]
    facts = {
        "requests": requests,
        "next_cursor": found["next_cursor"],
        "status": status,
        "statuses": [(one, words(one)) for one in STATUSES],
        "kind_of": kind_of,
        "words": words,
        "place": f"projects/{project_id}/approvals",
    }
    return View("runs/approvals.html", "Approvals", facts, project_id, states_of(requests), [ALL])


PAGES = [show_approvals]
