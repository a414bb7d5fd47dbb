"""A project's team at the provider as a row, and the provider's last word on it (R-PRV-01, G-094, G-165)."""

from typing import Any

import msgspec
from msgspec.structs import replace

from projections.kernel import Row, Table, projection
from statemachines import provider
from statemachines.kernel.machine import Recorded


class TeamRow(Row, frozen=True, kw_only=True):
    """A team. An attempt is under way until `attempt_until`, unless that is null. Times are in epoch seconds.

    `replay_revision` is the revision of the settings. They are null until replay is configured.
    """

    status: str
    attempt_until: int | None = None
    doubt_until: int | None = None
    team_id: int | None = None
    token: str | None = None
    host: str | None = None
    provisioned_at: int | None = None
    replay_enabled: bool | None = None
    sample_rate: str | None = None
    mask_all_inputs: bool | None = None
    configured_at: int | None = None
    replay_revision: int | None = None


class TeamSightingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A fact beside a team's stream: the provider's answer of `asked_at` (epoch seconds).

    It has confirmed the settings of `confirmed_revision`.
    """

    project_id: str
    id: str
    asked_at: int = 0
    confirmed_revision: int | None = None
    last_recording_at: int | None = None


def fold_team(row: TeamRow | None, recorded: Recorded) -> TeamRow | None:
    """Fold an event of a team into its row."""
    if row is None:
        if not isinstance(recorded.event, provider.ProvisioningStarted | provider.ProvisioningBlocked):
            return None
        absent = provider.Status.ABSENT.value
        row = TeamRow(project_id=recorded.project_id, id=recorded.originator_id, revision=0, status=absent)
    return replace(row, revision=recorded.revision, **_changes(recorded))


def _changes(recorded: Recorded) -> dict[str, Any]:
    """The columns that an event changes. Every outcome ends the attempt before it."""
    changes: dict[str, Any] = {"attempt_until": None}
    match recorded.event:
        case provider.ProvisioningStarted(_, at):
            changes = {"status": provider.Status.PROVISIONING.value, "attempt_until": at + provider.ATTEMPT_SECONDS}
        case provider.ReplayStarted(_, at):
            changes = {"attempt_until": at + provider.ATTEMPT_SECONDS}
        case provider.ProvisioningBlocked(_, doubtful, at):
            changes |= {"status": provider.Status.BLOCKED.value}
            changes |= {"doubt_until": at + provider.DOUBT_SECONDS} if doubtful else {}
        case provider.TeamProvisioned() as event:
            changes |= {
                "status": provider.Status.PROVISIONED.value,
                "doubt_until": None,
                "provisioned_at": event.provisioned_at,
            }
            changes |= {"team_id": event.team_id, "token": event.token, "host": event.host}
        case provider.ReplayConfigured() as event:
            changes |= {"status": provider.Status.CONFIGURED.value, "configured_at": event.configured_at}
            changes |= {"replay_enabled": event.enabled, "sample_rate": event.sample_rate}
            changes |= {"mask_all_inputs": event.mask_all_inputs, "replay_revision": recorded.revision}
    return changes


TEAMS = projection("provider_teams", TeamRow, ("team",), fold_team)
TEAM_SIGHTINGS = Table("provider_sightings", TeamSightingRow)
