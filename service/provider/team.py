"""A project's team at the provider: recorded, asked about its replay, and shown (R-PRV-01, G-094, G-165)."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from projections.provider import TEAM_SIGHTINGS, TEAMS, TeamRow, TeamSightingRow
from schemas.analytics import BrowserConfig, BrowserReplay
from schemas.provider import ReplayConfigured, ReplayStanding, ReplayState, TeamProvisioned, TeamStatus
from service.auth.refusals import Refusal, ServiceUnavailable
from service.eventstore.declare.commands import Intent, Lookup, Refused, Unit
from service.eventstore.store import EventStore
from service.provider import listing
from service.provider.operator import CONFIRM_SECONDS, OperatorProvider
from service.provider.sources import ProviderSources, TeamStanding, note_sighting, standing_of, web_ui_url
from statemachines import provider as teams
from statemachines.kernel.machine import ReadFailed, Stream
from statemachines.provider import BlockReason, FoundTeam, ReplaySettings, Status

# Records a project's team at the provider: attempts before their requests, and outcomes (R-PRV-01, G-165).

SHORTEST_WAIT = 5
"""Seconds of a Retry-After at least."""


class ProvisioningRefused(Refusal):
    """The provider cannot be set up now. Errors and deploys are taken in all the same (R-PRV-02)."""

    code = "provider_provisioning_blocked"


class AttemptBegun(NamedTuple):
    """A team as an attempt found it. `started`: the attempt is this one's, and its requests may be sent.

    `taken`: another attempt is under way. `may_create` is false while a team may show that was created before.
    """

    row: TeamRow | None
    started: bool
    taken: bool
    may_create: bool = True


class Settled(NamedTuple):
    """A team with the settings that the provider has taken."""

    row: TeamRow


def begin_provisioning(project_id: str, attempt: str) -> Intent[AttemptBegun]:
    """Begin an attempt to provision, unless the team is there or somebody else's attempt is under way."""
    stream = teams.stream(project_id)

    def decide(unit: Unit) -> AttemptBegun:
        state = unit.state(stream)
        events = teams.decide_provision(state, attempt, unit.now)
        unit.append(stream, events)
        return AttemptBegun(
            unit.row(TEAMS, *stream.name), bool(events), state.is_taken(unit.now), unit.now >= state.doubt_until
        )

    return Intent([stream], decide)


def show_team(project_id: str) -> Intent[TeamRow]:
    """Record nothing, and show the team, which is there."""
    stream = teams.stream(project_id)
    return Intent([], lambda unit: _row(unit, stream), reads=[stream], lookups=[Lookup(TEAMS, *stream.name)])


def provisioned(project_id: str, attempt: str, team: FoundTeam) -> Intent[TeamRow]:
    """Record the team of an attempt. Raises AttemptLost."""
    stream = teams.stream(project_id)

    def decide(unit: Unit) -> TeamRow:
        unit.append(stream, teams.decide_provisioned(unit.state(stream), attempt, team, unit.now))
        return _row(unit, stream)

    return Intent([stream], decide)


def blocked(
    project_id: str, attempt: str | None, reason: BlockReason, *, doubtful: bool = False, wait: int = 0
) -> Intent[TeamRow]:
    """Record that there is no team yet, and refuse with a Retry-After of `wait` seconds or more.

    Returns the team when it is there all the same.
    """
    stream = teams.stream(project_id)

    def decide(unit: Unit) -> TeamRow | Refused:
        events = teams.decide_blocked(unit.state(stream), attempt, reason, unit.now, doubtful=doubtful)
        state = unit.append(stream, events)
        if state.is_there:
            return _row(unit, stream)
        return Refused(refused(max(wait, state.doubt_until - unit.now)))

    return Intent([stream], decide)


def begin_replay(project_id: str, attempt: str) -> Intent[AttemptBegun]:
    """Begin to configure replay, unless an attempt is under way. Raises TeamNotProvisioned."""
    stream = teams.stream(project_id)

    def decide(unit: Unit) -> AttemptBegun:
        state = unit.state(stream)
        events = teams.decide_replay(state, attempt, unit.now)
        unit.append(stream, events)
        return AttemptBegun(_row(unit, stream), bool(events), state.is_taken(unit.now))

    return Intent([stream], decide)


def configured(project_id: str, attempt: str, settings: ReplaySettings) -> Intent[Settled]:
    """Record the settings that the provider has taken. Nobody has confirmed these yet. Raises AttemptLost."""
    stream = teams.stream(project_id)

    def decide(unit: Unit) -> Settled:
        unit.append(stream, teams.decide_configured(unit.state(stream), attempt, settings, unit.now))
        before = unit.row(TEAM_SIGHTINGS, *stream.name)
        if before is None:
            unit.put(stream, TEAM_SIGHTINGS, TeamSightingRow(project_id=project_id, id=stream.id))
        return Settled(_row(unit, stream))

    return Intent([stream], decide, lookups=[Lookup(TEAM_SIGHTINGS, *stream.name)])


def replay_failed(project_id: str, attempt: str, refusal: Refusal) -> Intent[None]:
    """Record that the provider has not taken the settings, and refuse."""
    stream = teams.stream(project_id)

    def decide(unit: Unit) -> Refused:
        unit.append(stream, teams.decide_replay_failed(unit.state(stream), attempt, unit.now))
        return Refused(refusal)

    return Intent([stream], decide)


def refused(seconds: int) -> ProvisioningRefused:
    """The refusal of a provisioning, for some seconds."""
    return ProvisioningRefused(headers={"retry-after": str(max(SHORTEST_WAIT, seconds))})


