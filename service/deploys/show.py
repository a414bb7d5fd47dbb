"""How deploys are shown (R-ING-03, R-ING-08, G-052)."""

from __future__ import annotations

from collections.abc import Sequence

from projections.deploys.deploy import DeployRow
from schemas.deploys.deploy import DeployAccepted, DeployList, DeployRecord, ProofMismatch
from service.deploys.reads import Noted

_NEXT_TRUSTED = "Nothing to do. Record the next deploy after it has succeeded."
_NEXT_UNTRUSTED = "Nothing to do. For trusted attribution, record deploys with a CI credential."
_NEXT_ELSEWHERE = (
    "This deploy verifies nothing: a run waits for this commit in awaited_environment. Record "
    "that deploy too, after it has succeeded."
)
_NEXT_UNPROVEN: dict[ProofMismatch, str] = {
    "deploy_not_trusted": _NEXT_UNTRUSTED,
    "proof_session_not_active": "No proof session is open: leave the marker out, or start the proof anew.",
    "marker_mismatch": "Send the CI marker of the proof session that is open now.",
    "source_git_sha_missing": "The proof session names no commit: start the proof anew with a committed snapshot.",
    "environment_mismatch": "Record the deploy to the environment that the approved plan names.",
    "deploy_sha_missing": "Record the deploy with its full commit as sha.",
    "commit_mismatch": "Deploy the commit of the proof session, or start the proof anew with the deployed one.",
}
_NEXT_OF_SOME = "Compare a case's first_seen_at with the deploys before it."
_NEXT_OF_NONE = "Record deploys from CI with POST /v1/deploys/ after each that succeeded."


def accepted(row: DeployRow, awaited: str | None, mismatch: ProofMismatch | None) -> DeployAccepted:
    """Show a deploy to the sender that has just recorded it. `awaited` is where a run waits for it instead (G-134).

    `mismatch` says why its proof marker does not count (G-190).
    """
    following = _NEXT_TRUSTED if row.trusted else _NEXT_UNTRUSTED
    if mismatch is not None:
        following = _NEXT_UNPROVEN[mismatch]
    return DeployAccepted(
        id=row.id,
        project_id=row.project_id,
        received_at=row.recorded_at,
        trusted=row.trusted,
        onboarding_proof_matched=row.onboarding_proof,
        onboarding_proof_reason=mismatch,
        automation_run_id=row.automation_run_id,
        awaited_environment=awaited,
        next_action=following if awaited is None else _NEXT_ELSEWHERE,
    )


def record(noted: Noted) -> DeployRecord:
    """Show a deploy to members."""
    row = noted.row
    return DeployRecord(
        id=row.id,
        deploy_id=row.id,
        project_id=row.project_id,
        version=row.version,
        environment=row.environment,
        sha=row.sha,
        branch=row.branch,
        message=noted.message,
        source="ci" if row.trusted else "dsn",
        trusted=row.trusted,
        credential_id=row.credential_id,
        onboarding_proof=row.onboarding_proof,
        automation_run_id=row.automation_run_id,
        recorded_at=row.recorded_at,
    )


def listed(project_id: str, shown: Sequence[Noted], next_cursor: str | None) -> DeployList:
    """Show a page of a project's deploys."""
    return DeployList(
        project_id=project_id,
        deploys=[record(noted) for noted in shown],
        count=len(shown),
        next_cursor=next_cursor,
        next_action=_NEXT_OF_SOME if shown else _NEXT_OF_NONE,
    )
