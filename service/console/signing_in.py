"""The sign-in: the page behind a one-time link, and its form.

The link is used by POST, so no preview of a chat and no scanner of mail uses it up. The answer sets a new secret, and
ends the session that this browser had before. So nobody can plant a session of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlencode

from service.accounts.commands import session as commands
from service.auth.cookies import session_secret, set_cookie
from service.auth.refusals import Unauthenticated
from service.console.kit.fields import first, read_form
from service.console.kit.headers import FRAMELESS, HEADERS
from service.console.kit.places import local, way_to
from service.console.kit.rendering import render
from service.console.kit.unstored import carry_out_unstored
from service.eventstore.declare.commands import Answer, Outcome
from service.http.edge import inner
from service.http.edge.admission.session_cookie import with_session
from service.http.edge.answer.errors import failure_of
from service.http.edge.declare.call import Call
from service.http.edge.declare.headers import head_of
from statemachines.kernel.machine import Rejection

MOST_PARAMETERS = 10


def show(call: Call[Any, Any]) -> Outcome:
    """The page of a link, or the ways to sign in."""
    given = query_of(call)
    return page(call, local(given.get("next", "")), token=given.get("token", ""))


async def enter(call: Call[bytes, Any]) -> Outcome:
    """Use a link for a session. Raises InvalidPayload."""
    fields = read_form(call)
    after = local(first(fields, "next"))
    before = await present(call)
    try:
        made = await carry_out_unstored(call, await commands.enter(call.services.store, first(fields, "token")))
    except Rejection as refused:
        return page(call, after, problem=failure_of(refused).message, status=failure_of(refused).status)
    return await entered(call, after, made.secret, before)


async def entered(call: Call[Any, Any], after: str, secret: str, before: tuple[str, str] | None = None) -> Outcome:
    """The answer to a sign-in. It ends the session that the browser had `before`."""
    if before is not None:
        await call.carry_out(commands.end(*before, "signed_out"), lambda _: Answer(HTTPStatus.OK, None))
    call.services.authenticator.forget()
    cookie = set_cookie(call.services.settings.base_url, secret)
    headers = {**FRAMELESS, "location": way_to(after), "set-cookie": cookie}
    return Outcome(HTTPStatus.SEE_OTHER, b"", headers)


async def present(call: Call[Any, Any]) -> tuple[str, str] | None:
    """The person and the id of the session that the browser has now."""
    base_url, head = call.services.settings.base_url, head_of(call.scope)
    if session_secret(head.headers, base_url) is None:
        return None
    home = inner.pipeline_of(call).bound["console_home"].operation
    try:
        found = await call.services.authenticator.authenticate(home, with_session(head, base_url).headers, {})
    except Unauthenticated:
        return None
    assert found.user_id is not None, "a session is a person's"
    return found.user_id, found.id


def query_of(call: Call[Any, Any]) -> Mapping[str, str]:
    """The parameters of an address. None of too many."""
    text = call.scope["query_string"].decode("ascii", "replace")
    try:
        return dict(parse_qsl(text, max_num_fields=MOST_PARAMETERS))
    except ValueError:
        return {}


def page(call: Call[Any, Any], after: str, *, token: str = "", problem: str = "", status: int = 200) -> Outcome:
    """The page of the sign-in, with a link's token or with a problem."""
    issuer = call.services.issuer
    elsewhere = None if issuer is None else (issuer.label, f"/console/oidc?{urlencode({'next': after})}")
    facts: Mapping[str, Any] = {
        "token": token,
        "next": after,
        "problem": problem,
        "elsewhere": elsewhere,
        "theme": "",
    }
    return Outcome(status, render("kit/enter.html", facts), HEADERS)
