"""Destinations of notifications as rows. A deleted one has no row. Its address lies beside those of webhooks."""

from typing import Any

import msgspec
from msgspec.structs import replace

from projections.kernel import Row, Table, header, projection
from statemachines import notifications
from statemachines.kernel.machine import Event, Recorded


class RuleEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The rule of a member for a destination, made at `set_at` (epoch seconds)."""

    member_id: str
    events: list[str]
    quiet_hours: notifications.QuietHours | None
    set_at: int


class DestinationRow(Row, frozen=True, kw_only=True):
    """A destination of notifications. `status` is active or stopped, with its reason. Times are in epoch seconds.

    `member_id` is of whom mail goes to.
    """

    kind: str
    origin: str
    rules: list[RuleEntry]
    status: str
    stop_reason: str | None = None
    stopped_at: int | None = None
    created_at: int
    member_id: str | None = None


class NotificationCountRow(msgspec.Struct, frozen=True, kw_only=True):
    """How many destinations and rules a project has, as they are when it is read: a view, no table."""

    project_id: str
    id: str
    destinations: int
    rules: int


def fold_destination(row: DestinationRow | None, recorded: Recorded) -> DestinationRow | None:
    """Fold an event of a destination into its row."""
    match recorded.event:
        case notifications.DestinationAdded(kind, origin, _, added_at, member_id):
            return DestinationRow(
                **header(recorded),
                kind=kind,
                origin=origin,
                rules=[],
                status="active",
                created_at=added_at,
                member_id=None if member_id is msgspec.UNSET else member_id,
            )
        case notifications.DestinationDeleted():
            return None
        case _ if row is not None:
            return replace(row, revision=recorded.revision, **_changes(row, recorded.event))
    return row


def _changes(row: DestinationRow, event: Event) -> dict[str, Any]:
    """The columns that an event changes."""
    match event:
        case notifications.RuleSet(member, events, quiet_hours, _, set_at):
            rule = RuleEntry(member_id=member, events=events, quiet_hours=quiet_hours, set_at=set_at)
            return {"rules": [*_rules_but(row, member), rule]}
        case notifications.RuleRemoved(member):
            return {"rules": _rules_but(row, member)}
        case notifications.DestinationStopped(reason, stopped_at):
            return {"status": "stopped", "stop_reason": reason, "stopped_at": stopped_at}
        case notifications.DestinationReopened():
            return {"status": "active", "stop_reason": None, "stopped_at": None}
        case _:
            return {}


def _rules_but(row: DestinationRow, member_id: str) -> list[RuleEntry]:
    return [rule for rule in row.rules if rule.member_id != member_id]


DESTINATIONS = projection("notification_destinations", DestinationRow, ("dest",), fold_destination)
NOTIFICATION_COUNTS = Table("notification_counts", NotificationCountRow)
