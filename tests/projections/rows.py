"""What every read model is held to: a row shows its stream, and a fold refuses no history."""

from __future__ import annotations

from typing import Any

import msgspec

from projections.kernel import AnyProjection
from statemachines.kernel.machine import Event, Recorded


def fold(projection: AnyProjection, events: list[Event]) -> Any:
    """Fold a stream into its row, which names the stream at each of its revisions."""
    row = None
    for revision, event in enumerate(events, 1):
        row = projection.fold(row, Recorded("id_1", revision, event, "scope_1", 1_000, "key:key_1"))
        if row is not None:
            assert (row.project_id, row.id, row.revision) == ("scope_1", "id_1", revision)
    return row


def shown(row: Any) -> dict[str, Any]:
    """What a row says beside the name of its stream."""
    return {name: value for name, value in msgspec.to_builtins(row).items() if name not in {"project_id", "id"}}


def check_row(projection: AnyProjection, events: list[Event], expected: dict[str, Any]) -> None:
    """A row shows its stream."""
    assert shown(fold(projection, events)) == expected


def check_middle(projection: AnyProjection, events: list[Event]) -> None:
    """A fold refuses no history that begins in the middle: a stream whose first payloads were erased still folds."""
    for event in events[1:]:
        assert projection.fold(None, Recorded("id_1", 2, event, "scope_1", 1_000, "key:key_1")) is None


def check_ended(projection: AnyProjection, events: list[Event]) -> None:
    """What has ended has no row, and may begin again."""
    assert fold(projection, events) is None
    again = fold(projection, [*events, events[0]])
    assert shown(again) == {**shown(fold(projection, events[:1])), "revision": len(events) + 1}
