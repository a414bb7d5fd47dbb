"""The setup of a project, as one of its members reads it (R-INST-04, G-061)."""

from __future__ import annotations

from typing import NamedTuple

from projections.install.flow import INSTALLS
from projections.onboarding.signal_map import SIGNAL_MAPS
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from service.onboarding.questions import AskedProject
from service.onboarding.whose import WhoseEvidence, whose_evidence
from statemachines.install import flow as installs
from statemachines.onboarding import signal_map as signal_maps
from statemachines.projects.project import ProjectNotFound

_SETUP = load_sql("install", "setup")


class SetupFound(NamedTuple):
    """A project with the role of the reader, what has arrived, its install, and whose evidence counts in it."""

    name: str
    role: str
    dsn_prefix: str
    has_events: bool
    has_deploys: bool
    asked: AskedProject
    evidence: WhoseEvidence


async def setup_of(store: EventStore, project_id: str, user_id: str) -> SetupFound:
    """Read the setup of a project for one of its members. Raises ProjectNotFound."""
    rows = await store.fetch(_SETUP, project_id=project_id, user_id=user_id)
    if not rows:
        raise ProjectNotFound("There is no such project.")
    [[name, role, dsn_prefix, has_events, has_deploys]] = rows
    signal_map = await store.get(SIGNAL_MAPS, project_id, signal_maps.stream(project_id).id)
    install = await store.get(INSTALLS, project_id, installs.stream(project_id).id)
    asked = AskedProject(signal_map, install, None)
    evidence = await whose_evidence(store, project_id)
    return SetupFound(name, role, dsn_prefix, has_events, has_deploys, asked, evidence)
