"""The sign-in in a browser: by a one-time link, or at the organisation's identity provider.

The link is used by POST, so no preview of a chat and no scanner of mail uses it up. The answer sets a new secret, and
ends the session that this browser had before. So nobody can plant a session of their own.
"""

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlencode

from service.accounts import sign_in
from service.accounts import sign_in as commands
from service.auth import oidc as flows
from service.auth.refusals import NotFound, Unauthenticated
from service.auth.secrets import cookie_value, digest, session_secret, set_cookie
from service.console.kit.page import first, read_form
from service.console.kit.rendering import render
from service.console.kit.visit import FRAMELESS, HEADERS, carry_out_unstored, local, way_to
from service.eventstore.declare.commands import Answer, Intent, KeyInProgress, Outcome, retry_moved
from service.http.answer.errors import failure_of
from service.http.declare.call import Call
from service.http.declare.headers import head_of
from service.http.edge import inner
from service.http.edge.origin import with_session
from statemachines.accounts.identity import Vouched
from statemachines.kernel.machine import Rejection

# The sign-in: the page behind a one-time link, and its form.

MOST_PARAMETERS = 10


def show(call: Call) -> Outcome:
    """The page of a link, or the ways to sign in."""
    given = query_of(call)
    return page(call, local(given.get("next", "")), token=given.get("token", ""))


async def enter(call: Call, data: bytes) -> Outcome:
    """Use a link for a session. Raises InvalidPayload."""
    fields = read_form(call, data)
    after = local(first(fields, "next"))
    before = await present(call)
    try:
        made = await carry_out_unstored(call, await sign_in.enter(call.services.store, first(fields, "token")))
    except Rejection as refused:
        return page(call, after, problem=failure_of(refused).message, status=failure_of(refused).status)
    return await entered(call, after, made.secret, before)


async def entered(call: Call, after: str, secret: str, before: tuple[str, str] | None = None) -> Outcome:
    """The answer to a sign-in. It ends the session that the browser had `before`."""
    if before is not None:
        await call.carry_out(sign_in.end(*before, "signed_out"), lambda _: Answer(HTTPStatus.OK, None))
    call.services.authenticator.forget()
    cookie = set_cookie(call.services.settings.base_url, secret)
    headers = {**FRAMELESS, "location": way_to(after), "set-cookie": cookie}
    return Outcome(HTTPStatus.SEE_OTHER, b"", headers)


async def present(call: Call) -> tuple[str, str] | None:
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


def query_of(call: Call) -> Mapping[str, str]:
    """The parameters of an address. None of too many."""
    text = call.scope["query_string"].decode("ascii", "replace")
    try:
        return dict(parse_qsl(text, max_num_fields=MOST_PARAMETERS))
    except ValueError:
        return {}


def page(call: Call, after: str, *, token: str = "", problem: str = "", status: int = 200) -> Outcome:
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


# The sign-in at an OIDC issuer: the way there, and the way back with its result. A state works once, since the session
# that it opens is stored under its digest. Every other outcome is a page.

COOKIE = "service_oidc"
NOT_BEGUN_HERE = "This sign-in did not begin in this browser, or it took over ten minutes."
USED = "This sign-in was used already."
NO_SESSION = "Your session has ended. Sign in anew."


async def start(call: Call) -> Outcome:
    """Lead to the issuer. Raises NotFound without one."""
    issuer, given = _issuer(call), query_of(call)
    flow = flows.begin(local(given.get("next", "")), again=given.get("again") == "1")
    try:
        address = await issuer.address(flow)
    except flows.IssuerFailed as failed:
        return page(call, flow.place, problem=str(failed), status=HTTPStatus.BAD_GATEWAY)
    cookie = set_cookie(call.services.settings.base_url, flow.cookie, name=COOKIE, seconds=flows.LIFETIME)
    return Outcome(HTTPStatus.SEE_OTHER, b"", {**FRAMELESS, "location": address, "set-cookie": cookie})


async def come_back(call: Call) -> Outcome:
    """Open a session, or make the present one fresh. Raises NotFound without an issuer."""
    issuer, given = _issuer(call), query_of(call)
    base_url = call.services.settings.base_url
    flow = flows.read(cookie_value(head_of(call.scope).headers, base_url, COOKIE))
    if flow is None or not flow.matches(given.get("state", "")):
        return page(call, "", problem=NOT_BEGUN_HERE, status=HTTPStatus.BAD_REQUEST)
    after, before = local(flow.place), await present(call)
    if flow.again and before is None:
        return page(call, after, problem=NO_SESSION, status=HTTPStatus.BAD_REQUEST)
    try:
        vouched = await issuer.redeem(flow, given)
        made = await retry_moved(lambda: _once(call, flow, vouched, before))
    except flows.IssuerFailed as failed:
        return page(call, after, problem=str(failed), status=HTTPStatus.BAD_REQUEST)
    except Rejection as refused:
        return page(call, after, problem=failure_of(refused).message, status=failure_of(refused).status)
    if made is None:
        return page(call, after, problem=USED, status=HTTPStatus.BAD_REQUEST)
    return await entered(call, after, made.secret, None if flow.again else before)


async def _once(
    call: Call, flow: flows.Flow, vouched: Vouched, before: tuple[str, str] | None
) -> commands.NewSession | None:
    """Carry a sign-in out under its state. None for another one under the same."""
    store = call.services.store
    intent: Intent[commands.NewSession] = (
        commands.authenticate_as(store, vouched, *before)
        if flow.again and before is not None
        else await commands.enter_as(store, vouched)
    )
    made: list[commands.NewSession] = []

    def keep(result: commands.NewSession) -> Answer:
        made.append(result)
        return Answer(HTTPStatus.NO_CONTENT, None)

    try:
        outcome = await replace(call, key=digest(flow.state), request_hash="").carry_out(intent, keep)
    except KeyInProgress:
        return None
    return None if outcome.replayed else made[-1]


def _issuer(call: Call) -> flows.Issuer:
    if call.services.issuer is None:
        raise NotFound
    return call.services.issuer
