"""The runs of a project."""

from __future__ import annotations

from service.console.kit.following import ALL
from service.console.kit.page import View, page
from service.console.kit.visit import Visit
from service.console.pages.runs.told import STATUSES, kind_of, words

LISTED = 50


@page("projects/{project_id}/runs", section="runs")
async def show_runs(visit: Visit) -> View:
    """Show runs, newest first, and the number of pending requests."""
    project_id = visit.values["project_id"]
    filters = {name: visit.query.get(name) for name in ("automation_id", "status", "case_id", "cursor")}
    found = await visit.read("list_automation_runs", project_id=project_id, query={**filters, "limit": LISTED})
    waiting = await visit.try_read(
        "list_automation_approvals", project_id=project_id, query={"status": "pending", "limit": LISTED}
    )
    control = await visit.try_read("get_automation_control", project_id=project_id)
    automations = [] if control is None or control["contract"] is None else control["contract"]["automations"]
    facts = {
        "found": found,
        "waiting": waiting,
        "automations": [(one["automation_id"], one["name"]) for one in automations],
        "statuses": [(one, words(one)) for one in STATUSES],
        "kind_of": kind_of,
        "words": words,
        "filtered": any(filters.values()),
    }
    return View("runs/listed.html", "Runs", facts, project_id, follows=[ALL])


PAGES = [show_runs]
