"""How to verify the log without trusting the service, with the commands for it."""

from __future__ import annotations

from service.console.kit.page import View, page
from service.console.kit.visit import Visit
from service.console.pages.log.checkpoint import checkpoint_of


@page("how-to-verify")
async def show_how(visit: Visit) -> View:
    """Show the newest checkpoint and three commands. Raises ReadRefused for somebody without a session."""
    await visit.read("list_projects", query={"limit": 1})
    settings = visit.call.services.settings
    facts = {"checkpoint": await checkpoint_of(visit), "base_url": settings.base_url}
    return View("log/verifying.html", "How to verify", facts)


PAGES = [show_how]
