"""A project's team as it is kept, and what the provider last said of it (R-PRV-01, G-094)."""

from __future__ import annotations

from typing import NamedTuple

from projections.provider import TEAM_SIGHTINGS, TEAMS, TeamRow, TeamSightingRow
from service.eventstore.store import EventStore
from service.sql import load_query
from statemachines.provider import team as teams

_SEEN = load_query("provider", "note_sighting")


class TeamStanding(NamedTuple):
    """A team, with what the provider last said of it."""

    row: TeamRow
    sighting: TeamSightingRow | None

    @property
    def is_ready(self) -> bool:
        """Whether the provider has confirmed the settings of now."""
        known = self.sighting
        return (
            known is not None
            and known.confirmed_revision is not None
            and (known.confirmed_revision == self.row.replay_revision)
        )


async def team_of(store: EventStore, project_id: str) -> TeamRow | None:
    """Return the team of a project, as far as it has come. None when nobody has asked for one."""
    return await store.get(TEAMS, *teams.stream(project_id).name)


async def standing_of(store: EventStore, project_id: str) -> TeamStanding | None:
    """Return the team of a project with what is known of it. None when nobody has asked for one."""
    name = teams.stream(project_id).name
    row = await store.get(TEAMS, *name)
    return None if row is None else TeamStanding(row, await store.get(TEAM_SIGHTINGS, *name))


async def note_sighting(store: EventStore, sighting: TeamSightingRow) -> None:
    """Keep what the provider said. Of a project that has been purged meanwhile nothing is kept."""
    values = {name: getattr(sighting, name) for name in sighting.__struct_fields__}
    async with store.facts.connection() as connection:
        await connection.execute(_SEEN, values)
