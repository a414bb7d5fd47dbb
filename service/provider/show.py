"""A project's team, its replay, and lists of its provider on the wire (G-094, G-095)."""

from __future__ import annotations

from collections.abc import Mapping

from projections.provider import TeamRow
from schemas.analytics import BrowserConfig, BrowserReplay
from schemas.provider import ReplayConfigured, ReplayStanding, ReplayState, TeamProvisioned, TeamStatus
from service.provider.listing import Scope
from service.provider.reads import TeamStanding
from service.provider.sources import web_ui_url
from statemachines.provider.team import Status

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


def provisioned(row: TeamRow) -> TeamProvisioned:
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


def configured(row: TeamRow) -> ReplayConfigured:
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


def scope_missing(scope: Scope) -> str:
    """What to do for a list that the connection may not read."""
    return f"The connection was granted without {scope}. Connect the provider again and grant it."
