"""Wire contract of alerts: create, list, show, preview, evaluate, delete (G-092, G-162)."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from schemas.kernel.origins import Origins, origins
from schemas.kernel.shape import Closed, Epoch

MOST_DAYS = 30
"""Days that a preview reaches back at most."""
MOST_LOOKS = 96
MOST_PROVIDED_LOOKS = 12
"""Looks of a preview that asks a connected provider, which counts the queries of its customer."""
"""Looks that a preview takes."""

ThresholdOp = Literal["gt", "gte", "lt", "lte", "eq", "neq"]
RowsLookedAt = Literal["any", "first"]
AlertStatus = Literal["created", "evaluated_clear", "triggered"]
Column = Annotated[str, Meta(min_length=1, max_length=200)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]


class CreateAlert(Closed, frozen=True, kw_only=True):
    """An alert. `params` are those of the blueprint and never change afterwards. Unknown ones are ignored.

    `row_match` is `any` if any row may cross the threshold, `first` if only the first row may.
    """

    blueprint_id: Annotated[str, Meta(min_length=1, max_length=200)]
    threshold_column: Column
    threshold_op: Literal["gt", "gte", "lt", "lte", "eq", "neq", ">", ">=", "<", "<=", "==", "!="]
    threshold_value: int | float
    params: dict[str, Any] = msgspec.field(default_factory=dict)
    name: Name | msgspec.UnsetType = msgspec.UNSET
    row_match: RowsLookedAt = "any"


class PreviewAlert(CreateAlert, frozen=True, kw_only=True):
    """A possible alert, and how many days of the past to look at."""

    days: Annotated[int, Meta(ge=1, le=MOST_DAYS)] = 7


class EvaluateAlert(Closed, frozen=True):
    """An empty object, or no body."""


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert with all parameters of its blueprint. Before the first evaluation, both `last_` members are null."""

    id: str
    project_id: str
    name: str | None
    blueprint_id: str
    params: dict[str, Any]
    threshold_column: str
    threshold_op: ThresholdOp
    threshold_value: int | float
    row_match: RowsLookedAt
    status: AlertStatus
    last_value: int | float | None
    last_evaluated_at: Epoch | None
    created_at: Epoch


class AlertCreated(Alert, frozen=True, kw_only=True):
    """The created alert."""

    next_action: str


class ScheduledAlert(Alert, frozen=True, kw_only=True):
    """An alert with the time of its next evaluation and its delay."""

    PROVENANCE: ClassVar[Origins] = origins(telemetry="last_value")

    evaluation_due_at: Epoch
    late_seconds: Annotated[int, Meta(ge=0)]


class AlertShown(ScheduledAlert, frozen=True, kw_only=True):
    """One alert."""

    next_action: str


class AlertList(msgspec.Struct, frozen=True, kw_only=True):
    """All alerts of a project, newest first. `late_seconds` is the longest delay among them."""

    project_id: str
    alerts: list[ScheduledAlert]
    count: int
    late_seconds: Annotated[int, Meta(ge=0)]
    next_action: str


class AlertEvaluated(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of the latest evaluation.

    `observed_value` is the first value past the threshold. Without one, it is the greatest value for gt and gte, the
    least for lt and lte, and the nearest for eq and neq. Without rows it is null, and nothing is triggered.
    """

    id: str
    status: AlertStatus
    triggered: bool
    observed_value: int | float | None
    threshold_column: str
    threshold_op: ThresholdOp
    threshold_value: int | float
    evaluated_at: Epoch
    next_action: str


class AlertDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """The deleted alert."""

    id: str
    status: Literal["deleted"]
    deleted_at: Epoch
    next_action: str


class PastLook(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of an evaluation at a time in the past. `complete` is false if a part of its window is missing."""

    at: Epoch
    triggered: bool
    observed_value: int | float | None
    complete: bool


class AlertPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts of an alert in the past, newest first and `every_seconds` apart.

    `looks_left_out` counts the oldest ones, left out for lack of time.
    """

    project_id: str
    blueprint_id: str
    params: dict[str, Any]
    threshold_column: str
    threshold_op: ThresholdOp
    threshold_value: int | float
    row_match: RowsLookedAt
    days: int
    every_seconds: int
    looks: list[PastLook]
    count: int
    triggered_count: int
    looks_left_out: int
    next_action: str
