"""Verifying an install, its report, and answer contracts (R-INST-08 to R-INST-12, G-061, G-062, G-157)."""

from __future__ import annotations

from schemas.install import AnswerContracts, InstallVerdict, VerifyReport, VerifyRequest
from service.eventstore.declare.commands import Answer, Intent, Outcome
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Fencing, Who
from service.http.edge.declare.operations import KEY
from service.http.edge.reading import stored_answer
from service.install import flow
from service.install.flow import InstallFindings, find
from service.onboarding.evidence import ask_about, whose_evidence
from statemachines.install import VerifyReportNotFound

_UNREAD = ("rate_limited", "upstream_error", "upstream_timeout")


@groups.INSTALL.post("/v1/projects/{project_id}/install/verify", "Verify the install of a project")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(InstallVerdict, errors=_UNREAD)
async def verify_install(call: Call[VerifyRequest, None]) -> Outcome:
    """Judge the newest evidence, and record a changed verdict. A failed read records nothing."""
    stored = await stored_answer(call)
    if stored is not None:
        return stored
    return await call.carry_out_on(await _find(call), lambda: _find(call), lambda found: _verify(call, found))


@groups.INSTALL.get("/v1/projects/{project_id}/verify-report", "Read what a verification would find now")
@Who(KEY)
@Docs(VerifyReport, errors=("verify_report_not_found", *_UNREAD))
async def get_verify_report(call: Call[None, None]) -> Answer:
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
@Docs(AnswerContracts, errors=_UNREAD)
async def list_answer_contracts(call: Call[None, None]) -> Answer:
    """Show a funnel over the milestones, and a question for each of them."""
    services = call.services
    asked = await ask_about(services.store, services.queries, call.project_id, call.principal.tenant)
    return Answer(200, flow.contracts(call.project_id, asked))


async def _find(call: Call[VerifyRequest, None] | Call[None, None]) -> InstallFindings:
    return await find(call.services.store, call.services.queries, call.project_id, call.principal.tenant)


def _verify(call: Call[VerifyRequest, None], found: InstallFindings) -> Intent[Answer]:
    return flow.record_verdict(call.project_id, found).shown_by(lambda findings, _: _answer(call, findings))


def _answer(call: Call[VerifyRequest, None], findings: InstallFindings) -> Answer:
    """A failed verification is not final, so a repeat with the same Idempotency-Key looks again (G-008)."""
    shown = flow.verdict(call.project_id, findings)
    return Answer(200, shown, pending=not shown.ok)


ENDPOINTS = [verify_install, get_verify_report, list_answer_contracts]
