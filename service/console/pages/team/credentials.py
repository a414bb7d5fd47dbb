"""The credentials of a project and its DSN."""

from __future__ import annotations

from service.console.kit.commands import FormProblem
from service.console.kit.fields import Fields, first
from service.console.kit.page import View, form, page
from service.console.kit.together import together
from service.console.kit.visit import Visit


@page("projects/{project_id}/credentials", section="credentials")
async def show_credentials(visit: Visit) -> View:
    """Show the credentials, a page of them, and the DSN to owners."""
    return await _shown(visit, None)


@form("projects/{project_id}/credentials/verify")
async def verify_dsn(visit: Visit, fields: Fields) -> View:
    """Say whether a text is the DSN of the project. Raises FormProblem."""
    said = await visit.ask("verify_dsn", visit.values, body={"dsn": first(fields, "dsn")})
    if not said.ok:
        raise FormProblem(said.status, said.error)
    return await _shown(visit, said.body)


async def _shown(visit: Visit, verified: object) -> View:
    project_id = visit.values["project_id"]
    query = {"cursor": visit.query.get("cursor"), "limit": 50}
    found = await visit.read("list_credentials", project_id=project_id, query=query)
    dsn, control = await together(
        visit.try_read(operation, project_id=project_id) for operation in ("read_dsn", "get_automation_control")
    )
    contract = control["contract"] if control else None
    automations = [(one["automation_id"], one["name"]) for one in contract["automations"]] if contract else []
    url = f"{visit.call.services.settings.base_url}/v1/analytics/"
    facts = {"found": found, "dsn": dsn, "automations": automations, "verified": verified, "analytics_url": url}
    return View("team/credentials.html", "Credentials", facts, project_id)


PAGES = [show_credentials]
FORMS = [verify_dsn]
