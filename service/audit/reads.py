"""Reads of the tree from the API: checkpoints, tiles and proofs. Each takes one or two queries."""

from __future__ import annotations

from typing import NamedTuple

from service.auth.refusals import refusal
from service.eventstore.store import EventStore
from service.eventstore.tree import reading
from service.eventstore.tree.reading import KeptCheckpoint, NotInTree, WantedHashes
from service.tlog.hashing import HASH_BYTES
from service.tlog.tiles import Tile


class ProvenLeaf(NamedTuple):
    """A leaf of a tree, its proof, and the root."""

    leaf: bytes
    proof: list[bytes]
    root: bytes


class ProvenGrowth(NamedTuple):
    """The roots of two trees, and the proof of growth from one to the other."""

    old_root: bytes
    new_root: bytes
    proof: list[bytes]


async def latest(store: EventStore) -> KeptCheckpoint | None:
    """Return the newest checkpoint. None before the first one."""
    for row in await store.fetch(reading.LATEST):
        return reading.as_kept(row)
    return None


async def signed(store: EventStore) -> KeptCheckpoint:
    """Return the newest checkpoint. Raises the refusal `checkpoint_not_found`."""
    found = await latest(store)
    if found is None:
        raise refusal("checkpoint_not_found")
    return found


async def checkpoint_for(store: EventStore, size: int) -> KeptCheckpoint | None:
    """Return the smallest checkpoint kept with as many leaves or more. None where the tree is not signed so far."""
    for row in await store.fetch(reading.FOR_SIZE, size=size):
        return reading.as_kept(row)
    return None


async def pin(store: EventStore, origin: str, size: int) -> bool:
    """Keep a checkpoint for ever. False when it is gone. Raises what NOT_WRITTEN names."""
    async with store.facts.connection() as connection:
        done = await connection.execute(reading.PIN.encode(), {"origin": origin, "size": size})
    return done.rowcount == 1


async def tile(store: EventStore, wanted: Tile) -> bytes | None:
    """Read the hashes of a tile of the signed tree. None for any other."""
    found = await latest(store)
    if found is None or wanted.reaches > found.size:
        return None
    for *_, hashes in await store.fetch(reading.TILES, **reading.tile_values([wanted])):
        if hashes is not None and len(hashes) == wanted.width * HASH_BYTES:
            return bytes(hashes)
    return None


async def inclusion(store: EventStore, position: int, size: int) -> ProvenLeaf:
    """Prove a position in the tree of a size. Raises NotInTree."""
    leaf, *proof, root = await _hashes(store, reading.want_inclusion(position, size))
    return ProvenLeaf(leaf, proof, root)


async def consistency(store: EventStore, old: int, new: int) -> ProvenGrowth:
    """Prove growth from one size to another. Raises NotInTree."""
    old_root, new_root, *proof = await _hashes(store, reading.want_consistency(old, new))
    return ProvenGrowth(old_root, new_root, proof)


async def _hashes(store: EventStore, wanted: WantedHashes) -> list[bytes]:
    rows = await store.fetch(reading.TILES, **wanted.values) if wanted.tiles else []
    return wanted.hashes(rows)


__all__ = ["NotInTree", "checkpoint_for", "consistency", "inclusion", "latest", "pin", "signed", "tile"]
