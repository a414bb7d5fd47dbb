"""One weekly report: its numbers, guesses and gaps, each as text."""

from __future__ import annotations

from service.auth.refusals import NotFound
from service.console.kit.page import View, page
from service.console.kit.visit import Visit


@page("runs/{run_id}/report", section="reports")
async def show_report(visit: Visit) -> View:
    """Show the report of a run. Raises NotFound when it has none."""
    run = await visit.read("get_automation_run", run_id=visit.values["run_id"])
    output = run["output"]
    if run["report_id"] is None or output is None:
        raise NotFound
    kinds = {
        kind: [one for one in output["findings"] if one["kind"] == kind]
        for kind in ("metric", "hypothesis", "readiness_gap")
    }
    kinds["hypothesis"].sort(key=lambda one: one["rank"])
    facts = {"run": run, "output": output, **kinds}
    return View("reports/shown.html", "Weekly report", facts, run["project_id"])


PAGES = [show_report]
