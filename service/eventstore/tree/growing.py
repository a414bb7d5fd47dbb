"""Building full tiles from the log. Positions never change, so it takes no lock.

Two processes build the same tiles, and the later one finds the row there. An older log
enters the tree in the same steps. Each step is whole: a killed process leaves no trace, and the next one goes on.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from service.eventstore.connect.connection import Connection
from service.sql import load_query
from service.tlog.hashing import hash_leaf, root_of
from service.tlog.notes import Checkpoint, MalformedNote, parse_checkpoint, parse_note
from service.tlog.tiles import WIDTH

MOST_TILES = 32
"""Tiles of level 0 in one transaction: 8,192 events."""

_SIZE = load_query("eventstore/tree", "size")
_BUILT = load_query("eventstore/tree", "built")
_LEAVES = load_query("eventstore/tree", "leaves_between")
_ROOTS = load_query("eventstore/tree", "roots_of_tiles")
_ADD = load_query("eventstore/tree", "add_tile")


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
        rows = connection.execute(_LEAVES, (built * WIDTH, upto * WIDTH)).fetchall()
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
