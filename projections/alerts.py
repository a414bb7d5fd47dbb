"""Alerts as rows, and the latest look at each. A deleted alert has no row (G-092)."""

import msgspec
from msgspec.structs import replace

from projections.kernel import Row, Table, header, projection
from statemachines.alerts import AlertCleared, AlertCreated, AlertDeleted, AlertFoundClear, AlertTriggered, Status
from statemachines.kernel.machine import Recorded


class AlertRow(Row, frozen=True, kw_only=True):
    """An alert. `params` is canonical JSON, `threshold_value` a decimal, `created_at` in epoch seconds."""

    name: str | None
    blueprint_id: str
    params: str
    threshold_column: str
    threshold_op: str
    threshold_value: str
    row_match: str
    status: str
    created_at: int


class AlertLookRow(msgspec.Struct, frozen=True, kw_only=True):
    """The latest look at an alert, a fact beside its stream. Times are in epoch seconds.

    `due_at` is the time of the next scheduled look, and None once the alert is deleted. `asked_us` is the beginning of
    the look in microseconds. Of two looks the later one counts. `evaluated_at` is its second and `value` the observed
    decimal. Both are None before the first look.
    """

    project_id: str
    id: str
    due_at: int | None
    asked_us: int = 0
    evaluated_at: int | None = None
    value: str | None = None


class AlertCountRow(msgspec.Struct, frozen=True, kw_only=True):
    """The number of alerts of a project, by the stream of the project. A view, no table."""

    project_id: str
    id: str
    standing: int


def fold_alert(row: AlertRow | None, recorded: Recorded) -> AlertRow | None:
    """Fold an event of an alert into its row."""
    match recorded.event:
        case AlertCreated() as event:
            return AlertRow(
                **header(recorded),
                name=event.name,
                blueprint_id=event.blueprint_id,
                params=event.params,
                threshold_column=event.threshold_column,
                threshold_op=event.threshold_op,
                threshold_value=event.threshold_value,
                row_match=event.row_match,
                status=Status.CREATED.value,
                created_at=event.created_at,
            )
        case AlertTriggered() if row:
            return replace(row, revision=recorded.revision, status=Status.TRIGGERED.value)
        case AlertFoundClear() | AlertCleared() if row:
            return replace(row, revision=recorded.revision, status=Status.EVALUATED_CLEAR.value)
        case AlertDeleted():
            return None
    return row


ALERTS = projection("alerts", AlertRow, ("alert",), fold_alert)
ALERT_LOOKS = Table("alert_looks", AlertLookRow)
ALERT_COUNTS = Table("alert_counts", AlertCountRow)
