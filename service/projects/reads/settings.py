"""The settings of a project in force (G-202)."""

from __future__ import annotations

from typing import NamedTuple

from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from statemachines.projects.project import ProjectNotFound
from statemachines.projects.settings import InForce

_SETTINGS = load_sql("projects", "settings")


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
