"""Asks the provider whether it has the settings of replay, and when it recorded last (R-PRV-01, G-094).

`ready` is a fact that is remembered, not an event: a GET records nothing. A failed question leaves what is known.
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from projections.provider import TeamSightingRow
from service.eventstore.store import EventStore
from service.provider import listing
from service.provider.operator import CONFIRM_SECONDS, OperatorProvider
from service.provider.reads import TeamStanding, note_sighting, standing_of
from service.provider.sources import ProviderSources
from statemachines.kernel.readings import ReadFailed
from statemachines.provider.team import ReplaySettings, Status

ASK_AGAIN_SECONDS = 30
"""How long what the provider confirmed is taken for granted."""


async def look(
    store: EventStore, operator: OperatorProvider, sources: ProviderSources, standing: TeamStanding, account: str
) -> TeamStanding:
    """Ask the provider about a configured team, unless it has confirmed the settings a moment ago."""
    row, known, now = standing.row, standing.sighting, await store.now()
    if row.status != Status.CONFIGURED.value or known is None or row.team_id is None or not operator.configured:
        return standing
    if standing.is_ready and now - known.asked_at < ASK_AGAIN_SECONDS:
        return standing
    source = sources.of_team(row, account, CONFIRM_SECONDS)
    assert source is not None, "a configured team is there"
    settings, recorded = await asyncio.gather(operator.settings_of(row.team_id, account), listing.recordings(source, 1))
    if isinstance(settings, ReadFailed):
        return standing
    confirmed = row.replay_revision if settings == _settings(standing) else None
    newest = None if isinstance(recorded, ReadFailed) or not recorded.items else recorded.items[0].started_at
    seen: TeamSightingRow = replace(
        known, asked_at=now, confirmed_revision=confirmed, last_recording_at=newest or known.last_recording_at
    )
    await note_sighting(store, seen)
    return await standing_of(store, row.project_id) or standing


def _settings(standing: TeamStanding) -> ReplaySettings:
    row = standing.row
    assert row.sample_rate is not None, "replay is configured"
    return ReplaySettings(bool(row.replay_enabled), row.sample_rate, bool(row.mask_all_inputs))
