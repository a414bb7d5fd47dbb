"""The receipts of a project: each lets one run begin."""

from __future__ import annotations

from service.console.kit.following import ALL
from service.console.kit.page import View, page
from service.console.kit.visit import Visit
from service.console.pages.runs.told import kind_of, words

STATUSES = ("issued", "claimed", "consumed", "expired", "closed", "invalidated")
LISTED = 50


@page("projects/{project_id}/receipts", section="runs")
async def show_receipts(visit: Visit) -> View:
    """Show receipts, newest first, and let a person look for work now."""
    project_id = visit.values["project_id"]
    filters = {name: visit.query.get(name) for name in ("automation_id", "status", "cursor")}
    found = await visit.read(
        "list_automation_trigger_receipts", project_id=project_id, query={**filters, "limit": LISTED}
    )
    control = await visit.try_read("get_automation_control", project_id=project_id)
    automations = [] if control is None or control["contract"] is None else control["contract"]["automations"]
    facts = {
        "found": found,
        "automations": [(one["automation_id"], one["name"]) for one in automations],
        "statuses": [(one, words(one)) for one in STATUSES],
        "kind_of": kind_of,
        "words": words,
        "filtered": any(filters.values()),
    }
    return View("runs/receipts.html", "Receipts", facts, project_id, follows=[ALL])


PAGES = [show_receipts]
