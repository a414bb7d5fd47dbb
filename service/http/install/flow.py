"""Drafting a plan, and reporting its implementation (R-INST-05, R-INST-07, G-061, G-156)."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus

from schemas.install import DraftRequest, PlanDrafted, ReportRequest, ReportStored
from service.eventstore.declare.commands import Answer, Outcome
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Fencing, Who
from service.http.edge.declare.operations import KEY, OWNER
from service.install import flow
from service.onboarding.evidence import reshape
from statemachines.install import ImplementationReport, ProposedReport, propose_report


@groups.INSTALL.post("/v1/install/plan", "Draft a plan for a business question")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(PlanDrafted, errors=("project_not_found", "install_state_conflict"))
async def plan_install(call: Call[DraftRequest, None]) -> Outcome:
    """Draft a skeleton. Only the state of the flow is kept."""
    body = call.body
    await call.services.authenticator.admit(call.principal, body.project_id, call.operation)
    call.scope_id = body.project_id
    return await call.carry_out(flow.draft(body.project_id), lambda _: Answer(HTTPStatus.OK, flow.drafted(body)))


@groups.INSTALL.put(
    "/v1/projects/{project_id}/implementation-report", "Report how the plan of the signal map is implemented"
)
@Who(OWNER, owner=True)
@Fencing(idempotency="optional")
@Docs({201: ReportStored, 200: ReportStored}, errors=("install_state_conflict", "plan_hash_mismatch"))
async def put_implementation_report(call: Call[ReportRequest, None]) -> Outcome:
    """Record a report. A repeat of the latest one changes nothing."""
    wish = await call.work_on_body(partial(_checked, call.body))
    return await call.carry_out(flow.report(call.project_id, wish), partial(_reported, wish.report))


def _checked(body: ReportRequest) -> ProposedReport:
    return propose_report(reshape(body, ImplementationReport))


def _reported(sent: ImplementationReport, stored: flow.RecordedReport) -> Answer:
    return Answer(HTTPStatus.CREATED if stored.first else HTTPStatus.OK, flow.reported(sent, stored))


ENDPOINTS = [plan_install, put_implementation_report]
