"""The settings of a project as its owners changed them: one row a project, from the first change on (G-202)."""

from __future__ import annotations

from msgspec.structs import replace

from projections.kernel.projection import Row, projection
from statemachines.kernel.machine import Recorded
from statemachines.projects.settings import ProjectSettingsChanged, RequiredEvidence, changes_of


class SettingsRow(Row, frozen=True, kw_only=True):
    """The settings of a project. None: no owner has set it, and the default of the project holds.

    `changed_at` is when the latest change was made, in epoch seconds.
    """

    accept_public_events: bool | None = None
    default_level: str | None = None
    frame_variables: bool | None = None
    required_evidence_source: RequiredEvidence | None = None
    changed_by: str
    changed_at: int


def fold(row: SettingsRow | None, recorded: Recorded) -> SettingsRow | None:
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


PROJECTION = projection("project_settings", SettingsRow, ("sets",), fold)
PROJECT_SETTINGS = PROJECTION.table
