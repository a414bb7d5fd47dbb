"""Deploys as recorded, and the facts beside them: the caller's note, and what counts toward usage (G-052)."""

import msgspec

from projections.kernel import Row, Table, header, projection
from statemachines.deploys import DeployRecorded
from statemachines.kernel.machine import CiRun, Recorded


class DeployRow(Row, frozen=True, kw_only=True):
    """A deploy. `proof_marker_hash` is the hex SHA-256 of the marker sent along; `recorded_at` in epoch seconds."""

    version: str
    environment: str
    sha: str | None
    branch: str | None
    source: str
    trusted: bool
    credential_id: str | None
    proof_marker_hash: str | None
    proof_session_id: str | None
    automation_run_id: str | None
    recorded_at: int
    ci_run: CiRun | None = None

    @property
    def onboarding_proof(self) -> bool:
        """Whether it counts for a proof session: trusted, under that session's CI marker."""
        return self.proof_session_id is not None


class DeployNoteRow(msgspec.Struct, frozen=True, kw_only=True):
    """A fact outside streams: the free message that came with a deploy."""

    project_id: str
    id: str
    message: str


class UsageDeployRow(msgspec.Struct, frozen=True, kw_only=True):
    """A fact outside streams: the account and the UTC day (its midnight) that a deploy counts for (R-ING-12).

    `scrubbed` counts the values that were hidden before the deploy was stored.
    """

    project_id: str
    id: str
    account_id: str
    day: int
    scrubbed: int


def fold_deploy(row: DeployRow | None, recorded: Recorded) -> DeployRow | None:
    """Fold an event of a deploy into its row."""
    match recorded.event:
        case DeployRecorded() as event:
            return DeployRow(
                **header(recorded),
                version=event.version,
                environment=event.environment,
                sha=event.sha,
                branch=event.branch,
                source=event.source,
                trusted=event.trusted,
                credential_id=event.credential_id,
                proof_marker_hash=event.proof_marker_hash,
                proof_session_id=event.proof_session_id,
                automation_run_id=event.automation_run_id,
                recorded_at=event.recorded_at,
                ci_run=None if event.ci_run is msgspec.UNSET else event.ci_run,
            )
    return row


DEPLOYS = projection("deploys", DeployRow, ("dep",), fold_deploy)
DEPLOY_NOTES = Table("deploy_notes", DeployNoteRow)
USAGE_DEPLOYS = Table("usage_deploys", UsageDeployRow)
