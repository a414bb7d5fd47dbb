"""Wire contract of experiments, as the provider keeps them (R-PRV-03, G-095)."""

from __future__ import annotations

from typing import Literal

import msgspec

from schemas.kernel.shape import Epoch

ExperimentStatus = Literal["draft", "running", "paused", "stopped"]


class ExperimentVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A variant. `rollout_percentage` is its share of the people in the experiment, null when it is not set."""

    key: str
    name: str | None
    rollout_percentage: float | None


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment with its variants."""

    id: int
    name: str
    status: ExperimentStatus
    feature_flag_key: str
    variants: list[ExperimentVariant]
    started_at: Epoch | None
    ended_at: Epoch | None


class ExperimentList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of experiments."""

    project_id: str
    experiments: list[Experiment]
    count: int
    next_cursor: str | None
    next_action: str
