"""Sending feedback (R-INST-10, R-INST-13, G-063, G-158)."""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from projections.accounts import FeedbackRow
from schemas.accounts import FeedbackReceived, SendFeedback
from schemas.kernel.published import body_schema
from service.accounts import person
from service.eventstore.declare.commands import Answer, Outcome
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Fencing, Who
from service.http.edge.declare.operations import KEY

_NEXT = "Nothing to do. Send the same fingerprint when you meet it again: repeats are counted."


@groups.INSTALL.post("/v1/feedback", "Report a defect, a question or an idea to the operator")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs({201: FeedbackReceived, 200: FeedbackReceived}, errors=("project_not_found",))
async def send_feedback(call: Call[SendFeedback, None]) -> Outcome:
    """Keep feedback of the caller, or count its repeat."""
    wish = call.body
    person.check(wish, body_schema(SendFeedback))
    if wish.project_id is not msgspec.UNSET:
        await call.services.authenticator.admit(call.principal, wish.project_id, call.operation)
        call.scope_id = wish.project_id
    return await call.carry_out(person.send(call.user_id, wish), _received)


def _received(row: FeedbackRow) -> Answer:
    body = FeedbackReceived(
        id=row.id,
        kind=row.kind,  # type: ignore[arg-type] # a row has no other kind
        fingerprint=row.fingerprint,
        occurrences=row.occurrences,
        created_at=row.created_at,
        next_action=_NEXT,
    )
    return Answer(HTTPStatus.CREATED if row.occurrences == 1 else HTTPStatus.OK, body)


ENDPOINTS = [send_feedback]
