"""The members of a project and the invitations to it."""

from __future__ import annotations

from service.console.kit.page import View, page
from service.console.kit.visit import Visit


@page("projects/{project_id}/members", section="members")
async def show_members(visit: Visit) -> View:
    """Show the members, a page of them."""
    project_id = visit.values["project_id"]
    query = {"cursor": visit.query.get("cursor"), "limit": 50}
    found = await visit.read("list_members", project_id=project_id, query=query)
    return View(
        "team/members.html", "Members", {"found": found, "base_url": visit.call.services.settings.base_url}, project_id
    )


@page("invitations/{invitation_id}")
async def show_invitation(visit: Visit) -> View:
    """Show an invitation to the person invited."""
    found = await visit.read("get_invitation", invitation_id=visit.values["invitation_id"])
    return View("team/invitation.html", "Invitation", {"found": found}, state={"Status": found["status"]})


PAGES = [show_members, show_invitation]
