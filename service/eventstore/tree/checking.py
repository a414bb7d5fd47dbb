"""Checking the tree against the log: tiles have the hashes of the events, and checkpoints the roots."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import psycopg

from service.eventstore.history.audit import Problem
from service.tlog.hashing import Frontier, hash_leaf, root_of
from service.tlog.tiles import WIDTH

_CHECKPOINTS = "select size, origin, root from log_checkpoints order by size, origin"
_TILES = "select level, tile, hashes, root from log_tiles where level = %s order by tile"
_LEVELS = "select coalesce(max(level), 0) from log_tiles"
# Positions without events are a finding of the log itself.
_LEAVES = "select i.position, e.leaf from log_index i join events e on e.seq = i.seq order by i.position"
_PAGE = 5_000


def check_tree(connection: psycopg.Connection[Any]) -> Iterator[Problem]:
    """Recompute the tree from the events, and yield each difference, by position. Reads only."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        yield from _check_leaves(connection)
        [[levels]] = connection.execute(_LEVELS.encode()).fetchall()
        for level in range(1, levels + 1):
            yield from _check_level(connection, level)


def _check_leaves(connection: psycopg.Connection[Any]) -> Iterator[Problem]:
    """Compare the tiles of level 0, and every checkpoint, with the leaves of the log."""
    signed = connection.execute(_CHECKPOINTS.encode()).fetchall()
    tiles = {
        tile: (bytes(hashes), bytes(root))
        for _, tile, hashes, root in connection.execute(_TILES.encode(), (0,)).fetchall()
    }
    frontier, row, at = Frontier(), list[bytes](), 0
    at = yield from _check_signed(signed, at, frontier)
    with connection.cursor(name="leaves") as cursor:
        cursor.itersize = _PAGE
        cursor.execute(_LEAVES.encode())
        for _, leaf in cursor:
            row.append(hash_leaf(leaf))
            frontier.append(row[-1])
            if len(row) == WIDTH:
                found = tiles.pop(frontier.size // WIDTH - 1, None)
                if found is not None and found != (b"".join(row), root_of(row)):
                    yield Problem("tile_differs", "", "", frontier.size - WIDTH + 1, "level 0")
                row = []
            at = yield from _check_signed(signed, at, frontier)
    for size, origin, _ in signed[at:]:
        yield Problem("log_shorter_than_signed", "", "", size, origin)
    for tile in sorted(tiles):
        yield Problem("tile_without_events", "", "", tile * WIDTH + 1, "level 0")


def _check_signed(signed: list[tuple[int, str, bytes]], at: int, frontier: Frontier) -> Generator[Problem, None, int]:
    """Compare the checkpoints of the present size. Returns the place of the next one."""
    while at < len(signed) and signed[at][0] == frontier.size:
        size, origin, root = signed[at]
        if bytes(root) != frontier.root():
            yield Problem("checkpoint_differs", "", "", size, origin)
        at += 1
    return at


def _check_level(connection: psycopg.Connection[Any], level: int) -> Iterator[Problem]:
    """Compare the tiles of a level with the roots below them."""
    below = [bytes(root) for *_, root in connection.execute(_TILES.encode(), (level - 1,)).fetchall()]
    for _, tile, hashes, root in connection.execute(_TILES.encode(), (level,)).fetchall():
        row = below[tile * WIDTH : (tile + 1) * WIDTH]
        if len(row) != WIDTH or (bytes(hashes), bytes(root)) != (b"".join(row), root_of(row)):
            yield Problem("tile_differs", "", "", (tile << 8 * (level + 1)) + 1, f"level {level}")
