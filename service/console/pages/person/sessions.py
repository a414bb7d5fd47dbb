"""The open sessions of a person, and the end of this one."""

from __future__ import annotations

from service.auth.cookies import unset_cookie
from service.console.kit.commands import FormProblem
from service.console.kit.fields import Fields
from service.console.kit.page import Redirect, View, form, page
from service.console.kit.visit import Visit


@page("sessions")
async def show_sessions(visit: Visit) -> View:
    """Show the open sessions."""
    found = await visit.read("list_sessions", query={"cursor": visit.query.get("cursor"), "limit": 50})
    return View("person/sessions.html", "Sessions", {"found": found})


@form("leave")
async def leave(visit: Visit, _: Fields) -> View | Redirect:
    """End the session of this browser. Raises FormProblem."""
    said = await visit.ask("end_session", {"session_id": visit.call.principal.id})
    if not said.ok:
        raise FormProblem(said.status, said.error)
    return Redirect("enter", headers={"set-cookie": unset_cookie(visit.call.services.settings.base_url)})


PAGES = [show_sessions]
FORMS = [leave]
