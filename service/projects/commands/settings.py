"""Changing the settings of a project (G-202).

A change is a fence of the project. After its answer, no decision under the former settings can commit. A loosening
change turns an enabled contract off in the same transaction, as its replacement would.
"""

from __future__ import annotations

from typing import NamedTuple

from projections.projects.settings import PROJECT_SETTINGS, SettingsRow
from service.eventstore.declare.commands import Unit
from service.eventstore.declare.intents import Intent
from statemachines.contracts import contract as contracts
from statemachines.projects import project as projects
from statemachines.projects import settings
from statemachines.projects.settings import InForce, SettingsWish

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
