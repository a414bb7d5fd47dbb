"""The Merkle tree over positions: growing it, and reading tiles, roots, proofs and kept checkpoints.

Full tiles are rows. A partial tile is made of the roots of the full tiles below it, and at level 0 of the events: so
nothing in the tree is ever changed, and every older size of it can be read too.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from service.eventstore.connect.connection import Connection
from service.eventstore.read.reader import AsyncConnection
from service.history.audit import Problem
from service.sql import Query, load_query
from service.tlog.hashing import (
    HASH_BYTES,
    WIDTH,
    Frontier,
    Span,
    Tile,
    consistency_spans,
    hash_leaf,
    hash_span,
    inclusion_spans,
    root_of,
    tiles_of,
)
from service.tlog.notes import Checkpoint, MalformedNote, parse_checkpoint, parse_note

# Reading the tree: tiles, roots, proofs and kept checkpoints.

# A full tile that is not built yet has no row, and is as wide as what is below it: whoever asks sees that it is short.
TILES = load_query("tlog", "tiles")
LATEST = load_query("tlog", "latest")
FOR_SIZE = load_query("tlog", "for_size")
KEYS = load_query("tlog", "keys")
COSIGNED = load_query("tlog", "cosigned")
KEEP_COSIGNATURE = load_query("tlog", "keep_cosignature")
NEWEST = load_query("tlog", "newest")
PIN = load_query("tlog", "pin")


class NotInTree(Exception):
    """The tree has no such position or size, or not yet."""


class KeptCheckpoint(NamedTuple):
    """A kept checkpoint with the lines of its cosigners."""

    origin: str
    size: int
    root: bytes
    note: str
    cosignatures: str = ""

    @property
    def text(self) -> str:
        """The signed note with all signatures."""
        return self.note + self.cosignatures


class WantedHashes(NamedTuple):
    """Subtrees of a tree in the order of a proof, and the tiles to compute them from."""

    spans: Sequence[Span]
    tiles: Sequence[Tile]

    @property
    def values(self) -> Mapping[str, Any]:
        """The parameters of TILES."""
        return tile_values(self.tiles)

    def hashes(self, rows: Iterable[tuple[Any, ...]]) -> list[bytes]:
        """Compute the hashes of the subtrees from the rows of TILES. Raises NotInTree."""
        tiles = {(level, number): bytes(joined or b"") for level, number, joined in rows}
        try:
            return [hash_span(span, tiles) for span in self.spans]
        except KeyError as missing:
            raise NotInTree(f"The tile {missing} is not built.") from missing


def tile_values(tiles: Iterable[Tile]) -> Mapping[str, Any]:
    """Lay out the parameters of TILES."""
    levels, numbers, widths = ([list(column) for column in zip(*tiles, strict=True)]) or ([], [], [])
    return {"levels": levels, "tiles": numbers, "widths": widths}


def want(spans: Sequence[Span], size: int) -> WantedHashes:
    """Name the tiles for subtrees in a tree of a size."""
    return WantedHashes(spans, sorted(tiles_of(spans, size)))


def want_inclusion(position: int, size: int) -> WantedHashes:
    """Name the subtrees for a position in a tree of a size: its leaf, the proof, then the root. Raises NotInTree."""
    if not 0 < position <= size:
        raise NotInTree(f"There is no position {position} in a tree of size {size}.")
    proof = inclusion_spans(position - 1, size)
    return want([Span(position - 1, position), *proof, Span(0, size)], size)


def want_consistency(old: int, new: int) -> WantedHashes:
    """Name the subtrees for growth from one size to another: the two roots, then the proof. Raises NotInTree."""
    if not 0 <= old <= new:
        raise NotInTree(f"A tree of size {old} is not the beginning of one of size {new}.")
    return want([Span(0, old), Span(0, new), *consistency_spans(old, new)], new)


def latest_checkpoint(connection: Connection) -> KeptCheckpoint | None:
    """Return the newest checkpoint of the present origin. None before the first one."""
    return _kept(connection, LATEST)


def checkpoint_for(connection: Connection, size: int) -> KeptCheckpoint | None:
    """Return the smallest checkpoint kept with as many leaves or more. None where the tree is not signed so far."""
    return _kept(connection, FOR_SIZE, size=size)


def inclusion(connection: Connection, position: int, size: int) -> list[bytes]:
    """Prove a position in the tree of a size. Raises NotInTree."""
    return _read(connection, want_inclusion(position, size))[1:-1]


def consistency(connection: Connection, old: int, new: int) -> list[bytes]:
    """Prove growth from one size to another. Raises NotInTree."""
    return _read(connection, want_consistency(old, new))[2:]


def roots(connection: Connection, sizes: Sequence[int], size: int) -> list[bytes]:
    """Compute the roots of a tree at sizes up to its own. Raises NotInTree."""
    return _read(connection, want([Span(0, one) for one in sizes], size))


def pin(connection: Connection, origin: str, size: int) -> bool:
    """Keep a checkpoint for ever. False when it is gone."""
    return connection.execute(PIN, {"origin": origin, "size": size}).rowcount == 1


def _read(connection: Connection, wanted: WantedHashes) -> list[bytes]:
    if not wanted.tiles:
        return wanted.hashes(())
    return wanted.hashes(connection.execute(TILES, wanted.values).fetchall())


def _kept(connection: Connection, query: Query, **values: int) -> KeptCheckpoint | None:
    for row in connection.execute(query, values).fetchall():
        return as_kept(row)
    return None


def as_kept(row: tuple[Any, ...]) -> KeptCheckpoint:
    """Read a row of a checkpoint."""
    origin, size, root, note, cosignatures = row
    assert len(root) == HASH_BYTES
    return KeptCheckpoint(origin, size, bytes(root), note, cosignatures)


# Proving several events by one checkpoint, in a snapshot of the caller.


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
    wanted = {position: want_inclusion(position, chosen.size) for position in asked if position <= chosen.size}
    tiles = sorted({tile for one in wanted.values() for tile in one.tiles})
    rows = await _fetch(connection, TILES, tile_values(tiles)) if tiles else []
    try:
        return ProvenPositions(chosen, {position: one.hashes(rows)[1:-1] for position, one in wanted.items()})
    except NotInTree:
        return None


async def newest(connection: AsyncConnection) -> KeptCheckpoint | None:
    """Read the newest checkpoint of the present origin."""
    for row in await _fetch(connection, LATEST, {}):
        return as_kept(row)
    return None


async def _choose(connection: AsyncConnection, size: int) -> KeptCheckpoint | None:
    for row in await _fetch(connection, FOR_SIZE, {"size": size}):
        return as_kept(row)
    return await newest(connection)


async def _fetch(connection: AsyncConnection, query: Query, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return await (await connection.execute(query, values)).fetchall()


# Checking the tree against the log: tiles have the hashes of the events, and checkpoints the roots.

_CHECKPOINTS = load_query("tlog", "all_checkpoints")
_TILES = load_query("tlog", "all_tiles")
_LEVELS = load_query("tlog", "levels")
# Positions without events are a finding of the log itself.
_READING_LEAVES = load_query("tlog", "all_leaves")
_PAGE = 5_000


def check_tree(connection: psycopg.Connection[Any]) -> Iterator[Problem]:
    """Recompute the tree from the events, and yield each difference, by position. Reads only."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        yield from _check_leaves(connection)
        [[levels]] = connection.execute(_LEVELS).fetchall()
        for level in range(1, levels + 1):
            yield from _check_level(connection, level)


