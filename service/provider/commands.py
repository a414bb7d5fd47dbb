"""Records a project's team at the provider: attempts before their requests, and outcomes (R-PRV-01, G-165)."""

from __future__ import annotations

from typing import NamedTuple

from projections.provider import TEAM_SIGHTINGS, TEAMS, TeamRow, TeamSightingRow
from service.auth.refusals import Refusal, ServiceUnavailable
from service.eventstore.declare.commands import Intent, Lookup, Refused, Unit
from statemachines.kernel.machine import Stream
from statemachines.provider import team as teams
from statemachines.provider.team import BlockReason, FoundTeam, ReplaySettings

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
