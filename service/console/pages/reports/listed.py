"""The weekly reports of a project."""

from __future__ import annotations

from service.console.kit.following import ALL
from service.console.kit.page import View, page
from service.console.kit.visit import Visit

LISTED = 50


@page("projects/{project_id}/reports", section="reports")
async def show_reports(visit: Visit) -> View:
    """Show the newest reports, and older ones by the runs that recorded them."""
    project_id = visit.values["project_id"]
    control = await visit.read("get_automation_control", project_id=project_id)
    query = {"status": "succeeded", "cursor": visit.query.get("cursor"), "limit": LISTED}
    runs = await visit.read("list_automation_runs", project_id=project_id, query=query)
    recent = {one["run_id"]: one for one in control["recent_reports"]}
    reports = [{**run, "period": recent.get(run["run_id"])} for run in runs["runs"] if run["report_id"] is not None]
    facts = {"reports": reports, "next_cursor": runs["next_cursor"]}
    return View("reports/listed.html", "Reports", facts, project_id, follows=[ALL])


PAGES = [show_reports]
