"""Deleting a person of a project's telemetry (G-197, an extension of the document)."""

from __future__ import annotations

from functools import partial

from projections.deletion import ErasureRow
from schemas.deletion import UserDeleted, UserDeleting
from service.auth.refusals import InvalidPayload
from service.deletion import people
from service.deletion.people import Eraser, round_of
from service.eventstore.declare.commands import Answer, Outcome
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Fencing, Who
from service.http.edge.declare.operations import OWNER
from statemachines.deletion.erasure import request_sha256

MAX_DISTINCT_ID = 200


@groups.CASES.delete(
    "/v1/projects/{project_id}/users/{distinct_id}", "Delete a person, repeated with the same key until it answers 200"
)
@Who(OWNER, owner=True, fresh=True)
@Fencing(idempotency="required")
@Docs({202: UserDeleting, 200: UserDeleted}, errors=("invalid_payload", "person_deletion_in_progress"), extension=True)
async def delete_user(call: Call[None, None]) -> Outcome | Answer:
    """Fence a person at once, and delete the records step by step. Each repeat moves it on and shows it."""
    assert call.key is not None, "the operation requires a key"
    project_id, name = call.project_id, call.path["distinct_id"]
    if len(name) > MAX_DISTINCT_ID:
        reason = f"must be at most {MAX_DISTINCT_ID} characters"
        raise InvalidPayload("The id of a person cannot be this long.", invalid=[("distinct_id", reason)])
    eraser = Eraser.of(call.services.store, call.services.settings)
    hashed = eraser.hash_of(project_id, name)
    # The record of the request outlives the person, and knows the name by its hash.
    call.known_as = f"DELETE /v1/projects/{project_id}/users/{hashed}"
    shown = partial(_shown, request_sha256(call.user_id, call.key, hashed))
    fence = partial(call.carry_out, render=shown)
    answer = await eraser.ask(project_id, name, (call.user_id, call.key), fence)
    return shown(answer) if isinstance(answer, ErasureRow) else answer


def _shown(request: str, row: ErasureRow) -> Answer:
    found = round_of(row, request)
    return Answer(202 if found.deleted_at is None else 200, people.erasure(found), pending=True)


ENDPOINTS = [delete_user]
