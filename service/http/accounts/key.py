"""A person's own API keys: listed, and ended by the person they belong to (G-027, extensions of the document)."""

from http import HTTPStatus

import msgspec
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from projections.accounts import FeedbackRow
from schemas.accounts import FeedbackReceived, KeyList, KeyRevokedBody, RevokeKey, SendFeedback
from schemas.kernel.published import body_schema
from schemas.kernel.shape import PageQuery, shape_from
from service.accounts import person, show
from service.accounts import person as commands
from service.eventstore.declare.commands import Answer, Outcome
from service.eventstore.read.reader import PageEnd
from service.http.answer.paging import page, start_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY


@groups.AUTH.get("/v1/keys", "List your API keys")
@Who(KEY)
@Docs(KeyList, extension=True)
async def list_keys(call: Call, params: NamedDependency[PageQuery]) -> Answer:
    """List the caller's keys, live and revoked, newest first."""
    start = start_of(params)
    await call.services.authenticator.uses.flush()  # so that the use by this very request shows
    found = await person.keys_of(call.services.store, call.user_id, start, params.limit + 1)
    keys, cursor = page(found, params, lambda used: PageEnd(used.key.created_at, used.key.id))
    return Answer(200, show.key_list(keys, cursor))


@groups.AUTH.post("/v1/keys/{key_id}/revoke", "Revoke one of your API keys")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(KeyRevokedBody, errors=("not_found",), extension=True)
async def revoke_key(
    call: Call,
    data: JSONBody[RevokeKey],  # noqa: ARG001 - only its form counts
    key_id: FromPath[str],
) -> Outcome:
    """End a key. From the answer on nothing that rests on it commits."""
    intent = commands.revoke(call.user_id, key_id)
    outcome = await call.carry_out(intent, lambda ended: Answer(200, show.key_revoked(ended)))
    call.services.authenticator.forget()
    return outcome


# Sending feedback (R-INST-10, R-INST-13, G-063, G-158).

_NEXT = "Nothing to do. Send the same fingerprint when you meet it again: repeats are counted."


@groups.INSTALL.post("/v1/feedback", "Report a defect, a question or an idea to the operator")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs({201: FeedbackReceived, 200: FeedbackReceived}, errors=("project_not_found",))
async def send_feedback(call: Call, data: JSONBody[SendFeedback]) -> Outcome:
    """Keep feedback of the caller, or count its repeat."""
    person.check(data, body_schema(SendFeedback))
    if data.project_id is not msgspec.UNSET:
        await call.services.authenticator.admit(call.principal, data.project_id, call.operation)
        call.scope_id = data.project_id
    return await call.carry_out(person.send(call.user_id, data), _received)


def _received(row: FeedbackRow) -> Answer:
    body = shape_from(FeedbackReceived, row, next_action=_NEXT)
    return Answer(HTTPStatus.CREATED if row.occurrences == 1 else HTTPStatus.OK, body)


ENDPOINTS = [list_keys, revoke_key, send_feedback]
