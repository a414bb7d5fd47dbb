"""The tree from the API: checkpoints, tiles and proofs, read and shown.

What lies below a signed size never changes, so it is read once and then served from memory (G-204). A tile of the right
edge grows: the widest that was read is kept, and a narrower one is its beginning.
"""

import base64
from collections.abc import Iterable
from typing import NamedTuple

from schemas.audit import ConsistencyProof, InclusionProof
from service.auth.refusals import refusal
from service.eventstore.store import EventStore
from service.fairness.bounds import SHARE, Weighted
from service.fairness.turns import Looks
from service.tlog import tree
from service.tlog.hashing import HASH_BYTES, Tile
from service.tlog.tree import KeptCheckpoint, NotInTree

# Reads of the tree from the API: checkpoints, tiles and proofs.

KEPT_TILES_BYTES = 8 << 20  # of tiles: about a thousand full ones, the leaves of a quarter of a million events
KEPT_PROOFS_BYTES = 2 << 20
ENTRY_BYTES = 200  # that one kept thing costs beside its hashes, about

_NEWEST = "newest"


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


class SignedTree:
    """The signed tree as one process shows it. Callers of a moment share the look at the newest checkpoint."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._looks = Looks(self._look)
        self._signed = 0  # the largest size that this process has seen signed
        self._tiles: Weighted[tuple[int, int], bytes] = Weighted(
            lambda hashes: len(hashes) + ENTRY_BYTES, max_bytes=SHARE.of(KEPT_TILES_BYTES)
        )
        self._proofs: Weighted[tuple[str, int, int], list[bytes]] = Weighted(
            lambda hashes: sum(map(len, hashes)) + len(hashes) * HASH_BYTES + ENTRY_BYTES,
            max_bytes=SHARE.of(KEPT_PROOFS_BYTES),
        )

    @property
    def kept_bytes(self) -> int:
        """Memory of what is kept, in bytes."""
        return self._tiles.bytes + self._proofs.bytes

    async def signed(self) -> KeptCheckpoint:
        """Read the newest checkpoint. Raises the refusal `checkpoint_not_found`."""
        found = await self._looks.look(_NEWEST)
        if found is None:
            raise refusal("checkpoint_not_found")
        return found

    async def signed_size(self, wanted: int | None) -> int:
        """The requested size, or the newest one. Raises the refusals `checkpoint_not_found`, `log_size_not_found`."""
        if wanted is not None and 0 <= wanted <= self._signed:
            return wanted
        newest = (await self.signed()).size
        if wanted is not None and wanted > newest:
            raise refusal("log_size_not_found")
        return newest if wanted is None else wanted

    async def tile(self, wanted: Tile) -> bytes | None:
        """Read the hashes of a tile of the signed tree. None for any other."""
        if wanted.reaches > self._signed:
            found = await self._looks.look(_NEWEST)
            if found is None or wanted.reaches > found.size:
                return None
        [(_, _, hashes)] = await self._read([wanted])
        return hashes if len(hashes) == wanted.width * HASH_BYTES else None

    async def inclusion(self, position: int, size: int) -> ProvenLeaf:
        """Prove a position in the tree of a signed size. Raises NotInTree."""
        leaf, *proof, root = await self._hashes("inclusion", position, size)
        return ProvenLeaf(leaf, proof, root)

    async def consistency(self, old: int, new: int) -> ProvenGrowth:
        """Prove growth from one signed size to another. Raises NotInTree."""
        old_root, new_root, *proof = await self._hashes("consistency", old, new)
        return ProvenGrowth(old_root, new_root, proof)

    async def _look(self, _: str) -> KeptCheckpoint | None:
        for row in await self._store.fetch(tree.LATEST):
            found = tree.as_kept(row)
            self._signed = max(self._signed, found.size)
            return found
        return None

    async def _hashes(self, kind: str, first: int, size: int) -> list[bytes]:
        kept = self._proofs.get((kind, first, size))
        if kept is None:
            wanted = _WANTED[kind](first, size)
            kept = wanted.hashes(await self._read(wanted.tiles))
            self._proofs.put((kind, first, size), kept)
        return kept

    async def _read(self, tiles: Iterable[Tile]) -> list[tuple[int, int, bytes]]:
        """Give level, number and hashes of each tile; fewer hashes than it is wide where it is not built yet."""
        found: list[tuple[int, int, bytes]] = []
        missing: dict[tuple[int, int], Tile] = {}
        for tile in tiles:
            held = self._tiles.get((tile.level, tile.number))
            if held is not None and len(held) >= tile.width * HASH_BYTES:
                found.append((tile.level, tile.number, held[: tile.width * HASH_BYTES]))
            else:
                missing[tile.level, tile.number] = tile
        if missing:
            for level, number, joined in await self._store.fetch(tree.TILES, **tree.tile_values(missing.values())):
                hashes = bytes(joined or b"")
                found.append((level, number, hashes))
                if len(hashes) == missing[level, number].width * HASH_BYTES:
                    self._keep((level, number), hashes)
        return found

    def _keep(self, place: tuple[int, int], hashes: bytes) -> None:
        """Keep a tile, unless a wider one came meanwhile."""
        if len(self._tiles.peek(place) or b"") < len(hashes):
            self._tiles.put(place, hashes)


_WANTED = {"inclusion": tree.want_inclusion, "consistency": tree.want_consistency}

__all__ = ["NotInTree", "ProvenGrowth", "ProvenLeaf", "SignedTree"]


# Answers of the audit area.


def inclusion(position: int, size: int, proven: ProvenLeaf) -> InclusionProof:
    """Show a proof of inclusion."""
    return InclusionProof(
        position=position,
        leaf_index=position - 1,
        size=size,
        leaf_hash=_text(proven.leaf),
        hashes=[_text(one) for one in proven.proof],
        root=_text(proven.root),
    )


def consistency(old: int, new: int, proven: ProvenGrowth) -> ConsistencyProof:
    """Show a proof of growth."""
    return ConsistencyProof(
        old=old,
        new=new,
        from_root=_text(proven.old_root),
        to_root=_text(proven.new_root),
        hashes=[_text(one) for one in proven.proof],
    )


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()
