"""What agents did about cases, recorded by members (R-CASE-01, R-CASE-02)."""

from __future__ import annotations

from schemas.cases.case import AgentRunRecordedBody, RecordAgentRun
from service.cases import acting as commands
from service.cases import case as show
from service.cases.acting import AgentRunReport
from service.eventstore.declare.commands import Answer, Outcome
from service.http.cases.located import CASE_LOCATED
from service.http.edge.body.validation import text_of
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Fencing, Who
from service.http.edge.declare.operations import KEY
from statemachines.cases import agent_run


@groups.CASES.post("/v1/cases/{case_id}/runs", "Record an agent's work on a case")
@Who(KEY, subject=CASE_LOCATED)
@Fencing(idempotency="optional")
@Docs({201: AgentRunRecordedBody}, errors=("case_not_found", "case_not_actionable"))
async def create_case_run(call: Call[RecordAgentRun, None]) -> Outcome:
    """Record a run; one that found the case to be noise takes it out of attention."""
    body = call.body
    report = AgentRunReport(agent_run.Outcome(body.status), text_of(body.summary_md), text_of(body.pr_url))
    intent = await commands.record_run(call.services.store, call.project_id, call.subject.id, report)
    return await call.carry_out(intent, lambda recorded: Answer(201, show.agent_run(recorded)))


ENDPOINTS = [create_case_run]
