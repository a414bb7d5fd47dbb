"""Proving several events by one checkpoint, in a snapshot of the caller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from service.eventstore.read.reader import AsyncConnection
from service.eventstore.tree import reading
from service.eventstore.tree.reading import KeptCheckpoint, NotInTree


class ProvenPositions(NamedTuple):
    """A checkpoint, and for each position below it the hashes from the event's sibling up to the root's child."""

    checkpoint: KeptCheckpoint
    hashes: Mapping[int, list[bytes]]


async def prove(
    connection: AsyncConnection, positions: Iterable[int], checkpoint: KeptCheckpoint | None = None
) -> ProvenPositions | None:
    """Prove positions by a checkpoint, by default the smallest kept one above all of them, else the newest.

    Leaves positions above the checkpoint out. None without a checkpoint.
    """
    asked = sorted(positions)
    chosen = checkpoint or await _choose(connection, asked[-1] if asked else 1)
    if chosen is None:
        return None
    wanted = {position: reading.want_inclusion(position, chosen.size) for position in asked if position <= chosen.size}
    tiles = sorted({tile for one in wanted.values() for tile in one.tiles})
    rows = await _fetch(connection, reading.TILES, reading.tile_values(tiles)) if tiles else []
    try:
        return ProvenPositions(chosen, {position: one.hashes(rows)[1:-1] for position, one in wanted.items()})
    except NotInTree:
        return None


async def newest(connection: AsyncConnection) -> KeptCheckpoint | None:
    """Read the newest checkpoint of the present origin."""
    for row in await _fetch(connection, reading.LATEST, {}):
        return reading.as_kept(row)
    return None


async def _choose(connection: AsyncConnection, size: int) -> KeptCheckpoint | None:
    for row in await _fetch(connection, reading.FOR_SIZE, {"size": size}):
        return reading.as_kept(row)
    return await newest(connection)


async def _fetch(connection: AsyncConnection, query: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return await (await connection.execute(query.encode(), values)).fetchall()
