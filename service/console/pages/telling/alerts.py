"""The alerts of a project, and a test of one on the past."""

from __future__ import annotations

from service.console.kit.commands import FormProblem
from service.console.kit.fields import Fields, body_of, first
from service.console.kit.page import View, form, page
from service.console.kit.visit import Json, Visit
from service.console.pages.telling.blueprints import chosen_blueprint
from service.http.edge import inner

OPERATORS = (
    ("gte", "at least"),
    ("gt", "more than"),
    ("lte", "at most"),
    ("lt", "less than"),
    ("eq", "exactly"),
    ("neq", "other than"),
)
KINDS = {"created": "", "evaluated_clear": "good", "triggered": "bad"}
WORDS = {"created": "not yet evaluated", "evaluated_clear": "clear", "triggered": "triggered"}


@page("projects/{project_id}/alerts", section="alerts")
async def show_alerts(visit: Visit) -> View:
    """Show the alerts, and a form for another."""
    return await _shown(visit, None)


@form("projects/{project_id}/alerts")
async def make_alert(visit: Visit, fields: Fields) -> View:
    """Test an alert on the last days. Raises FormProblem."""
    body = body_of(fields, inner.pipeline_of(visit.call).bound["preview_alert"].body_type)
    said = await visit.ask("preview_alert", visit.values, body=body)
    if not said.ok:
        raise FormProblem(said.status, said.error)
    visit.query = {**visit.query, "blueprint": first(fields, "blueprint_id")}
    return await _shown(visit, said.body)


async def _shown(visit: Visit, preview: Json | None) -> View:
    project_id = visit.values["project_id"]
    found = await visit.read("list_alerts", project_id=project_id)
    facts = {
        "found": found,
        "blueprint": await chosen_blueprint(visit),
        "preview": preview,
        "operators": OPERATORS,
        "told": dict(OPERATORS),
        "kinds": KINDS,
        "words": WORDS,
    }
    return View("telling/alerts.html", "Alerts", facts, project_id)


PAGES = [show_alerts]
FORMS = [make_alert]
