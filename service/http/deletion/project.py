"""Deleting a project (R-DEL, G-130, G-131)."""

from __future__ import annotations

from schemas.deletion import ProjectDeleted, ProjectDeleting
from schemas.kernel.shape import WaitQuery
from service.deletion import removal
from service.eventstore.declare.commands import Answer, Outcome
from service.http.deletion.calls import deleting
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Fencing, Who
from service.http.edge.declare.operations import OWNER
from statemachines.deletion.removal import AskForDeletion, command_key_sha256


@groups.PROJECT_DELETION.delete(
    "/v1/projects/{project_id}", "Delete a project, repeated with the same key until it answers 200"
)
@Who(OWNER, owner=True, fresh=True)
@Fencing(idempotency="required")
@Docs(
    {202: ProjectDeleting, 200: ProjectDeleted},
    errors=("project_deletion_in_progress",),
    flows=frozenset({"automation"}),
)
async def delete_project(call: Call[None, WaitQuery]) -> Outcome | Answer:
    """Fence a project at once, and delete it step by step; each repeat of the request moves it on and shows it."""
    assert call.key is not None, "the operation requires a key"
    request = command_key_sha256(call.user_id, call.key)
    wish = AskForDeletion("project", call.project_id, call.user_id, request)
    return await deleting(call, wish, removal.project)


ENDPOINTS = [delete_project]
