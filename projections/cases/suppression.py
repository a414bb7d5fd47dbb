"""The suppression rules of a project: one row per project (G-053)."""

from __future__ import annotations

import msgspec

from projections.kernel.projection import Row, projection
from statemachines.cases.suppression import SuppressionCreated, SuppressionRemoved
from statemachines.kernel.machine import Recorded


class SuppressionRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule as members see it; `created_at` in epoch seconds."""

    id: str
    fingerprint_pattern: str
    action: str
    reason: str | None
    hint_text: str | None
    created_at: int


class SuppressionsRow(Row, frozen=True, kw_only=True):
    """All rules of a project, oldest first."""

    rules: list[SuppressionRule]


def fold(row: SuppressionsRow | None, recorded: Recorded) -> SuppressionsRow | None:
    """Fold an event of the rules into their row."""
    match recorded.event:
        case SuppressionCreated() as event:
            rule = SuppressionRule(
                id=event.id,
                fingerprint_pattern=event.fingerprint_pattern,
                action=event.action,
                reason=event.reason,
                hint_text=event.hint_text,
                created_at=event.created_at,
            )
            return SuppressionsRow(
                project_id=recorded.project_id,
                id=recorded.originator_id,
                revision=recorded.revision,
                rules=[*(row.rules if row else ()), rule],
            )
        case SuppressionRemoved() as event if row:
            left = [rule for rule in row.rules if rule.id != event.id]
            return SuppressionsRow(project_id=row.project_id, id=row.id, revision=recorded.revision, rules=left)
    return row


PROJECTION = projection("suppressions", SuppressionsRow, ("sups",), fold)
