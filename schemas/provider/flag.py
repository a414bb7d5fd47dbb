"""Wire contract of feature flags, as the provider keeps them (R-PRV-03, G-095)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from schemas.kernel.shape import Epoch


class FeatureFlag(msgspec.Struct, frozen=True, kw_only=True):
    """A flag. Its `rollout_percentage` is null unless one group of conditions decides for everybody."""

    id: int
    key: str
    name: str
    active: bool
    rollout_percentage: Annotated[int, Meta(ge=0, le=100)] | None
    created_at: Epoch | None


class FeatureFlagList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of flags. Nothing here changes one."""

    project_id: str
    feature_flags: list[FeatureFlag]
    count: int
    next_cursor: str | None
    next_action: str
