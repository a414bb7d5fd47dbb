"""Deploys: one that really happened is recorded once, and members read what was (R-ING-03, R-ING-08, G-052)."""

from __future__ import annotations

import hashlib

import msgspec

from projections.deploys.deploy import DEPLOY_NOTES, USAGE_DEPLOYS, DeployNoteRow, DeployRow, UsageDeployRow
from schemas.cases.log import MAX_INGEST_BYTES
from schemas.deploys.deploy import DeployAccepted, DeployEvent, DeployList, DeployQuery, DeployRecord
from schemas.onboarding.lifecycle import PROOF_HEADER
from service.auth.principals import PrincipalKind
from service.auth.secrets import equal
from service.billing.usage import account_of
from service.eventstore.commands import Answer, Outcome, Unit
from service.eventstore.intents import retry_moved
from service.eventstore.pages import Place
from service.http.edge import groups
from service.http.edge.call import Call
from service.http.edge.headers import head_of
from service.http.edge.operations import KEY
from service.http.edge.paging import page, start_of
from service.ids import new_id
from service.ingest.tally import DAY
from service.runs import reads
from service.runs.commands.pr_proof import WaitingRun
from statemachines.deploys import deploy
from statemachines.deploys.deploy import RecordDeploy, decide_record
from statemachines.onboarding import lifecycle as onboarding
from statemachines.runs.events import BoundDeploy

DEFAULT_ENVIRONMENT = "production"
_LIST = """
select row_to_json(d)::text, n.message from deploys d
left join deploy_notes n on n.project_id = d.project_id and n.id = d.id
where d.project_id = %s and (d.recorded_at, d.id) < (%s, %s) and (%s::text is null or d.environment = %s)
order by d.recorded_at desc, d.id desc limit %s
"""
NEXT_TRUSTED = "Nothing has to be done. Record the next deploy after it has succeeded."
NEXT_UNTRUSTED = "Nothing has to be done. For trusted attribution, record deploys with a CI credential."


@groups.INGEST.operation(
    method="POST",
    path="/v1/deploys/",
    operation_id="record_deploy",
    summary="Record a deploy that has succeeded",
    principals=frozenset({PrincipalKind.DSN, PrincipalKind.CI}),
    scope="deploys:write",
    strict=False,
    max_body=MAX_INGEST_BYTES,
    responses={202: DeployAccepted},
    idempotency="optional",
    flows=frozenset({"onboarding", "automation"}),
)
async def record_deploy(call: Call[DeployEvent, None]) -> Outcome:
    """Record a deploy, and bind it to the run that waits for its commit.

    A proof marker is looked at and never decides whether the deploy is recorded.
    """
    project_id, store = call.project_id, call.services.store
    stream = deploy.stream(project_id, new_id("dep"))
    session = onboarding.stream(project_id)
    trusted = call.principal.kind is PrincipalKind.CI
    marker = head_of(call.request.scope).headers.get(PROOF_HEADER.lower())
    marker_hash = hashlib.sha256(marker.encode()).hexdigest() if marker else None
    [version, environment, branch, message], scrubbed = call.services.intake.scrubber.parts(
        call.body.version, call.body.environment or DEFAULT_ENVIRONMENT, call.body.branch, call.body.message
    )
    account_id = await account_of(store, project_id)
    looks_at_session = trusted and marker_hash is not None
    sha = call.body.sha

    def decide(unit: Unit, waiting: WaitingRun | None) -> Answer:
        matched = _matched(unit.state(session), marker_hash or "", unit.now) if looks_at_session else None
        run_id = None
        if waiting is not None and sha is not None:
            bound = BoundDeploy(
                deploy_id=stream.id, version=version, environment=environment, sha=sha, recorded_at=unit.now
            )
            run_id = waiting.bind(unit, bound)
        wish = RecordDeploy(
            version=version,
            environment=environment,
            sha=sha,
            branch=branch,
            credential_id=call.principal.id if trusted else None,
            proof_marker_hash=marker_hash,
            proof_session_id=matched,
            automation_run_id=run_id,
        )
        unit.append(stream, decide_record(unit.state(stream), wish, unit.now))
        if message:
            unit.put(stream, DEPLOY_NOTES, DeployNoteRow(project_id=project_id, id=stream.id, message=message))
        usage = UsageDeployRow(
            project_id=project_id,
            id=stream.id,
            account_id=account_id,
            day=unit.now - unit.now % DAY,
            scrubbed=scrubbed,
        )
        unit.put(stream, USAGE_DEPLOYS, usage)
        return Answer(
            202,
            DeployAccepted(
                id=stream.id,
                project_id=project_id,
                received_at=unit.now,
                trusted=trusted,
                onboarding_proof_matched=matched is not None,
                automation_run_id=run_id,
                next_action=NEXT_TRUSTED if trusted else NEXT_UNTRUSTED,
            ),
        )

    async def attempt() -> Outcome:
        row = await reads.waiting_run(store, project_id, sha, environment) if trusted and sha is not None else None
        waiting = None if row is None else WaitingRun.of(row)
        scope = None if waiting is None else waiting.scope
        return await call.execute(
            lambda unit: decide(unit, waiting),
            streams=[stream, *(scope.streams if scope else [])],
            reads=[*([session] if looks_at_session else []), *(scope.reads if scope else [])],
        )

    return await retry_moved(attempt)


def _matched(state: onboarding.Onboarding, marker_hash: str, now: int) -> str | None:
    """Id of the open proof session that the marker belongs to, within its time (G-084, G-085)."""
    session = state.session
    if state.status is not onboarding.Status.PROVING or session is None or not session.covers(now):
        return None
    return session.proof_session_id if equal(session.ci_marker_sha256, marker_hash) else None


@groups.ANALYTICS.operation(
    method="GET",
    path="/v1/projects/{project_id}/deploys",
    operation_id="list_deploys",
    summary="List deploys",
    principals=KEY,
    responses={200: DeployList},
)
async def list_deploys(call: Call[None, DeployQuery]) -> Answer:
    """List a project's deploys, newest first."""
    project_id, query = call.project_id, call.query
    start = start_of(query)
    found = await call.services.store.fetch(
        _LIST, project_id, start.at, start.id, query.environment, query.environment, query.limit + 1
    )
    rows = [(msgspec.json.decode(text, type=DeployRow), message) for text, message in found]
    shown, cursor = page(rows, query, lambda row: Place(row[0].recorded_at, row[0].id))
    return Answer(
        200,
        DeployList(
            project_id=project_id,
            deploys=[deploy_record(row, message) for row, message in shown],
            count=len(shown),
            next_cursor=cursor,
            next_action="Compare a case's first_seen_at with the deploys before it."
            if shown
            else "Record deploys from CI with POST /v1/deploys/ after each that succeeded.",
        ),
    )


def deploy_record(row: DeployRow, message: str | None) -> DeployRecord:
    """Put together the record of a deploy from its row and its note."""
    return DeployRecord(
        id=row.id,
        deploy_id=row.id,
        project_id=row.project_id,
        version=row.version,
        environment=row.environment,
        sha=row.sha,
        branch=row.branch,
        message=message,
        source="ci" if row.trusted else "dsn",
        trusted=row.trusted,
        credential_id=row.credential_id,
        onboarding_proof=row.onboarding_proof,
        automation_run_id=row.automation_run_id,
        recorded_at=row.recorded_at,
    )


ENDPOINTS = [record_deploy, list_deploys]
