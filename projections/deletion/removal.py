"""Deletions: what their answers show, outside of everything that they erase. One whose receipt lapsed has no row."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from projections.kernel.projection import Row, Table, projection
from statemachines.deletion.removal import (
    Cascaded,
    DeletionCompleted,
    DeletionFenced,
    DeletionReceiptLapsed,
    ExternalFollowUp,
    Manifest,
    ManifestCounts,
    ManifestSample,
    PurgingBegan,
)
from statemachines.kernel.machine import Recorded


class DeletionRow(Row, frozen=True, kw_only=True):
    """A deletion. `phase` is fenced, purging or deleted; times are epoch seconds."""

    kind: str
    scope_id: str
    account_id: str
    parent_id: str | None
    command_key_sha256: str
    api_key_sha256: str
    phase: str
    fenced_at: int
    deleted_at: int | None = None
    manifest: Manifest
    cascaded: Cascaded
    external_follow_ups: list[ExternalFollowUp] = msgspec.field(default_factory=list)


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """What a project or an account consists of; `cascaded` counts what goes with it."""

    counts: ManifestCounts
    samples: list[ManifestSample]
    cascaded: Cascaded


class InventoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """The inventory of a project or a person by the stream's name, counted when it is read: a view, no table."""

    project_id: str
    id: str
    inventory: Inventory


def fold(row: DeletionRow | None, recorded: Recorded) -> DeletionRow | None:
    """Fold an event of a deletion into its row."""
    match recorded.event:
        case DeletionFenced() as event:
            return DeletionRow(
                project_id=recorded.project_id,
                id=recorded.originator_id,
                revision=recorded.revision,
                kind=event.kind,
                scope_id=event.scope_id,
                account_id=event.account_id,
                parent_id=event.parent_id,
                command_key_sha256=event.command_key_sha256,
                api_key_sha256=event.api_key_sha256,
                phase="fenced",
                fenced_at=event.fenced_at,
                manifest=event.manifest,
                cascaded=event.cascaded,
            )
        case PurgingBegan() as event if row:
            return replace(
                row,
                revision=recorded.revision,
                phase="purging",
                manifest=event.manifest,
                cascaded=event.cascaded,
                external_follow_ups=event.external_follow_ups,
            )
        case DeletionCompleted(deleted_at) if row:
            return replace(row, revision=recorded.revision, phase="deleted", deleted_at=deleted_at)
        case DeletionReceiptLapsed():
            return None
    return row


PROJECTION = projection("deletions", DeletionRow, ("del",), fold)
DELETIONS = PROJECTION.table
INVENTORY = Table("inventories", InventoryRow, ("project_id", "id"))