def _check_leaves(connection: psycopg.Connection[Any]) -> Iterator[Problem]:
    """Compare the tiles of level 0, and every checkpoint, with the leaves of the log."""
    signed = connection.execute(_CHECKPOINTS).fetchall()
    tiles = {
        tile: (bytes(hashes), bytes(root)) for _, tile, hashes, root in connection.execute(_TILES, (0,)).fetchall()
    }
    frontier, row, at = Frontier(), list[bytes](), 0
    at = yield from _check_signed(signed, at, frontier)
    with connection.cursor(name="leaves") as cursor:
        cursor.itersize = _PAGE
        cursor.execute(_READING_LEAVES)
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
    below = [bytes(root) for *_, root in connection.execute(_TILES, (level - 1,)).fetchall()]
    for _, tile, hashes, root in connection.execute(_TILES, (level,)).fetchall():
        row = below[tile * WIDTH : (tile + 1) * WIDTH]
        if len(row) != WIDTH or (bytes(hashes), bytes(root)) != (b"".join(row), root_of(row)):
            yield Problem("tile_differs", "", "", (tile << 8 * (level + 1)) + 1, f"level {level}")


# Building full tiles from the log. Positions never change, so it takes no lock. Two processes build the same tiles,
# and the later one finds the row there. An older log enters the tree in the same steps. Each step is whole: a killed
# process leaves no trace, and the next one goes on.

