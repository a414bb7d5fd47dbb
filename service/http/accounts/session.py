"""A person's own sessions in the console: listed, and ended by the person they belong to (extensions)."""

from __future__ import annotations

from schemas.accounts import SessionEndedBody, SessionList
from schemas.kernel.shape import PageQuery
from service.accounts import person, show
from service.accounts import sign_in as commands
from service.auth.authority import PrincipalKind
from service.eventstore.declare.commands import Answer, Outcome
from service.eventstore.read.reader import PageEnd
from service.http.edge.answer.paging import page, start_of
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Fencing, Who
from service.http.edge.declare.operations import KEY


@groups.AUTH.get("/v1/auth/sessions", "List your open sessions in the console")
@Who(KEY)
@Docs(SessionList, extension=True)
async def list_sessions(call: Call[None, PageQuery]) -> Answer:
    """List the caller's open sessions, newest first."""
    start, principal = start_of(call.query), call.principal
    await call.services.authenticator.uses.flush()  # so that the use by this very request shows
    found = await person.sessions_of(call.services.store, call.user_id, start, call.query.limit + 1)
    sessions, cursor = page(found, call.query, lambda used: PageEnd(used.session.created_at, used.session.id))
    current = principal.id if principal.kind is PrincipalKind.SESSION else None
    return Answer(200, show.session_list(sessions, current, cursor))


@groups.AUTH.delete("/v1/auth/sessions/{session_id}", "End one of your sessions in the console")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(SessionEndedBody, errors=("not_found",), extension=True)
async def end_session(call: Call[None, None]) -> Outcome:
    """End a session; from the answer on nothing that rests on it commits."""
    intent = commands.end(call.user_id, call.path["session_id"], "revoked")
    outcome = await call.carry_out(intent, lambda ended: Answer(200, show.session_ended(ended)))
    call.services.authenticator.forget()
    return outcome


ENDPOINTS = [list_sessions, end_session]
