"""Deleting one's own account (R-AUTH-19, G-130)."""

from __future__ import annotations

from functools import partial

from projections.deletion.removal import DeletionRow
from schemas.deletion.removal import CONFIRM, AccountDeleted, AccountDeleting, DeleteAccount
from service.auth.authenticator import SELF_DELETE_PATH
from service.auth.refusals import InvalidPayload
from service.deletion import show
from service.deletion.asking import ask
from service.eventstore.commands import Answer, Outcome
from service.http.edge import groups
from service.http.edge.call import Call
from service.http.edge.operations import KEY
from statemachines.deletion.removal import AskForDeletion, command_key_sha256


@groups.ACCOUNT_DELETION.operation(
    method="POST",
    path=SELF_DELETE_PATH,
    operation_id="delete_account",
    summary="Delete one's own account and the projects that nobody else owns",
    principals=KEY,
    responses={202: AccountDeleting, 200: AccountDeleted},
    idempotency="optional",
    errors=("project_deletion_in_progress",),
)
async def delete_account(call: Call[DeleteAccount, None]) -> Outcome | Answer:
    """Fence an account at once, and delete it step by step; each repeat of the request moves it on and shows it."""
    if call.body.confirm != CONFIRM:
        wrong = [("confirm", f"must be {CONFIRM}")]
        raise InvalidPayload("The confirmation is not the expected word.", invalid=wrong, expected=CONFIRM)
    call.key = call.key or f"account:{call.user_id}"
    request = command_key_sha256(call.user_id, call.key)
    wish = AskForDeletion("account", call.user_id, call.user_id, request, call.principal.secret_hash)
    fence = partial(call.carry_out, render=_shown)
    found = await ask(call.services.store, call.services.settings.erasure_ledger, wish, fence)
    if isinstance(found, DeletionRow):
        return _shown(found)
    call.services.authenticator.forget()
    return found


def _shown(row: DeletionRow) -> Answer:
    return Answer(200 if row.phase == "deleted" else 202, show.account(row), pending=True)


ENDPOINTS = [delete_account]
