"""Wire contracts of a project's team at the provider, and of its session replay (R-PROJ-14, R-PRV-01, G-094)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.kernel.shape import Closed, Epoch

TeamStatus = Literal["unknown", "provisioned", "replay_configured", "ready", "upstream_blocked"]
Rate = Annotated[float, Meta(ge=0, le=1, description="Share of sessions that are recorded.")]


class ProvisionTeam(Closed, frozen=True):
    """An empty object, or no body."""


class TeamProvisioned(msgspec.Struct, frozen=True, kw_only=True):
    """The team at the provider. A repeat shows the same one."""

    project_id: str
    status: TeamStatus
    team_id: int
    web_ui_url: str
    next_action: str


class ConfigureReplay(Closed, frozen=True, kw_only=True):
    """Settings of session replay. The share of sessions is rounded to hundredths."""

    enabled: bool = True
    sample_rate: Rate = 1.0
    mask_all_inputs: bool = True


class ReplayState(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of session replay, as they were configured last. Without that, it is off."""

    enabled: bool
    provider: Literal["provider_cloud"] = "provider_cloud"
    sample_rate: Rate
    mask_all_inputs: bool


class ReplayConfigured(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that the provider has taken."""

    project_id: str
    status: TeamStatus
    replay: ReplayState
    next_action: str


class ReplayStanding(msgspec.Struct, frozen=True, kw_only=True):
    """The state of session replay. `ready`: the provider has confirmed the settings."""

    project_id: str
    status: TeamStatus
    replay: ReplayState
    last_recording_at: Epoch | None
    next_action: str
