"""The onboarding of a project: its plan, the approval of it, and the proof."""

from __future__ import annotations

from service.console.kit.page import View, page
from service.console.kit.visit import ReadRefused, Visit
from statemachines.onboarding import lifecycle

TEMPLATE = "onboarding/state.html"


@page("projects/{project_id}/onboarding", section="onboarding")
async def show_onboarding(visit: Visit) -> View:
    """Show how far the onboarding is."""
    project_id = visit.values["project_id"]
    said = await visit.ask("get_onboarding", {"project_id": project_id})
    if not said.ok and said.error["code"] != "onboarding_not_started":
        raise ReadRefused(said)
    return View(TEMPLATE, "Onboarding", {}, project_id, follows=[lifecycle.stream(project_id).id])


PAGES = [show_onboarding]
