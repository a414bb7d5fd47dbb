"""Settings of a project: changed, read and shown (G-202).

A change is a fence of the project. After its answer, no decision under the former settings can commit. A loosening
change turns an enabled contract off in the same transaction, as its replacement would.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import asdict

from projections.projects import PROJECT_SETTINGS, SettingsRow
from schemas.projects import ProjectSettings, ProjectSettingsChanged
from service.eventstore.declare.commands import Intent, Unit
from service.eventstore.store import EventStore
from service.sql import load_query
from statemachines.contracts import contract as contracts
from statemachines.projects import project as projects
from statemachines.projects import settings
from statemachines.projects.project import ProjectNotFound
from statemachines.projects.settings import InForce, SettingsWish, make_etag

# Changing the settings of a project (G-202).

LOOSENED = "settings_loosened"
"""The reason of an automation turned off by a change of the settings."""


class ChangedSettings(NamedTuple):
    """The settings in force after a change, their row if there is one, and the automations turned off by it."""

    in_force: InForce
    row: SettingsRow | None
    turned_off: list[str]


def change(project_id: str, wish: SettingsWish, *, if_match: str | None, changed_by: str) -> Intent[ChangedSettings]:
    """Change settings at the revision of a tag. `changed_by` is a user id. Refused as decide_change refuses."""
    stream, project, contract = settings.stream(project_id), projects.stream(project_id), contracts.stream(project_id)

    def decide(unit: Unit) -> ChangedSettings:
        made = unit.state(project)
        before = settings.in_force(unit.state(stream), made)
        events = settings.decide_change(
            unit.state(stream), made, wish, project_id=project_id, if_match=if_match, by=changed_by, now=unit.now
        )
        after = settings.in_force(unit.append(stream, events), made)
        turned_off: list[str] = []
        if settings.loosens(before, after):
            state = unit.state(contract)
            turned_off = [a.saved.automation_id for a in state.automations if a.enabled]
            unit.append(
                contract, contracts.decide_disable_all(state, reason=LOOSENED, disabled_by=changed_by, now=unit.now)
            )
        return ChangedSettings(after, unit.row(PROJECT_SETTINGS, project_id, stream.id), turned_off)

    return Intent([stream, contract], decide, reads=[project], fence=True, saves=True)


# The settings of a project in force (G-202).

_SETTINGS = load_query("projects", "settings")


class KnownSettings(NamedTuple):
    """The settings in force, and the latest change of them: its revision, time (epoch seconds) and author."""

    in_force: InForce
    revision: int
    changed_at: int | None
    changed_by: str | None


async def settings_of(store: EventStore, project_id: str) -> KnownSettings:
    """Read the settings of a project. Raises ProjectNotFound."""
    rows = await store.fetch(_SETTINGS, project_id=project_id)
    if not rows:
        raise ProjectNotFound("There is no such project.")
    [(*in_force, revision, changed_at, changed_by)] = rows
    return KnownSettings(InForce(*in_force), revision or 0, changed_at, changed_by)


# The settings of a project on the wire (G-202).


def shown_settings(project_id: str, known: KnownSettings) -> ProjectSettings:
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
