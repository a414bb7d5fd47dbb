"""Reads of erasures: by request, by stream, and all open ones."""

from __future__ import annotations

from typing import NamedTuple

from projections.deletion.erasure import ERASURES, NAMINGS, ErasureRow
from service.eventstore.store import EventStore

_ACTIVE = (
    "t.phase <> 'deleted' and exists (select from projects p where p.project_id = t.project_id "
    "and p.id = t.project_id and p.status = 'active')"
)


class ErasureRound(NamedTuple):
    """One round of an erasure, with times in epoch seconds. `records` is the number of removed ones, at its end."""

    project_id: str
    deletion_id: str
    person_hash: str
    phase: str
    names: int
    fenced_at: int
    records: int | None
    deleted_at: int | None


async def person_of(store: EventStore, project_id: str, name: str) -> str:
    """The main name of the person with a name."""
    row = await store.get(NAMINGS, project_id, name)
    return name if row is None else row.person


async def get_erasure(store: EventStore, project_id: str, stream_id: str) -> ErasureRow | None:
    """Read the erasures of a name by the id of their stream."""
    return await store.get(ERASURES, project_id, stream_id)


async def find_request(store: EventStore, project_id: str, command_key_sha256: str) -> ErasureRow | None:
    """Find the erasures of a name, one of them by a request."""
    where = "t.project_id = %s and (t.command_key_sha256 = %s or t.receipts @> %s::jsonb)"
    known = f'[{{"command_key_sha256": "{command_key_sha256}"}}]'
    rows = await store.find(ERASURES, where, project_id, command_key_sha256, known, limit=1)
    return rows[0] if rows else None


async def open_erasures(store: EventStore, most: int) -> list[ErasureRow]:
    """Read the open erasures of active projects, the oldest first."""
    return await store.find(ERASURES, _ACTIVE, order_by="t.fenced_at, t.id", limit=most)


def round_of(row: ErasureRow, command_key_sha256: str) -> ErasureRound:
    """The round of a request: the last one of the row, or the receipt of an earlier one."""
    if row.command_key_sha256 != command_key_sha256:
        for one in row.receipts:
            if one.command_key_sha256 == command_key_sha256:
                return ErasureRound(
                    row.project_id, one.deletion_id, row.person_hash, "deleted", one.names, one.fenced_at, one.records,
                    one.deleted_at,
                )  # fmt: skip
    return ErasureRound(
        row.project_id, row.deletion_id, row.person_hash, row.phase, row.names, row.fenced_at, row.records,
        row.deleted_at,
    )  # fmt: skip
