"""Alerts on the wire. Every `next_action` is a fixed sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from projections.alerts.alert import AlertLookRow, AlertRow
from schemas.alerts.alert import (
    AlertCreated,
    AlertDeleted,
    AlertEvaluated,
    AlertList,
    AlertPreview,
    AlertShown,
    PastLook,
    ScheduledAlert,
)
from service.alerts.commands import EndedAlert, EvaluatedAlert
from service.alerts.looking import PastLooks
from service.alerts.reads import StandingAlert
from statemachines.alerts.alert import EVERY_SECONDS, AlertWish, Status
from statemachines.alerts.threshold import Number, read_number

_NEXT = {
    Status.CREATED: "Evaluate it with POST …/evaluate, or wait for its schedule.",
    Status.EVALUATED_CLEAR: "Nothing to do. The schedule evaluates it again.",
    Status.TRIGGERED: "Run its blueprint to see the rows behind observed_value, and act on them.",
}
_LATE = "Its evaluation is late: the service is behind, or the project's analytics provider does not answer."


def created(made: EvaluatedAlert) -> AlertCreated:
    """A new alert."""
    return AlertCreated(**_members(made.row, made.look), next_action=_NEXT[Status.CREATED])


def alert(found: StandingAlert) -> AlertShown:
    """One alert."""
    late = _late_seconds(found)
    following = _LATE if late >= EVERY_SECONDS else _NEXT[Status(found.row.status)]
    return AlertShown(
        **_members(found.row, found.look), evaluation_due_at=_due_at(found), late_seconds=late, next_action=following
    )


def listed(project_id: str, found: Sequence[StandingAlert]) -> AlertList:
    """All alerts of a project."""
    shown = [
        ScheduledAlert(**_members(one.row, one.look), evaluation_due_at=_due_at(one), late_seconds=_late_seconds(one))
        for one in found
    ]
    late = max((one.late_seconds for one in shown), default=0)
    if late >= EVERY_SECONDS:
        following = "Some evaluations are late: the service is behind, or the analytics provider does not answer."
    elif shown:
        following = "Act on the triggered ones."
    else:
        following = "Try a threshold with POST …/alerts/preview, then create an alert."
    return AlertList(project_id=project_id, alerts=shown, count=len(shown), late_seconds=late, next_action=following)


def evaluated(found: EvaluatedAlert) -> AlertEvaluated:
    """The verdict of the latest look."""
    row, look = found
    assert look.evaluated_at is not None, "somebody has looked"
    status = Status(row.status)
    return AlertEvaluated(
        id=row.id,
        status=row.status,  # type: ignore[arg-type] # a row has no other status than these
        triggered=status is Status.TRIGGERED,
        observed_value=_number(look.value),
        threshold_column=row.threshold_column,
        threshold_op=row.threshold_op,  # type: ignore[arg-type] # nor another word
        threshold_value=read_number(row.threshold_value),
        evaluated_at=look.evaluated_at,
        next_action=_NEXT[status],
    )


def deleted(ended: EndedAlert) -> AlertDeleted:
    """A deleted alert."""
    return AlertDeleted(
        id=ended.id, status="deleted", deleted_at=ended.deleted_at, next_action="Nothing to do. It is not evaluated."
    )


def preview(project_id: str, wish: AlertWish, days: int, past: PastLooks) -> AlertPreview:
    """A look back."""
    looks = [
        PastLook(
            at=look.at,
            triggered=look.verdict.crossed,
            observed_value=look.verdict.observed,
            complete=look.complete,
        )
        for look in past.looks
    ]
    triggered = sum(look.triggered for look in looks)
    if past.left_out:
        following = "There was no time for the oldest looks. Use fewer days, or create the alert."
    elif triggered:
        following = "Create the alert if it would have triggered when you wanted it to."
    else:
        following = "It would not have triggered. Compare the observed values with the threshold."
    threshold = wish.threshold
    return AlertPreview(
        project_id=project_id,
        blueprint_id=wish.blueprint_id,
        params=msgspec.json.decode(wish.params),
        threshold_column=threshold.column,
        threshold_op=threshold.op.value,
        threshold_value=threshold.value,
        row_match=threshold.row_match.value,
        days=days,
        every_seconds=past.every_seconds,
        looks=looks,
        count=len(looks),
        triggered_count=triggered,
        looks_left_out=past.left_out,
        next_action=following,
    )


def _members(row: AlertRow, look: AlertLookRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "project_id": row.project_id,
        "name": row.name,
        "blueprint_id": row.blueprint_id,
        "params": msgspec.json.decode(row.params),
        "threshold_column": row.threshold_column,
        "threshold_op": row.threshold_op,
        "threshold_value": read_number(row.threshold_value),
        "row_match": row.row_match,
        "status": row.status,
        "last_value": _number(look.value),
        "last_evaluated_at": look.evaluated_at,
        "created_at": row.created_at,
    }


def _due_at(found: StandingAlert) -> int:
    assert found.look.due_at is not None, "an alert that stands is looked at again"
    return found.look.due_at


def _late_seconds(found: StandingAlert) -> int:
    return max(0, found.now - _due_at(found))


def _number(text: str | None) -> Number | None:
    return None if text is None else read_number(text)