MOST_TILES = 32
"""Tiles of level 0 in one transaction: 8,192 events."""

_SIZE = load_query("tlog", "size")
_BUILT = load_query("tlog", "built")
_GROWING_LEAVES = load_query("tlog", "leaves_between")
_ROOTS = load_query("tlog", "roots_of_tiles")
_ADD = load_query("tlog", "add_tile")


class LogBroken(Exception):
    """The log lacks some of its events, so there is no tree of it."""


def grow_once(connection: Connection, most: int = MOST_TILES) -> bool:
    """Build full tiles of the numbered events, at most so many of level 0. Returns whether there are more to build.

    Raises LogBroken.
    """
    with connection.transaction():
        [size] = connection.execute(_SIZE, prepare=True).fetchone() or (0,)
        whole, built = size // WIDTH, _built(connection, 0)
        upto = min(whole, built + most)
        if built >= upto:
            return False
        rows = connection.execute(_GROWING_LEAVES, (built * WIDTH, upto * WIDTH)).fetchall()
        _add(connection, 0, built, upto, [hash_leaf(leaf) for (leaf,) in rows])
        _grow_above(connection, upto)
        return bool(upto < whole)


def grow(connection: Connection) -> None:
    """Build every full tile of the numbered events. Raises LogBroken."""
    while grow_once(connection):
        pass


def is_built(connection: Connection, size: int) -> bool:
    """Whether every full tile of a tree of this size is built."""
    return _built(connection, 0) >= size // WIDTH


def _grow_above(connection: Connection, upto: int) -> None:
    """Build the full tiles above so many of level 0."""
    level = 1
    while upto := upto // WIDTH:
        built = _built(connection, level)
        if built < upto:
            rows = connection.execute(_ROOTS, (level - 1, built * WIDTH, upto * WIDTH)).fetchall()
            _add(connection, level, built, upto, [root for (root,) in rows])
        level += 1


def _built(connection: Connection, level: int) -> int:
    [count] = connection.execute(_BUILT, (level,), prepare=True).fetchone() or (0,)
    return int(count)


def _add(connection: Connection, level: int, first: int, upto: int, hashes: Sequence[bytes]) -> None:
    """Add the full tiles of a level from their hashes. Raises LogBroken when some are missing."""
    if len(hashes) != (upto - first) * WIDTH:
        raise LogBroken(f"Hashes of level {level} are missing between tiles {first} and {upto}.")
    for number in range(first, upto):
        own = hashes[(number - first) * WIDTH : (number - first + 1) * WIDTH]
        connection.execute(_ADD, (level, number, b"".join(own), root_of(own)), prepare=True)


# The last checkpoint, kept outside of the database: a restored backup must not sign another history (G-169). It lies
# beside the ledger of erasures, as `<ledger's name>.checkpoint`, and is on the disk before anybody is shown the
# checkpoint. So it is never behind the view of outsiders.

MOST_BYTES = 64 * 1024


class Unreadable(Exception):
    """The file is there and holds no checkpoint."""


class CheckpointFile:
    """The file beside a ledger."""

    def __init__(self, ledger: Path) -> None:
        self.path = ledger.with_suffix(".checkpoint")

    def read(self) -> Checkpoint | None:
        """Read the checkpoint. None where there is none. Raises Unreadable."""
        try:
            with self.path.open("rb") as file:
                return parse_checkpoint(parse_note(file.read(MOST_BYTES)).text)
        except FileNotFoundError:
            return None
        except (OSError, MalformedNote) as error:
            raise Unreadable(f"{self.path} cannot be read as a checkpoint: {error}") from error

    def write(self, note: str) -> None:
        """Replace it, and have the new one on the disk before this returns. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(note)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        except OSError:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
