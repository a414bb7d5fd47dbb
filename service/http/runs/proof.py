"""The proof of a run at the edge: an extension of the documented API."""

from projections.runs import RunRow
from schemas.runs.proof import RunProof
from service.auth.refusals import refusal
from service.eventstore.declare.commands import Answer, Outcome
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Who
from service.http.declare.operations import KEY_OR_RUNNER
from service.http.runs.on_run import RUN_SUBJECT, require_visible
from service.runs.verifying import as_tlog_proof, prove_run


@groups.AUTOMATION.get("/v1/automation-runs/{run_id}/proof", "Read every event of a run's chain with its hashes")
@Who(KEY_OR_RUNNER, scope="runs:read", subject=RUN_SUBJECT)
@Docs(RunProof, errors=("run_not_found", "automation_mismatch"), extension=True, sealed=True)
async def get_automation_run_proof(call: Call) -> Answer:
    """Show receipt, claim, run, approvals, grants and deploy from their first events on, as of one moment."""
    row: RunRow = call.subject
    require_visible(call, row.automation_id)
    return Answer(200, await prove_run(call.services.store, row.project_id, row.id))


@groups.AUTOMATION.get("/v1/automation-runs/{run_id}/tlog-proof", "Read the proof of a run as a .tlog-proof file")
@Who(KEY_OR_RUNNER, scope="runs:read", subject=RUN_SUBJECT)
@Docs(
    str,
    errors=("run_not_found", "automation_mismatch", "checkpoint_not_found"),
    extension=True,
    content_type="text/plain; charset=utf-8",
    sealed=True,
)
async def get_automation_run_tlog_proof(call: Call) -> Outcome:
    """Show the same proof in the form of C2SP tlog-proof, with a signed checkpoint."""
    row: RunRow = call.subject
    require_visible(call, row.automation_id)
    shown = as_tlog_proof(await prove_run(call.services.store, row.project_id, row.id))
    if shown is None:
        raise refusal("checkpoint_not_found")
    return Outcome(200, shown.encode(), {"content-disposition": f'attachment; filename="{row.id}.tlog-proof"'})


ENDPOINTS = [get_automation_run_proof, get_automation_run_tlog_proof]
