"""The install of a project as a row (G-156)."""

from msgspec.structs import replace

from projections.kernel import Row, projection
from schemas.kernel.shape import EvidenceSource
from statemachines import install
from statemachines.kernel.machine import Recorded, source_told


class InstallRow(Row, frozen=True, kw_only=True):
    """One install. `map_revision` is that of the latest report or verdict, `reported_on` of the latest report.

    `reports` counts reports. `verified_at` is the beginning of the present success, `evidence_source` is where its
    events were read (G-183). Times are in epoch seconds.
    """

    status: str
    updated_at: int
    map_revision: int = install.NO_MAP
    reported_on: int = install.NO_MAP
    reports: int = 0
    reported_at: int | None = None
    verified_at: int | None = None
    evidence_source: EvidenceSource = "local"


def install_state(row: InstallRow | None, map_revision: int) -> str:
    """The state of the install flow of a project, whose signal map has a revision."""
    if row is None:
        return install.shown_state(install.Status.ABSENT, install.NO_MAP, map_revision)
    return install.shown_state(install.Status(row.status), row.map_revision, map_revision)


def is_verified(row: InstallRow | None, map_revision: int) -> bool:
    """Whether the latest verification of the present signal map succeeded."""
    return install_state(row, map_revision) == install.Status.VERIFIED.value


def fold_install(row: InstallRow | None, recorded: Recorded) -> InstallRow | None:
    """Fold an event of an install into its row."""
    match recorded.event:
        case install.InstallPlanDrafted(at):
            return _step(row, recorded, install.Status.PLAN_DRAFTED, at)
        case install.InstallReported() as event:
            return replace(
                _step(row, recorded, install.Status.IMPLEMENTED, event.reported_at),
                map_revision=event.map_revision,
                reported_on=event.map_revision,
                reports=1 if row is None else row.reports + 1,
                reported_at=event.reported_at,
            )
        case install.InstallVerified(revision, at, source):
            verified = _step(row, recorded, install.Status.VERIFIED, at)
            return replace(verified, map_revision=revision, verified_at=at, evidence_source=source_told(source))
        case install.InstallBlocked(revision, at):
            return replace(_step(row, recorded, install.Status.BLOCKED, at), map_revision=revision)
    return row


def _step(row: InstallRow | None, recorded: Recorded, status: install.Status, at: int) -> InstallRow:
    row = row or InstallRow(
        project_id=recorded.project_id, id=recorded.originator_id, revision=0, status="", updated_at=0
    )
    return replace(row, revision=recorded.revision, status=status.value, updated_at=at, verified_at=None)


INSTALLS = projection("installs", InstallRow, ("inst",), fold_install)
