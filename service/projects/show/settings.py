"""The settings of a project on the wire (G-202)."""

from __future__ import annotations

from msgspec.structs import asdict

from schemas.projects.settings import ProjectSettings, ProjectSettingsChanged
from service.projects.commands.settings import ChangedSettings
from service.projects.reads.settings import KnownSettings
from statemachines.projects.settings import make_etag


def settings(project_id: str, known: KnownSettings) -> ProjectSettings:
    """The settings in force."""
    return ProjectSettings(
        project_id=project_id,
        **asdict(known.in_force),
        etag=make_etag(project_id, known.revision),
        changed_at=known.changed_at,
        changed_by=known.changed_by,
        next_action="An owner changes them with PATCH. Send the etag as If-Match, and nothing while it is null.",
    )


def changed(project_id: str, after: ChangedSettings) -> ProjectSettingsChanged:
    """The settings after a change."""
    row = after.row
    return ProjectSettingsChanged(
        project_id=project_id,
        **asdict(after.in_force),
        etag=None if row is None else make_etag(project_id, row.revision),
        changed_at=None if row is None else row.changed_at,
        changed_by=None if row is None else row.changed_by,
        automations_disabled=after.turned_off,
        next_action="Review the automation contract under these settings. Then enable it again."
        if after.turned_off
        else "Nothing to do.",
    )
