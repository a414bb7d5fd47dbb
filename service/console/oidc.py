"""The sign-in at an OIDC issuer: the way there, and the way back with its result.

A state works once, since the session that it opens is stored under its digest. Every other outcome is a page.
"""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import Any

from service.accounts.commands import identity as commands
from service.accounts.commands.session import NewSession
from service.auth.cookies import cookie_value, set_cookie
from service.auth.oidc import flow as flows
from service.auth.oidc.flow import Flow
from service.auth.oidc.issuer import Issuer, IssuerFailed
from service.auth.refusals import NotFound
from service.auth.secrets import digest
from service.console.kit.headers import FRAMELESS
from service.console.kit.places import local
from service.console.signing_in import entered, page, present, query_of
from service.eventstore.declare.commands import Answer, KeyInProgress, Outcome
from service.eventstore.declare.intents import Intent, retry_moved
from service.http.edge.answer.errors import failure_of
from service.http.edge.declare.call import Call
from service.http.edge.declare.headers import head_of
from statemachines.accounts.identity import Vouched
from statemachines.kernel.machine import Rejection

COOKIE = "service_oidc"
NOT_BEGUN_HERE = "This sign-in did not begin in this browser, or it took over ten minutes."
USED = "This sign-in was used already."
NO_SESSION = "Your session has ended. Sign in anew."


async def start(call: Call[Any, Any]) -> Outcome:
    """Lead to the issuer. Raises NotFound without one."""
    issuer, given = _issuer(call), query_of(call)
    flow = flows.begin(local(given.get("next", "")), again=given.get("again") == "1")
    try:
        address = await issuer.address(flow)
    except IssuerFailed as failed:
        return page(call, flow.place, problem=str(failed), status=HTTPStatus.BAD_GATEWAY)
    cookie = set_cookie(call.services.settings.base_url, flow.cookie, name=COOKIE, seconds=flows.LIFETIME)
    return Outcome(HTTPStatus.SEE_OTHER, b"", {**FRAMELESS, "location": address, "set-cookie": cookie})


async def come_back(call: Call[Any, Any]) -> Outcome:
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
    except IssuerFailed as failed:
        return page(call, after, problem=str(failed), status=HTTPStatus.BAD_REQUEST)
    except Rejection as refused:
        return page(call, after, problem=failure_of(refused).message, status=failure_of(refused).status)
    if made is None:
        return page(call, after, problem=USED, status=HTTPStatus.BAD_REQUEST)
    return await entered(call, after, made.secret, None if flow.again else before)


async def _once(
    call: Call[Any, Any], flow: Flow, vouched: Vouched, before: tuple[str, str] | None
) -> NewSession | None:
    """Carry a sign-in out under its state. None for another one under the same."""
    store = call.services.store
    intent: Intent[NewSession] = (
        commands.authenticate_as(store, vouched, *before)
        if flow.again and before is not None
        else await commands.enter_as(store, vouched)
    )
    made: list[NewSession] = []

    def keep(result: NewSession) -> Answer:
        made.append(result)
        return Answer(HTTPStatus.NO_CONTENT, None)

    try:
        outcome = await replace(call, key=digest(flow.state), request_hash="").carry_out(intent, keep)
    except KeyInProgress:
        return None
    return None if outcome.replayed else made[-1]


def _issuer(call: Call[Any, Any]) -> Issuer:
    if call.services.issuer is None:
        raise NotFound
    return call.services.issuer
