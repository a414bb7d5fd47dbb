"""Suppression rules, with a preview of what a pattern would have met."""

from __future__ import annotations

from collections.abc import Sequence

from service.console.kit.page import View, page
from service.console.kit.visit import Visit

ACTIONS: Sequence[tuple[str, str]] = (
    ("auto_ignore", "Ignore matching cases"),
    ("auto_resolve", "Resolve matching cases"),
    ("prompt_hint", "Show a hint on matching cases"),
)


@page("projects/{project_id}/suppressions", section="suppressions")
async def show_suppressions(visit: Visit) -> View:
    """Show the rules of a project, and with a pattern what it would have met before anything is saved."""
    project_id, pattern = visit.values["project_id"], visit.query.get("pattern", "")
    found = await visit.read("list_suppressions", project_id=project_id)
    preview, refused = None, ""
    if pattern:
        said = await visit.ask("preview_suppression", {"project_id": project_id}, body={"fingerprint_pattern": pattern})
        preview, refused = (said.body, "") if said.ok else (None, said.error["message"])
    facts = {
        "found": found,
        "pattern": pattern,
        "preview": preview,
        "refused": refused,
        "actions": ACTIONS,
        "chosen": visit.query.get("action", ""),
    }
    return View("cases/suppressions.html", "Suppressions", facts, project_id)


PAGES = [show_suppressions]
