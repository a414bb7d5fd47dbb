"""Deleting a project (R-DEL, G-130, G-131)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from projections.deletion import DeletionRow, ErasureRow
from schemas import deletion as wire
from schemas.kernel.shape import WaitQuery
from service.auth.authenticator import SELF_DELETE_PATH
from service.auth.refusals import InvalidPayload
from service.deletion import people, removal
from service.deletion.advancing import ask
from service.eventstore.declare.commands import Answer, Outcome
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY, OWNER
from statemachines.deletion.erasure import request_sha256
from statemachines.deletion.removal import AskForDeletion, command_key_sha256

# Deleting a person of a project's telemetry (G-197, an extension of the document).

MAX_DISTINCT_ID = 200


@groups.CASES.delete(
    "/v1/projects/{project_id}/users/{distinct_id}", "Delete a person, repeated with the same key until it answers 200"
)
@Who(OWNER, owner=True, fresh=True)
@Fencing(idempotency="required")
@Docs(
    {202: wire.UserDeleting, 200: wire.UserDeleted},
    errors=("invalid_payload", "person_deletion_in_progress"),
    extension=True,
)
async def delete_user(call: Call, distinct_id: FromPath[str]) -> Outcome | Answer:
    """Fence a person at once, and delete the records step by step. Each repeat moves it on and shows it."""
    assert call.key is not None, "the operation requires a key"
    project_id = call.project_id
    if len(distinct_id) > MAX_DISTINCT_ID:
        reason = f"must be at most {MAX_DISTINCT_ID} characters"
        raise InvalidPayload("The id of a person cannot be this long.", invalid=[("distinct_id", reason)])
    eraser = people.Eraser.of(call.services.store, call.services.settings)
    hashed = eraser.hash_of(project_id, distinct_id)
    # The record of the request outlives the person, and knows the name by its hash.
    call.known_as = f"DELETE /v1/projects/{project_id}/users/{hashed}"
    shown = partial(_erasure_shown, request_sha256(call.user_id, call.key, hashed))
    fence = partial(call.carry_out, render=shown)
    answer = await eraser.ask(project_id, distinct_id, (call.user_id, call.key), fence)
    if not isinstance(answer, ErasureRow):
        return answer
    return shown(answer, waits=await people.waits_for_copy(call.services.store, answer))


def _erasure_shown(request: str, row: ErasureRow, *, waits: bool = False) -> Answer:
    found = people.round_of(row, request)
    return Answer(202 if found.deleted_at is None else 200, people.erasure(found, waits=waits), pending=True)


# What both doors of deletion do with a request: begin, or move on, and show where the deletion is (G-130).

_OVER = "deleted"

Show = Callable[[DeletionRow, removal.DeletionLeft | None], Any]


async def deleting(call: Call, params: WaitQuery, wish: AskForDeletion, show: Show) -> Outcome | Answer:
    """Carry the wish out or on: 202 until the receipt, then 200. Raises what `ask` raises.

    A repeat may wait for the next phase of the deletion. The sweep moves it on meanwhile.
    """
    store = call.services.store
    fence = partial(call.carry_out, render=partial(_calls_shown, show))
    found = await ask(store, call.services.settings.erasure_ledger, wish, fence)
    if not isinstance(found, DeletionRow):
        call.services.authenticator.forget()
        return found
    if found.phase != _OVER and call.waiting is not None:
        await call.listen(found.id, params)
        found = await removal.get_deletion(store, found.id) or found
    if found.phase == _OVER:
        return _calls_shown(show, found)
    call.saw(found.revision)
    body = show(found, await removal.progress_of(store, found))
    if call.waiting is not None:
        body = msgspec.structs.replace(body, revision=found.revision)
    return Answer(202, body, pending=True)


def _calls_shown(show: Show, row: DeletionRow, left: removal.DeletionLeft | None = None) -> Answer:
    return Answer(200 if row.phase == _OVER else 202, show(row, left), pending=True)


@groups.PROJECT_DELETION.delete(
    "/v1/projects/{project_id}", "Delete a project, repeated with the same key until it answers 200"
)
@Who(OWNER, owner=True, fresh=True)
@Fencing(idempotency="required")
@Docs(
    {202: wire.ProjectDeleting, 200: wire.ProjectDeleted},
    errors=("project_deletion_in_progress",),
    flows=frozenset({"automation"}),
)
async def delete_project(call: Call, params: NamedDependency[WaitQuery]) -> Outcome | Answer:
    """Fence a project at once, and delete it step by step. Each repeat of the request moves it on and shows it."""
    assert call.key is not None, "the operation requires a key"
    request = command_key_sha256(call.user_id, call.key)
    wish = AskForDeletion("project", call.project_id, call.user_id, request)
    return await deleting(call, params, wish, removal.project)


# Deleting one's own account (R-AUTH-19, G-130).


@groups.ACCOUNT_DELETION.post(SELF_DELETE_PATH, "Delete your account and the projects without another owner")
@Who(KEY, fresh=True)
@Fencing(idempotency="optional")
@Docs({202: wire.AccountDeleting, 200: wire.AccountDeleted}, errors=("project_deletion_in_progress",))
async def delete_account(
    call: Call, data: JSONBody[wire.DeleteAccount], params: NamedDependency[WaitQuery]
) -> Outcome | Answer:
    """Fence an account at once, and delete it step by step. Each repeat of the request moves it on and shows it."""
    if data.confirm != wire.CONFIRM:
        wrong = [("confirm", f"must be {wire.CONFIRM}")]
        raise InvalidPayload("The confirmation is not the expected word.", invalid=wrong, expected=wire.CONFIRM)
    call.key = call.key or f"account:{call.user_id}"
    request = command_key_sha256(call.user_id, call.key)
    wish = AskForDeletion("account", call.user_id, call.user_id, request, call.principal.secret_hash)
    return await deleting(call, params, wish, removal.account)


ENDPOINTS = [delete_user, delete_project, delete_account]
