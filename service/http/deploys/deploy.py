"""Deploys: one that really happened is recorded once, and members read what was (R-ING-03, R-ING-08, G-052)."""

import hashlib
from functools import partial

from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from schemas.cases.log import MAX_INGEST_BYTES
from schemas.deploys import DeployAccepted, DeployDetail, DeployEvent, DeployList, DeployQuery
from schemas.onboarding import PROOF_HEADER
from service import deploys
from service.auth.authority import PrincipalKind
from service.eventstore.declare.commands import Answer, Outcome, retry_moved
from service.http.answer.paging import page, start_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Who
from service.http.declare.operations import KEY
from service.ingest.scrubbing import hide_own

DEFAULT_ENVIRONMENT = "production"


@groups.INGEST.post("/v1/deploys/", "Record a successful deploy")
@Who(frozenset({PrincipalKind.DSN, PrincipalKind.CI}), scope="deploys:write")
@Body(max_body=MAX_INGEST_BYTES, strict=False, headers=(PROOF_HEADER,))
@Fencing(idempotency="optional")
@Docs({202: DeployAccepted}, flows=frozenset({"onboarding", "automation"}))
async def record_deploy(call: Call, data: JSONBody[DeployEvent]) -> Outcome:
    """Record a deploy, and bind it to the run that waits for its commit."""
    return await retry_moved(partial(_record, call, _report(call, data)))


async def _record(call: Call, report: deploys.Report) -> Outcome:
    # Only a project's own secrets send deploys, and their account is who pays for the project.
    intent = await deploys.record(call.services.store, call.project_id, report, call.principal.account)
    return await call.carry_out(intent, _accepted)


def _report(call: Call, data: DeployEvent) -> deploys.Report:
    """Take the sender's words with their secrets hidden, and of its proof marker only the hash (G-084)."""
    marker = call.header(PROOF_HEADER.lower())
    [version, environment, branch, message], scrubbed = hide_own(
        data.version, data.environment or DEFAULT_ENVIRONMENT, data.branch, data.message
    )
    return deploys.Report(
        version=version,
        environment=environment,
        sha=data.sha,
        branch=branch,
        message=message,
        scrubbed=scrubbed,
        credential_id=call.principal.id if call.principal.kind is PrincipalKind.CI else None,
        marker_sha256=hashlib.sha256(marker.encode()).hexdigest() if marker else None,
        ci_run=call.principal.run,
    )


def _accepted(recorded: deploys.RecordedDeploy) -> Answer:
    return Answer(202, deploys.accepted(recorded.row, recorded.awaited, recorded.mismatch))


@groups.ANALYTICS.get("/v1/projects/{project_id}/deploys", "List deploys")
@Who(KEY)
@Docs(DeployList)
async def list_deploys(call: Call, params: NamedDependency[DeployQuery]) -> Answer:
    """List a project's deploys, newest first."""
    found = await deploys.newest(
        call.services.store, call.project_id, params.environment, start_of(params), params.limit + 1
    )
    shown, cursor = page(found, params, lambda noted: noted.place)
    return Answer(200, deploys.listed(call.project_id, shown, cursor))


@groups.ANALYTICS.get("/v1/projects/{project_id}/deploys/{deploy_id}", "Read a deploy with what happened to cases")
@Who(KEY)
@Docs(DeployDetail, errors=("not_found",), extension=True)
async def get_deploy(call: Call, deploy_id: FromPath[str]) -> Answer:
    """Show a deploy, and how many cases opened, were resolved and regressed until the next one."""
    return Answer(200, await deploys.detail(call.services.store, call.project_id, deploy_id))


ENDPOINTS = [record_deploy, list_deploys, get_deploy]
