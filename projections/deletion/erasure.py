"""Erasures of people: the last round of each name with the receipts of those before it, and the names that go."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from projections.kernel.projection import Row, Table, projection
from statemachines.deletion.erasure import MOST_RECEIPTS, ErasureBegan, ErasureCompleted, ErasureFenced
from statemachines.kernel.machine import Recorded


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


def fold(row: ErasureRow | None, recorded: Recorded) -> ErasureRow | None:
    """Fold an event of an erasure into its row."""
    match recorded.event:
        case ErasureFenced() as event:
            return ErasureRow(
                project_id=recorded.project_id,
                id=recorded.originator_id,
                revision=recorded.revision,
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


PROJECTION = projection("erasures", ErasureRow, ("era",), fold)
ERASURES = PROJECTION.table
ERASURE_NAMES = Table("erasure_names", ErasureNamesRow, ("project_id", "id"))
NAMINGS = Table("person_namings", PersonNamingRow, ("project_id", "id"))
