"""Merkle trees of RFC 6962: hashes, the subtrees that a proof is made of, and checking a proof.

An entry of our log is the 32-byte leaf of an event. Its leaf hash in the tree is `hash_leaf(entry)`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

HASH_BYTES = 32
EMPTY = hashlib.sha256(b"").digest()
"""The root of a tree without leaves."""


class ProofRefused(Exception):
    """A proof does not prove its statement. The message says why."""


class Span(NamedTuple):
    """The leaves from `low` up to `high`, which is not among them."""

    low: int
    high: int


def hash_leaf(entry: bytes) -> bytes:
    """Hash an entry into its leaf."""
    return hashlib.sha256(b"\x00" + entry).digest()


def hash_node(left: bytes, right: bytes) -> bytes:
    """Hash two subtrees into the one above them."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Compute the root over leaf hashes."""
    frontier = Frontier()
    frontier.extend(leaves)
    return frontier.root()


class Frontier:
    """The roots of the largest whole subtrees of a growing tree, from the left."""

    def __init__(self) -> None:
        self.size = 0
        self._peaks: list[bytes] = []

    def append(self, leaf: bytes) -> None:
        """Add a leaf hash."""
        self.size += 1
        self._peaks.append(leaf)
        whole = self.size
        while whole % 2 == 0:
            right = self._peaks.pop()
            self._peaks[-1] = hash_node(self._peaks[-1], right)
            whole //= 2

    def extend(self, leaves: Iterable[bytes]) -> None:
        """Add leaf hashes in their order."""
        for leaf in leaves:
            self.append(leaf)

    def root(self) -> bytes:
        """Compute the root of the tree so far."""
        return fold(self._peaks) if self._peaks else EMPTY


def fold(peaks: Sequence[bytes]) -> bytes:
    """Join whole subtrees, the largest first, into the root above them."""
    *others, root = peaks
    for peak in reversed(others):
        root = hash_node(peak, root)
    return root


def inclusion_spans(index: int, size: int) -> list[Span]:
    """List the subtrees of an inclusion proof, from the leaf's sibling to the child of the root."""
    assert 0 <= index < size
    low, high, found = 0, size, []
    while high - low > 1:
        middle = low + _largest_power_below(high - low)
        if index < middle:
            found.append(Span(middle, high))
            high = middle
        else:
            found.append(Span(low, middle))
            low = middle
    return found[::-1]


def spans_beside(indexes: Sequence[int], size: int) -> Iterator[Span]:
    """List the largest subtrees without any of these leaves, from the left; `indexes` ascend.

    With their hashes and those of the leaves, the root can be computed: one proof of all the leaves together.
    """
    spans = [Span(0, size)] if size else []
    while spans:
        low, high = span = spans.pop()
        first = bisect_left(indexes, low)
        if first == len(indexes) or indexes[first] >= high:
            yield span
        elif high - low > 1:
            middle = low + _largest_power_below(high - low)
            spans += [Span(middle, high), Span(low, middle)]


def consistency_spans(old: int, new: int) -> list[Span]:
    """List the subtrees of a consistency proof in the order of RFC 6962. None between equal sizes, or from 0."""
    assert 0 <= old <= new
    if old in {0, new}:
        return []
    low, high, found = 0, new, []
    while high != old:
        middle = low + _largest_power_below(high - low)
        if old <= middle:
            found.append(Span(middle, high))
            high = middle
        else:
            found.append(Span(low, middle))
            low = middle
    if low:
        found.append(Span(low, high))
    return found[::-1]


def check_inclusion(index: int, size: int, leaf: bytes, proof: Sequence[bytes], root: bytes) -> None:
    """Check by RFC 9162, section 2.1.3.2, that a leaf hash is in a tree. Raises ProofRefused."""
    if not 0 <= index < size:
        raise ProofRefused("The index is beyond the tree.")
    _check_hashes((leaf, root, *proof))
    first, last, found = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            raise ProofRefused("The proof is too long.")
        if first & 1 or first == last:
            found = hash_node(sibling, found)
            first, last = _climb(first, last)
        else:
            found = hash_node(found, sibling)
        first, last = first >> 1, last >> 1
    if last:
        raise ProofRefused("The proof is too short.")
    if not hmac.compare_digest(found, root):
        raise ProofRefused("The proof leads to another root.")


