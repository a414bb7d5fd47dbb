"""Wire contract of the settings of a project (G-202)."""

from __future__ import annotations

from typing import Literal

import msgspec

from schemas.kernel.shape import Closed, Epoch

DefaultLevel = Literal["error", "info"]
RequiredEvidence = Literal["provider_cloud"]


class ChangeSettings(Closed, frozen=True, kw_only=True):
    """The settings to change. An absent member stays as it is."""

    accept_public_events: bool | msgspec.UnsetType = msgspec.UNSET
    default_level: DefaultLevel | msgspec.UnsetType = msgspec.UNSET
    frame_variables: bool | msgspec.UnsetType = msgspec.UNSET
    required_evidence_source: RequiredEvidence | msgspec.UnsetType | None = msgspec.UNSET


class ProjectSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in force. Before the first change, `etag`, `changed_at` and `changed_by` are null."""

    project_id: str
    accept_public_events: bool
    default_level: DefaultLevel
    frame_variables: bool
    required_evidence_source: RequiredEvidence | None
    etag: str | None
    changed_at: Epoch | None
    changed_by: str | None
    next_action: str


class ProjectSettingsChanged(ProjectSettings, frozen=True, kw_only=True):
    """The settings after a change, and the automations that it turned off because it permits more."""

    automations_disabled: list[str]