def busy() -> ServiceUnavailable:
    """The refusal while another attempt is under way."""
    return ServiceUnavailable(
        "Another request is configuring the provider.",
        next_action="Retry after the seconds of Retry-After.",
        headers={"retry-after": str(SHORTEST_WAIT)},
    )


def _row(unit: Unit, stream: Stream) -> TeamRow:
    row = unit.row(TEAMS, *stream.name)
    assert row is not None, "a team has a row from its first event on"
    return row


# Asks the provider whether it has the settings of replay, and when it recorded last (R-PRV-01, G-094). `ready` is a
# fact that is remembered, not an event: a GET records nothing. A failed question leaves what is known.

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
    settings, recorded = await asyncio.gather(
        operator.settings_of(row.team_id, account), listing.recordings_of(source, 1)
    )
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


# A project's team, its replay, and lists of its provider on the wire (G-094, G-095).

_SHOWN: Mapping[str, TeamStatus] = {
    Status.ABSENT.value: "unknown",
    Status.PROVISIONING.value: "unknown",
    Status.BLOCKED.value: "upstream_blocked",
    Status.PROVISIONED.value: "provisioned",
    Status.CONFIGURED.value: "replay_configured",
}
_OFF = ReplayState(enabled=False, sample_rate=1.0, mask_all_inputs=True)

_NEXT: Mapping[TeamStatus, str] = {
    "unknown": "Provision the provider with POST /v1/projects/{project_id}/provider/provision.",
    "upstream_blocked": "Retry POST /v1/projects/{project_id}/provider/provision later. Errors and deploys still work.",
    "provisioned": "Configure replay with POST /v1/projects/{project_id}/provider/session-replay/configure.",
    "replay_configured": "Read the status again until it is ready. The provider has not confirmed the settings yet.",
    "ready": "Load GET /v1/analytics/browser-config in the browser, and record sessions.",
}
_NOT_CONFIGURED = "Session replay has not been configured for this project."
_SWITCHED_OFF = "Session replay is switched off for this project."
_INGEST = {
    "https://us.posthog.com": "https://us.i.posthog.com",
    "https://eu.posthog.com": "https://eu.i.posthog.com",
}
"""Addresses that take what browsers capture, where they differ from that of the interface."""
_CONFIGURED = "Read GET /v1/projects/{project_id}/provider/session-replay/status until it is ready."
_LISTED = "Read on with cursor, as next_cursor says, until it is null."
_WHOLE = "Nothing to do."
NO_SOURCE = (
    "Connect the project's provider with POST /v1/auth/provider, or provision one with "
    "POST /v1/projects/{project_id}/provider/provision."
)


def shown_provisioned(row: TeamRow) -> TeamProvisioned:
    """A team that is there."""
    assert row.team_id is not None, "a provisioned team has an id"
    assert row.host is not None, "a provisioned team has a host"
    status = _SHOWN[row.status]
    return TeamProvisioned(
        project_id=row.project_id,
        status=status,
        team_id=row.team_id,
        web_ui_url=web_ui_url(row.host, row.team_id),
        next_action=_NEXT[status],
    )


def shown_configured(row: TeamRow) -> ReplayConfigured:
    """A team whose settings of replay the provider has just taken."""
    return ReplayConfigured(
        project_id=row.project_id,
        status="replay_configured",
        replay=replay_of(row),
        next_action=_CONFIGURED,
    )


def standing(project_id: str, known: TeamStanding | None) -> ReplayStanding:
    """The state of a project's replay, also of one that nobody has set up."""
    row = None if known is None else known.row
    status: TeamStatus = "unknown" if row is None else _SHOWN[row.status]
    if known is not None and status == "replay_configured" and known.is_ready:
        status = "ready"
    sighting = None if known is None else known.sighting
    return ReplayStanding(
        project_id=project_id,
        status=status,
        replay=replay_of(row),
        last_recording_at=None if sighting is None else sighting.last_recording_at,
        next_action=_NEXT[status],
    )


def replay_of(row: TeamRow | None) -> ReplayState:
    """The settings of replay as they were configured last."""
    if row is None or row.replay_enabled is None or row.sample_rate is None:
        return _OFF
    return ReplayState(
        enabled=row.replay_enabled, sample_rate=float(row.sample_rate), mask_all_inputs=bool(row.mask_all_inputs)
    )


def browser_config(row: TeamRow | None) -> BrowserConfig:
    """What a browser reads before it captures: the public token and where to send, once replay is on (R-ING-05)."""
    replay = replay_of(row)
    if row is not None and row.token is not None and row.host is not None and replay.enabled:
        host = _INGEST.get(row.host, row.host)
        on = BrowserReplay(enabled=True, provider=replay.provider, token=row.token, api_host=host)
        return BrowserConfig(ok=True, replay=on, next_action="Start the recorder with token and api_host.")
    reason = _SWITCHED_OFF if row is not None and row.replay_enabled is False else _NOT_CONFIGURED
    off = BrowserReplay(enabled=False, provider=replay.provider, reason=reason)
    return BrowserConfig(ok=True, replay=off, next_action="Send events without session replay.")


def next_of_list(*, more: bool) -> str:
    """What to do after a page."""
    return _LISTED if more else _WHOLE


def scope_missing(scope: listing.Scope) -> str:
    """What to do for a list that the connection may not read."""
    return f"The connection was granted without {scope}. Connect the provider again and grant it."
