"""Signing in once more, where the last sign-in is over 15 minutes ago."""

from __future__ import annotations

from urllib.parse import urlencode

from service.accounts.commands import session as commands
from service.auth.cookies import set_cookie
from service.console.kit.fields import Fields, first
from service.console.kit.page import Redirect, View, form, page
from service.console.kit.places import local
from service.console.kit.unstored import carry_out_unstored
from service.console.kit.visit import Visit

MOST_LINK = 2_000
"""Characters of a link, as it may be pasted with its address."""


@page("again")
async def show_again(visit: Visit) -> View:
    """Ask for another sign-in, at the issuer or by a link of the operator."""
    after, issuer = local(visit.query.get("next", "")), visit.call.services.issuer
    address = f"/console/oidc?{urlencode({'again': '1', 'next': after})}"
    elsewhere = None if issuer is None else (issuer.label, address)
    return View("account/again.html", "Sign in again", {"next": after, "elsewhere": elsewhere})


@form("again")
async def sign_in_again(visit: Visit, fields: Fields) -> Redirect:
    """Use a link of the same person. The browser gets a new secret. Raises LinkOver and SessionNotFound."""
    call, link = visit.call, secret_of(first(fields, "link"))
    intent = await commands.authenticate_by_link(call.services.store, call.user_id, call.principal.id, link)
    renewed = await carry_out_unstored(call, intent)
    call.services.authenticator.forget()
    cookie = set_cookie(call.services.settings.base_url, renewed.secret)
    return Redirect(local(first(fields, "_next")), headers={"set-cookie": cookie})


def secret_of(link: str) -> str:
    """The secret in a link, pasted with or without its address."""
    return link[:MOST_LINK].rpartition("token=")[2].strip()


PAGES = [show_again]
FORMS = [sign_in_again]
