"""Projects: name, fence flag, and the hash by which a DSN is found. A purged project has no row."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from projections.kernel.projection import Row, Table, projection
from statemachines.kernel.machine import Recorded
from statemachines.projects.project import DsnRotated, ProjectCreated, ProjectFenced, ProjectPurged


class ProjectRow(Row, frozen=True, kw_only=True):
    """A project. `status` is active or fenced."""

    name: str
    created_by: str
    synthetic: bool
    status: str
    dsn_hash: str
    dsn_prefix: str
    created_at: int
    fenced_at: int | None = None


class DsnCopyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A fact outside streams: the sealed copy of the DSN key whose hash is `dsn_hash`; None: no copy (R-PROJ-03)."""

    project_id: str
    id: str
    dsn_hash: str
    ciphertext: str | None


def fold(row: ProjectRow | None, recorded: Recorded) -> ProjectRow | None:
    """Fold an event of a project into its row."""
    match recorded.event:
        case ProjectCreated() as event:
            return ProjectRow(
                project_id=recorded.project_id,
                id=recorded.originator_id,
                revision=recorded.revision,
                name=event.name,
                created_by=event.created_by,
                synthetic=event.synthetic,
                status="active",
                dsn_hash=event.dsn_hash,
                dsn_prefix=event.dsn_prefix,
                created_at=event.created_at,
            )
        case DsnRotated(dsn_hash, dsn_prefix) if row:
            return replace(row, revision=recorded.revision, dsn_hash=dsn_hash, dsn_prefix=dsn_prefix)
        case ProjectFenced(fenced_at=fenced_at) if row:
            return replace(row, revision=recorded.revision, status="fenced", fenced_at=fenced_at)
        case ProjectPurged():
            return None
    return row


PROJECTION = projection("projects", ProjectRow, ("proj",), fold)
OWNED = Table("owned_projects", ProjectRow, ("project_id", "id"))
"""Projects as their gates have them: fenced as well when the accounts of all their owners are (R-DEL-04)."""
DSN_COPIES = Table("dsn_copies", DsnCopyRow, ("project_id", "id"))
