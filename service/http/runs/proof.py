"""The proof of a run at the edge: an extension of the documented API."""

from __future__ import annotations

from projections.runs.run import RunRow
from schemas.runs.proof import RunProof
from service.eventstore.declare.commands import Answer
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.operations import KEY_OR_RUNNER
from service.http.runs.calls import require_visible
from service.http.runs.on_run import RUN_SUBJECT
from service.runs.reads.proof import prove_run


@groups.AUTOMATION.operation(
    method="GET",
    path="/v1/automation-runs/{run_id}/proof",
    operation_id="get_automation_run_proof",
    summary="Read every event of a run's chain with its hashes",
    principals=KEY_OR_RUNNER,
    scope="runs:read",
    subject=RUN_SUBJECT,
    responses={200: RunProof},
    extension=True,
    sealed=True,
    errors=("run_not_found", "automation_mismatch"),
)
async def read_run_proof(call: Call[None, None]) -> Answer:
    """Show receipt, claim, run, approvals, grants and deploy from their first events on, as of one moment."""
    row: RunRow = call.subject
    require_visible(call, row.automation_id)
    return Answer(200, await prove_run(call.services.store, row.project_id, row.id))


ENDPOINTS = [read_run_proof]