def check_consistency(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> None:
    """Check by RFC 9162, section 2.1.4.2, that a tree is the beginning of another one. Raises ProofRefused.

    An empty tree, by its one root, is the beginning of every tree.
    """
    if not 0 <= old <= new:
        raise ProofRefused("The old tree is larger than the new one.")
    if old == 0 and old_root != EMPTY:
        raise ProofRefused("The empty tree has another root.")
    if old in {0, new} and proof:
        raise ProofRefused("The proof must be empty.")
    if old == new:
        if not hmac.compare_digest(old_root, new_root):
            raise ProofRefused("Two trees of one size have different roots.")
        return
    _check_hashes((old_root, new_root, *proof))
    if old == 0:
        return
    path = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    if not proof or not path:
        raise ProofRefused("The proof is too short.")
    first, last = old - 1, new - 1
    while first & 1:
        first, last = first >> 1, last >> 1
    found_old = found_new = path[0]
    for sibling in path[1:]:
        if last == 0:
            raise ProofRefused("The proof is too long.")
        if first & 1 or first == last:
            found_old, found_new = hash_node(sibling, found_old), hash_node(sibling, found_new)
            first, last = _climb(first, last)
        else:
            found_new = hash_node(found_new, sibling)
        first, last = first >> 1, last >> 1
    if last:
        raise ProofRefused("The proof is too short.")
    if not hmac.compare_digest(found_old, old_root):
        raise ProofRefused("The proof leads to another old root.")
    if not hmac.compare_digest(found_new, new_root):
        raise ProofRefused("The proof leads to another new root.")


def _climb(first: int, last: int) -> tuple[int, int]:
    """Pass over the levels in which the last subtree has no sibling."""
    while not first & 1 and first:
        first, last = first >> 1, last >> 1
    return first, last


def _check_hashes(hashes: Iterable[bytes]) -> None:
    if any(len(found) != HASH_BYTES for found in hashes):
        raise ProofRefused("A hash does not have 32 bytes.")


def _largest_power_below(size: int) -> int:
    return 1 << (size - 1).bit_length() - 1


# Tiles of C2SP tlog-tiles: 256 hashes of one level of the tree, their addresses, and the hashes of subtrees. A level
# of tiles is eight levels of the tree. A hash in a tile of level 1 is the root of a full tile of level 0.

HEIGHT = 8
WIDTH = 1 << HEIGHT
LEVELS = 8  # 256**8 leaves are more than positions have numbers for

_PATH = re.compile(r"(?P<groups>(?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/(?P<width>[1-9][0-9]{0,2}))?")
_LEVEL = re.compile(r"0|[1-9][0-9]?")
_HIGHEST = 63

Hashes = Mapping[tuple[int, int], bytes]
"""The hashes of tiles, joined, by level and number."""


class Tile(NamedTuple):
    """A tile: its level, its number in there, and how many hashes of it exist."""

    level: int
    number: int
    width: int = WIDTH

    @property
    def reaches(self) -> int:
        """Leaves of the smallest tree that has it."""
        return (self.number * WIDTH + self.width) << (HEIGHT * self.level)


def tile_path(tile: Tile) -> str:
    """Write the address of a tile below `tile/`."""
    digits = f"{tile.number:03d}"
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    name = "/".join([*(f"x{group}" for group in groups[:-1]), groups[-1]])
    partial = "" if tile.width == WIDTH else f".p/{tile.width}"
    return f"{tile.level}/{name}{partial}"


def parse_tile_path(level: str, path: str) -> Tile | None:
    """Read the address of a tile. None for what is no address, a number written with more digits than it needs too."""
    found = _PATH.fullmatch(path)
    if found is None or not _LEVEL.fullmatch(level) or int(level) > _HIGHEST:
        return None
    width = int(found["width"] or WIDTH)
    if found["width"] and width >= WIDTH:
        return None
    tile = Tile(int(level), int(found["groups"].replace("x", "").replace("/", "")), width)
    return tile if tile_path(tile) == f"{level}/{path}" else None


def tile_at(level: int, number: int, size: int) -> Tile:
    """Return a tile as wide as it is in a tree of a size."""
    return Tile(level, number, min(WIDTH, (size >> (HEIGHT * level)) - number * WIDTH))


def tiles_of(spans: Iterable[Span], size: int) -> set[Tile]:
    """List the tiles from which the hashes of subtrees are computed in a tree of a size."""
    return {tile_at(*_place(height, index), size) for span in spans for height, index in _whole(span)}


def hash_span(span: Span, hashes: Hashes) -> bytes:
    """Compute the hash of a subtree from tiles. Raises KeyError for a tile that is absent or too narrow."""
    if span.low == span.high:
        return EMPTY
    return fold([_hash_whole(height, index, hashes) for height, index in _whole(span)])


def _whole(span: Span) -> Iterator[tuple[int, int]]:
    """Cut a subtree into its largest whole ones, from the left: the height of each, and its number on that height."""
    low, high = span
    while low < high:
        height = (high - low).bit_length() - 1
        assert low % (1 << height) == 0, "a subtree begins at a multiple of its size"
        yield height, low >> height
        low += 1 << height


def _place(height: int, index: int) -> tuple[int, int]:
    """Level and number of the tile which holds what a whole subtree is hashed from."""
    return height // HEIGHT, index >> (HEIGHT - height % HEIGHT)


def _hash_whole(height: int, index: int, hashes: Hashes) -> bytes:
    level, number = _place(height, index)
    inner = height % HEIGHT
    first = (index << inner) - number * WIDTH
    joined = hashes[level, number][first * HASH_BYTES : (first + (1 << inner)) * HASH_BYTES]
    if len(joined) != HASH_BYTES << inner:
        raise KeyError((level, number))
    row = split_hashes(joined)
    while len(row) > 1:
        row = [hash_node(row[at], row[at + 1]) for at in range(0, len(row), 2)]
    return row[0]


def split_hashes(joined: bytes) -> list[bytes]:
    """Cut joined hashes apart."""
    return [joined[at : at + HASH_BYTES] for at in range(0, len(joined), HASH_BYTES)]
