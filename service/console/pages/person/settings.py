"""Settings of a person: how the console looks, the keys, and the end of the account."""

from __future__ import annotations

from service.console.kit import preferences
from service.console.kit.commands import FormProblem
from service.console.kit.fields import Fields, first
from service.console.kit.page import Redirect, View, form, page
from service.console.kit.places import local
from service.console.kit.visit import Visit

KEYS = 50


@page("settings")
async def show_settings(visit: Visit) -> View:
    """Show the settings, with a page of keys."""
    keys = await visit.read("list_keys", query={"cursor": visit.query.get("cursor"), "limit": KEYS})
    facts = {"keys": keys, "zones": preferences.zones(), "saved": visit.preferences}
    return View("person/settings.html", "Settings", facts)


@form("preferences")
async def save_preferences(visit: Visit, fields: Fields) -> Redirect:
    """Save the theme and the zone of times in a cookie. Raises FormProblem for an unknown one."""
    wanted = {name: first(fields, name) for name in ("theme", "zone") if first(fields, name)}
    for name, value in wanted.items():
        if not preferences.is_known(name, value):
            raise FormProblem.of_field(name, "is none of those offered")
    secure = visit.call.services.settings.base_url.startswith("https:")
    cookie = preferences.written(wanted, secure=secure)
    return Redirect(local(first(fields, "_next") or "settings"), "preferences", {"set-cookie": cookie})


@form("settings/delete-account")
async def delete_account(visit: Visit, fields: Fields) -> View:
    """Begin the deletion of the account, or look how far it is. Raises FormProblem."""
    said = await visit.ask("delete_account", {}, body={"confirm": first(fields, "confirm")})
    if not said.ok:
        raise FormProblem(said.status, said.error)
    return View("person/deleted.html", "Deletion of your account", {"found": said.body})


PAGES = [show_settings]
FORMS = [save_preferences, delete_account]
