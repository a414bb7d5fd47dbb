"""The overview of a project: its telemetry, its waiting decisions, and its next steps."""

from __future__ import annotations

from collections.abc import Sequence

from service.console.kit.following import ALL
from service.console.kit.page import View, page
from service.console.kit.together import together
from service.console.kit.visit import Json, Visit
from service.console.pages.projects.standing import plan_waits, standing_of

DAYS = 30
NEWEST_CASES = 6
NEWEST_DEPLOYS = 20


@page("projects/{project_id}", section="overview")
async def show_project(visit: Visit) -> View:
    """Show a project."""
    project_id = visit.values["project_id"]
    health = await visit.read("get_project_health", project_id=project_id, query={"days": DAYS})
    control, steps, cases, deploys, onboarding = await together(
        visit.try_read(operation, project_id=project_id, query=query)
        for operation, query in (
            ("get_automation_control", {}),
            ("get_next_steps", {}),
            ("list_cases", {"status": "open", "limit": NEWEST_CASES}),
            ("list_deploys", {"limit": NEWEST_DEPLOYS}),
            ("get_onboarding", {}),
        )
    )
    found: Sequence[Json] = deploys["deploys"] if deploys else []
    facts = {
        "health": health,
        "control": control,
        "standing": standing_of(control),
        "steps": steps,
        "cases": cases,
        "days": [(day, _on(day, found)) for day in health["by_day"]],
        "deploys": found,
        "plan_waits": plan_waits(onboarding),
    }
    return View("projects/overview.html", "Overview", facts, project_id, follows=[ALL])


def _on(day: Json, deploys: Sequence[Json]) -> list[Json]:
    """The listed deploys of a day."""
    return [one for one in deploys if day["date"] <= one["recorded_at"] < day["date"] + 86_400]


PAGES = [show_project]
