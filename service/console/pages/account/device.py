"""The sign-in of a device, confirmed or refused by its person (G-020)."""

from __future__ import annotations

from service.accounts import reads
from service.accounts.commands import sign_in as commands
from service.console.kit.fields import Fields, first
from service.console.kit.page import Redirect, View, form, page
from service.console.kit.visit import Visit
from service.eventstore.declare.commands import Answer
from service.http.accounts.device_page import code_of

SETTLED = frozenset({"confirmed", "refused"})


@page("device")
async def show_device(visit: Visit) -> View:
    """Show the device of a code, or ask for the code."""
    code, store = code_of(visit.query.get("user_code")), visit.call.services.store
    found = None if code is None else await reads.pending_sign_in(store, code)
    settled = visit.query.get("settled", "")
    facts = {
        "code": code,
        "found": found,
        "asked": visit.query.get("user_code", ""),
        "settled": settled if settled in SETTLED else "",
    }
    return View("account/device.html", "Sign in a device", facts)


@form("device")
async def settle_device(visit: Visit, fields: Fields) -> Redirect:
    """Confirm the code, and the device gets a key of the person. Or refuse it.

    Raises UserCodeNotFound, AccountDeletionInProgress, and ReauthenticationRequired for a confirmation.
    """
    call, code = visit.call, first(fields, "user_code")
    salt = call.services.store.installation_salt
    if first(fields, "decision") != "confirm":
        await call.carry_out(commands.deny(salt, code), lambda _: Answer(204, None))
        return Redirect("device?settled=refused")
    call.ask_fresh()
    await call.carry_out(commands.authorize_as(salt, code, call.user_id), lambda _: Answer(204, None))
    return Redirect("device?settled=confirmed")


PAGES = [show_device]
FORMS = [settle_device]
