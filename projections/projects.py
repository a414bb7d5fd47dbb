"""Projects and their settings as rows.

The public DSN has a table of its own: the release before does not know it, so to it such a DSN is nobody's.
"""

import msgspec
from msgspec.structs import replace

from projections.kernel import Row, Table, header, projection
from schemas.kernel.shape import RequiredEvidence
from statemachines.kernel.machine import Recorded
from statemachines.projects.project import DsnRotated, ProjectCreated, ProjectFenced, ProjectPurged, PublicDsnRotated
from statemachines.projects.settings import ProjectSettingsChanged, changes_of

# Projects: name, fence flag, and the hashes by which their DSNs are found. A purged project has no row.


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


class PublicDsnRow(Row, frozen=True, kw_only=True):
    """The public DSN of a project that has one (G-184).

    `accept_public_events`: its records alone may wake an automation, as those of the other DSN. A project without a
    row accepts them. `default_level`: the level of its records without one until an owner sets it, `error` in a project
    without a row.
    """

    dsn_hash: str
    dsn_prefix: str
    accept_public_events: bool
    default_level: str = "error"


class DsnCopyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A fact outside streams: the sealed copy of the DSN key whose hash is `dsn_hash`. None: no copy (R-PROJ-03).

    `id` is the project's for its DSN, and PUBLIC for the public one.
    """

    project_id: str
    id: str
    dsn_hash: str
    ciphertext: str | None


def fold_project(row: ProjectRow | None, recorded: Recorded) -> ProjectRow | None:
    """Fold an event of a project into its row."""
    match recorded.event:
        case ProjectCreated() as event:
            return ProjectRow(
                **header(recorded),
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
        case PublicDsnRotated() if row:
            return replace(row, revision=recorded.revision)
        case ProjectFenced(fenced_at=fenced_at) if row:
            return replace(row, revision=recorded.revision, status="fenced", fenced_at=fenced_at)
        case ProjectPurged():
            return None
    return row


def fold_public(row: PublicDsnRow | None, recorded: Recorded) -> PublicDsnRow | None:
    """Fold an event of a project into the row of its public DSN."""
    match recorded.event:
        case ProjectCreated() as event if event.public_dsn_hash:
            return PublicDsnRow(
                **header(recorded),
                dsn_hash=event.public_dsn_hash,
                dsn_prefix=event.public_dsn_prefix,
                accept_public_events=event.accept_public_events,
                default_level=event.default_level,
            )
        case PublicDsnRotated(dsn_hash, dsn_prefix):
            if row:
                return replace(row, revision=recorded.revision, dsn_hash=dsn_hash, dsn_prefix=dsn_prefix)
            # Every project that was created without one is from before, and accepts its records.
            return PublicDsnRow(
                **header(recorded),
                dsn_hash=dsn_hash,
                dsn_prefix=dsn_prefix,
                accept_public_events=True,
            )
        case DsnRotated() | ProjectFenced() if row:
            return replace(row, revision=recorded.revision)
        case ProjectPurged():
            return None
    return row


PUBLIC = "public"
PROJECTS = projection("projects", ProjectRow, ("proj",), fold_project)
PUBLIC_DSNS = projection("public_dsns", PublicDsnRow, ("proj",), fold_public)
OWNED = Table("owned_projects", ProjectRow)
"""Projects as their gates have them: fenced as well when the accounts of all their owners are (R-DEL-04)."""
DSN_COPIES = Table("dsn_copies", DsnCopyRow)


# The settings of a project as its owners changed them: one row a project, from the first change on (G-202).


class SettingsRow(Row, frozen=True, kw_only=True):
    """The settings of a project. None: no owner has set it, and the default of the project holds.

    `changed_at` is when the latest change was made, in epoch seconds.
    """

    accept_public_events: bool | None = None
    default_level: str | None = None
    frame_variables: bool | None = None
    required_evidence_source: RequiredEvidence | None = None
    maximum_error_probability: str | None = None
    notification_titles: bool | None = None
    changed_by: str
    changed_at: int


def fold_settings(row: SettingsRow | None, recorded: Recorded) -> SettingsRow | None:
    """Fold a change into the row."""
    match recorded.event:
        case ProjectSettingsChanged() as event:
            begun = row or SettingsRow(
                project_id=recorded.project_id, id=recorded.originator_id, revision=0, changed_by="", changed_at=0
            )
            return replace(
                begun,
                revision=recorded.revision,
                changed_by=event.changed_by,
                changed_at=event.changed_at,
                **changes_of(event),
            )
    return row


PROJECT_SETTINGS = projection("project_settings", SettingsRow, ("sets",), fold_settings)
