"""Deletions of projects, and erasures of people, as rows."""

import msgspec
from msgspec.structs import replace

from projections.kernel import Row, Table, header, projection
from statemachines.deletion import removal
from statemachines.deletion.erasure import MOST_RECEIPTS, ErasureBegan, ErasureCompleted, ErasureFenced
from statemachines.kernel.machine import Recorded

# Deletions: what their answers show, outside of everything that they erase. One whose receipt lapsed has no row.


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
    manifest: removal.Manifest
    cascaded: removal.Cascaded
    external_follow_ups: list[removal.ExternalFollowUp] = msgspec.field(default_factory=list)


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """What a project or an account consists of; `cascaded` counts what goes with it."""

    counts: removal.ManifestCounts
    samples: list[removal.ManifestSample]
    cascaded: removal.Cascaded


class InventoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """The inventory of a project or a person by the stream's name, counted when it is read: a view, no table."""

    project_id: str
    id: str
    inventory: Inventory


def fold_deletion(row: DeletionRow | None, recorded: Recorded) -> DeletionRow | None:
    """Fold an event of a deletion into its row."""
    match recorded.event:
        case removal.DeletionFenced() as event:
            return DeletionRow(
                **header(recorded),
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
        case removal.PurgingBegan() as event if row:
            return replace(
                row,
                revision=recorded.revision,
                phase="purging",
                manifest=event.manifest,
                cascaded=event.cascaded,
                external_follow_ups=event.external_follow_ups,
            )
        case removal.DeletionCompleted(deleted_at) if row:
            return replace(row, revision=recorded.revision, phase="deleted", deleted_at=deleted_at)
        case removal.DeletionReceiptLapsed():
            return None
    return row


DELETIONS = projection("deletions", DeletionRow, ("del",), fold_deletion)
INVENTORY = Table("inventories", InventoryRow)


# Erasures of people: the last round of each name with the receipts of those before it, and the names that go.


class ErasureReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """A round that has ended, by the request that began it. Times are epoch seconds."""

    deletion_id: str
    command_key_sha256: str
    names: int
    records: int
    fenced_at: int
    deleted_at: int


class ErasureRow(Row, frozen=True, kw_only=True):
    """An erasure. `phase` is fenced, purging or deleted, `records` is null until the end; times are epoch seconds."""

    deletion_id: str
    person_hash: str
    command_key_sha256: str
    phase: str
    names: int
    fenced_at: int
    records: int | None = None
    deleted_at: int | None = None
    receipts: list[ErasureReceipt] = msgspec.field(default_factory=list)


class ErasureNamesRow(msgspec.Struct, frozen=True, kw_only=True):
    """The names of a person to erase, by the stream of the erasure; none once it has ended. A fact, put with the fence.

    `until` is the last second whose records go. `links_cut`: the names are somebody new's from now on. `records` counts
    what was removed so far.
    """

    project_id: str
    id: str
    names: list[str]
    until: int
    links_cut: bool
    records: int


class PersonNamingRow(msgspec.Struct, frozen=True, kw_only=True):
    """Who is meant by a name that was joined with others: the name of the person, and all of them. A view, no table."""

    project_id: str
    id: str
    person: str
    names: list[str]


def fold_erasure(row: ErasureRow | None, recorded: Recorded) -> ErasureRow | None:
    """Fold an event of an erasure into its row."""
    match recorded.event:
        case ErasureFenced() as event:
            return ErasureRow(
                **header(recorded),
                deletion_id=event.deletion_id,
                person_hash=event.person_hash,
                command_key_sha256=event.command_key_sha256,
                phase="fenced",
                names=event.names,
                fenced_at=event.fenced_at,
                receipts=[] if row is None else row.receipts,
            )
        case ErasureBegan() if row:
            return replace(row, revision=recorded.revision, phase="purging")
        case ErasureCompleted(records, deleted_at) if row:
            receipt = ErasureReceipt(
                deletion_id=row.deletion_id,
                command_key_sha256=row.command_key_sha256,
                names=row.names,
                records=records,
                fenced_at=row.fenced_at,
                deleted_at=deleted_at,
            )
            return replace(
                row,
                revision=recorded.revision,
                phase="deleted",
                records=records,
                deleted_at=deleted_at,
                receipts=[*row.receipts, receipt][-MOST_RECEIPTS:],
            )
    return row


ERASURES = projection("erasures", ErasureRow, ("era",), fold_erasure)
ERASURE_NAMES = Table("erasure_names", ErasureNamesRow)
NAMINGS = Table("person_namings", PersonNamingRow)
