"""Control at the edge: one consistent read of a project's automation at one server time (G-102, R-AUT-11)."""

from __future__ import annotations

from schemas.credentials import CredentialMetadata
from schemas.runs.control import AutomationControl
from service.credentials import metadata_of
from service.eventstore.declare.commands import Answer
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Who
from service.http.edge.declare.operations import KEY
from service.runs import control as show_control
from service.runs.control import read_snapshot


@groups.AUTOMATION.get(
    "/v1/projects/{project_id}/automation-control",
    "Read contract, budgets, credentials, exceptions and controls together",
)
@Who(KEY)
@Docs(AutomationControl)
async def get_automation_control(call: Call[None, None]) -> Answer:
    """Show everything at one server time; there is no queue and nothing to acknowledge."""
    await call.services.authenticator.uses.flush()
    snapshot = await read_snapshot(call.services.store, call.project_id)
    credentials = [
        CredentialMetadata(**metadata_of(item.row, item.last_used_at, snapshot.now)) for item in snapshot.credentials
    ]
    return Answer(200, show_control.control(call.project_id, snapshot, credentials))


ENDPOINTS = [get_automation_control]
