"""A project's own team at the analytics provider: provisioned once, with replay that may change (R-PRV-01).

One stream a project. An attempt is committed before its requests, and has the provider to itself until its outcome or
the end of its time. So two attempts never create two teams, and the provider gets settings in the order of the log. A
creation without an answer is in doubt: for a while nobody creates another.
"""

from enum import Enum
from typing import Literal

import msgspec

from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)

ATTEMPT_SECONDS = 40
"""Time of an attempt without an outcome. All its exchanges end well before."""
DOUBT_SECONDS = 60
"""Time after a creation without an answer, in which look-ups come to show its team and nobody creates another."""

BlockReason = Literal["unconfigured", "refused", "unreachable", "timeout", "malformed"]
"""`unconfigured`: no credentials of the operator. `refused`: the provider did not accept them, or the request."""


def stream(project_id: str) -> Stream:
    """History of a project's team."""
    return Stream(MACHINE, project_id, derived_id("team", project_id))


def external_name(project_id: str) -> str:
    """The name of a project's team at the provider, by which it is found again (G-165)."""
    return f"service-{project_id}"


class Status(Enum):
    """Where a team stands. The value is the word for clients, but for an attempt under way."""

    ABSENT = "unknown"
    PROVISIONING = "provisioning"
    BLOCKED = "upstream_blocked"
    PROVISIONED = "provisioned"
    CONFIGURED = "replay_configured"


class ProvisioningStarted(Event, frozen=True):
    """The intent: committed before the provider is asked for a team."""

    TOPIC = "provider.provisioning_started.v1"
    attempt: str
    started_at: int


class ProvisioningBlocked(Event, frozen=True):
    """There is no team yet. `doubtful`: a later look-up may show one."""

    TOPIC = "provider.provisioning_blocked.v1"
    reason: BlockReason
    doubtful: bool
    blocked_at: int


class TeamProvisioned(Event, frozen=True):
    """The team is there. `token` is its public project token, for browsers."""

    TOPIC = "provider.team_provisioned.v1"
    team_id: int
    token: str
    host: str
    provisioned_at: int


class ReplayStarted(Event, frozen=True):
    """The intent: committed before the provider is sent the settings of replay."""

    TOPIC = "provider.replay_started.v1"
    attempt: str
    started_at: int


class ReplayConfigured(Event, frozen=True):
    """The provider has taken the settings. `sample_rate` is a decimal from 0.00 to 1.00."""

    TOPIC = "provider.replay_configured.v1"
    enabled: bool
    sample_rate: str
    mask_all_inputs: bool
    configured_at: int


class ReplayFailed(Event, frozen=True):
    """The provider did not confirm the settings. Those from before stay recorded."""

    TOPIC = "provider.replay_failed.v1"
    failed_at: int


_OPEN = [Status.ABSENT, Status.PROVISIONING, Status.BLOCKED]
_THERE = [Status.PROVISIONED, Status.CONFIGURED]
TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [ProvisioningStarted.TOPIC, _OPEN, Status.PROVISIONING],
        [ProvisioningBlocked.TOPIC, _OPEN, Status.BLOCKED],
        [TeamProvisioned.TOPIC, Status.PROVISIONING, Status.PROVISIONED],
        [ReplayStarted.TOPIC, _THERE, None],
        [ReplayConfigured.TOPIC, _THERE, Status.CONFIGURED],
        [ReplayFailed.TOPIC, _THERE, None],
    ],
)


class Team(msgspec.Struct, frozen=True):
    """The state behind decisions on a team. `attempt` is under way until `until` (epoch seconds).

    Before `doubt_until` a team may exist that no look-up has shown yet. `settled` is the last attempt with settings
    taken by the provider.
    """

    status: Status = Status.ABSENT
    attempt: str | None = None
    until: int = 0
    doubt_until: int = 0
    reason: BlockReason | None = None
    settled: str | None = None

    @property
    def is_there(self) -> bool:
        """Whether the team has been provisioned."""
        return self.status in _THERE

    def is_taken(self, now: int) -> bool:
        """Whether an attempt is under way."""
        return self.attempt is not None and now < self.until


