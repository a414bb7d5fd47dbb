"""Deleting one's own account (R-AUTH-19, G-130)."""

from __future__ import annotations

from schemas.deletion import CONFIRM, AccountDeleted, AccountDeleting, DeleteAccount
from schemas.kernel.shape import WaitQuery
from service.auth.authenticator import SELF_DELETE_PATH
from service.auth.refusals import InvalidPayload
from service.deletion import removal
from service.eventstore.declare.commands import Answer, Outcome
from service.http.deletion.calls import deleting
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Fencing, Who
from service.http.edge.declare.operations import KEY
from statemachines.deletion.removal import AskForDeletion, command_key_sha256


@groups.ACCOUNT_DELETION.post(SELF_DELETE_PATH, "Delete your account and the projects without another owner")
@Who(KEY, fresh=True)
@Fencing(idempotency="optional")
@Docs({202: AccountDeleting, 200: AccountDeleted}, errors=("project_deletion_in_progress",))
async def delete_account(call: Call[DeleteAccount, WaitQuery]) -> Outcome | Answer:
    """Fence an account at once, and delete it step by step; each repeat of the request moves it on and shows it."""
    if call.body.confirm != CONFIRM:
        wrong = [("confirm", f"must be {CONFIRM}")]
        raise InvalidPayload("The confirmation is not the expected word.", invalid=wrong, expected=CONFIRM)
    call.key = call.key or f"account:{call.user_id}"
    request = command_key_sha256(call.user_id, call.key)
    wish = AskForDeletion("account", call.user_id, call.user_id, request, call.principal.secret_hash)
    return await deleting(call, wish, removal.account)


ENDPOINTS = [delete_account]
