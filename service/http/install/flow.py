"""Drafting a plan, and reporting its implementation (R-INST-05, R-INST-07, G-061, G-156)."""

from functools import cache, partial
from http import HTTPStatus

from litestar.params import JSONBody

from schemas import install as wire
from service.eventstore.declare.commands import Answer, Intent, Outcome
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import ANYONE, KEY, OWNER
from service.http.edge.reading import stored_answer
from service.http.edge.routes import all_endpoints
from service.install import flow
from service.onboarding.evidence import ask_about, reshape, whose_evidence
from statemachines.install import ImplementationReport, ProposedReport, VerifyReportNotFound, propose_report


@groups.INSTALL.post("/v1/install/plan", "Draft a plan for a business question")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(wire.PlanDrafted, errors=("project_not_found", "install_state_conflict"))
async def plan_install(call: Call, data: JSONBody[wire.DraftRequest]) -> Outcome:
    """Draft a skeleton. Only the state of the flow is kept."""
    await call.services.authenticator.admit(call.principal, data.project_id, call.operation)
    call.scope_id = data.project_id
    return await call.carry_out(flow.draft(data.project_id), lambda _: Answer(HTTPStatus.OK, flow.drafted(data)))


@groups.INSTALL.put(
    "/v1/projects/{project_id}/implementation-report", "Report how the plan of the signal map is implemented"
)
@Who(OWNER, owner=True)
@Fencing(idempotency="optional")
@Docs({201: wire.ReportStored, 200: wire.ReportStored}, errors=("install_state_conflict", "plan_hash_mismatch"))
async def put_implementation_report(call: Call, data: JSONBody[wire.ReportRequest]) -> Outcome:
    """Record a report. A repeat of the latest one changes nothing."""
    wish = await call.work_on_body(partial(_checked, data))
    return await call.carry_out(flow.report(call.project_id, wish), partial(_reported, wish.report))


def _checked(body: wire.ReportRequest) -> ProposedReport:
    return propose_report(reshape(body, ImplementationReport))


def _reported(sent: ImplementationReport, stored: flow.RecordedReport) -> Answer:
    return Answer(HTTPStatus.CREATED if stored.first else HTTPStatus.OK, flow.reported(sent, stored))


# The install contract, and the setup of a project (R-INST-01 to R-INST-04, G-061).


@groups.INSTALL.get("/v1/install/contract", "Read the install flow: states, steps and gates")
@Who(ANYONE)
@Docs(wire.InstallContract)
async def get_install_contract() -> Answer:
    """Show the flow with the operations that are served here."""
    return Answer(200, _contract(), {"cache-control": "public, max-age=300"})


@groups.INSTALL.get("/v1/projects/{project_id}/setup", "Read the variables and addresses to install a project with")
@Who(KEY)
@Docs(wire.ProjectSetup)
async def get_setup(call: Call) -> Answer:
    """Show names and places of variables, addresses, and the state of the flow. No secret is shown."""
    services = call.services
    found = await flow.setup_of(services.store, call.project_id, call.user_id)
    return Answer(200, flow.setup(services.settings.base_url, call.project_id, found))


@cache
def _contract() -> wire.InstallContract:
    return flow.contract({f"{e.operation.method} {e.operation.path}" for e in all_endpoints()})


# Verifying an install, its report, and answer contracts (R-INST-08 to R-INST-12, G-061, G-062, G-157).

_UNREAD = ("rate_limited", "upstream_error", "upstream_timeout")


@groups.INSTALL.post("/v1/projects/{project_id}/install/verify", "Verify the install of a project")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(wire.InstallVerdict, errors=_UNREAD)
async def verify_install(
    call: Call,
    data: JSONBody[wire.VerifyRequest],  # noqa: ARG001 - only its form counts
) -> Outcome:
    """Judge the newest evidence, and record a changed verdict. A failed read records nothing."""
    stored = await stored_answer(call)
    if stored is not None:
        return stored
    return await call.carry_out_on(await _find(call), lambda: _find(call), lambda found: _verify(call, found))


@groups.INSTALL.get("/v1/projects/{project_id}/verify-report", "Read what a verification would find now")
@Who(KEY)
@Docs(wire.VerifyReport, errors=("verify_report_not_found", *_UNREAD))
async def get_verify_report(call: Call) -> Answer:
    """Show gates, gaps and signals as they are now. Nothing is recorded."""
    findings = await _find(call)
    if findings.asked.signal_map is None:
        raise VerifyReportNotFound(
            "There is no signal map yet, so there is nothing to report on.",
            next_action="Have a plan reviewed, then save it with PUT …/signal-map.",
        )
    evidence = await whose_evidence(call.services.store, call.project_id)
    return Answer(200, flow.verify_report(call.project_id, findings, evidence))


@groups.ANALYTICS.get(
    "/v1/projects/{project_id}/answer-contracts", "List the questions of the signal map and what each still needs"
)
@Who(KEY)
@Docs(wire.AnswerContracts, errors=_UNREAD)
async def list_answer_contracts(call: Call) -> Answer:
    """Show a funnel over the milestones, and a question for each of them."""
    services = call.services
    asked = await ask_about(services.store, services.queries, call.project_id, call.principal.tenant)
    return Answer(200, flow.contracts(call.project_id, asked))


async def _find(call: Call) -> flow.InstallFindings:
    return await flow.find(call.services.store, call.services.queries, call.project_id, call.principal.tenant)


def _verify(call: Call, found: flow.InstallFindings) -> Intent[Answer]:
    return flow.record_verdict(call.project_id, found).shown_by(lambda findings, _: _answer(call, findings))


def _answer(call: Call, findings: flow.InstallFindings) -> Answer:
    """A failed verification is not final, so a repeat with the same Idempotency-Key looks again (G-008)."""
    shown = flow.verdict(call.project_id, findings)
    return Answer(200, shown, pending=not shown.ok)


ENDPOINTS = [
    plan_install,
    put_implementation_report,
    get_install_contract,
    get_setup,
    verify_install,
    get_verify_report,
    list_answer_contracts,
]