class TeamNotProvisioned(Rejection):
    """Replay is configured on a provisioned team only."""

    code = "provider_not_provisioned"


class AttemptLost(Rejection):
    """The time of the attempt was over before its outcome: another one decides."""

    code = "service_unavailable"


class FoundTeam(msgspec.Struct, frozen=True):
    """A team as the provider shows it."""

    id: int
    token: str
    host: str


class ReplaySettings(msgspec.Struct, frozen=True):
    """Settings of replay. `sample_rate` is a decimal from 0.00 to 1.00."""

    enabled: bool
    sample_rate: str
    mask_all_inputs: bool


def decide_provision(state: Team, attempt: str, now: int) -> list[Event]:
    """Begin an attempt to provision. Nothing when the team is there, or while another attempt is under way."""
    return [] if state.is_there or state.is_taken(now) else [ProvisioningStarted(attempt, now)]


def decide_provisioned(state: Team, attempt: str, team: FoundTeam, now: int) -> list[Event]:
    """Record the team of an attempt. Nothing when it is recorded. Raises AttemptLost."""
    if state.is_there:
        return []
    _check_attempt(state, attempt)
    return [TeamProvisioned(team.id, team.token, team.host, now)]


def decide_blocked(
    state: Team, attempt: str | None, reason: BlockReason, now: int, *, doubtful: bool = False
) -> list[Event]:
    """Record an attempt without a team. None as attempt: the provider was not even asked.

    Nothing when the team is there, when another attempt decides, or when that is recorded already.
    """
    if attempt is None:
        told = state.status is Status.BLOCKED and state.reason == reason
        recorded = told or state.is_taken(now)
    else:
        recorded = state.attempt != attempt
    return [] if state.is_there or recorded else [ProvisioningBlocked(reason, doubtful, now)]


def decide_replay(state: Team, attempt: str, now: int) -> list[Event]:
    """Begin to configure replay. Nothing while another attempt is under way. Raises TeamNotProvisioned."""
    if not state.is_there:
        raise TeamNotProvisioned("The analytics provider is not set up for this project.")
    return [] if state.is_taken(now) else [ReplayStarted(attempt, now)]


def decide_configured(state: Team, attempt: str, settings: ReplaySettings, now: int) -> list[Event]:
    """Record the settings taken by the provider. A repeat records nothing. Raises AttemptLost."""
    if state.settled == attempt:
        return []
    _check_attempt(state, attempt)
    return [ReplayConfigured(settings.enabled, settings.sample_rate, settings.mask_all_inputs, now)]


def decide_replay_failed(state: Team, attempt: str, now: int) -> list[Event]:
    """Record a failure to configure replay. Nothing when another attempt decides."""
    return [ReplayFailed(now)] if state.attempt == attempt else []


def _check_attempt(state: Team, attempt: str) -> None:
    if state.attempt != attempt:
        raise AttemptLost("Another attempt to set up the provider has taken over.")


def evolve(state: Team, event: Event) -> Team:
    """Fold an event of a team."""
    status = Status[destination(TABLE, event, state.status)]
    match event:
        case ProvisioningStarted(attempt, at) | ReplayStarted(attempt, at):
            return msgspec.structs.replace(state, status=status, attempt=attempt, until=at + ATTEMPT_SECONDS)
        case ProvisioningBlocked(reason, doubtful, at):
            doubt = at + DOUBT_SECONDS if doubtful else state.doubt_until
            return Team(status, doubt_until=doubt, reason=reason)
        case ReplayConfigured():
            return Team(status, settled=state.attempt)
        case _:
            return Team(status, settled=state.settled)


MACHINE = StateMachine("team", TABLE, Team(), evolve, TeamNotProvisioned, Team)
