"""Tiles of C2SP tlog-tiles: 256 hashes of one level of the tree, their addresses, and the hashes of subtrees.

A level of tiles is eight levels of the tree. A hash in a tile of level 1 is the root of a full tile of level 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from service.tlog.hashing import EMPTY, HASH_BYTES, Span, fold, hash_node

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
