"""Whether the log of this database continues the last checkpoint, so it may be signed on.

A restored older backup is shorter than the checkpoint of outsiders, or differs from it. Two histories under one origin
are a fraud to every witness, so nothing is signed then, until `service log continue` begins a new origin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from service.eventstore.connect.connection import Connection
from service.eventstore.tree.growing import CheckpointFile, Unreadable
from service.eventstore.tree.reading import NotInTree, roots
from service.sql import load_query
from service.tlog.notes import Checkpoint

LOOK = load_query("eventstore/tree", "look")

_NOTE = load_query("eventstore/tree", "note_standing")
_NOTED = load_query("eventstore/tree", "noted_standing")


class Verdict(StrEnum):
    """The findings."""

    SAME = "same"
    SHORTER = "shorter"
    DIFFERS = "differs"
    FOREIGN = "foreign"
    UNREADABLE = "unreadable"


class LogLook(NamedTuple):
    """The log at a moment: its size, its origin, and its newest checkpoint. `now` is the time of the look."""

    size: int
    number: int
    origin: str
    continues: str | None
    at_size: int | None
    at_root: bytes | None
    signed_size: int | None
    signed_root: bytes | None
    signed_ago: float | None
    now: datetime


class Standing(NamedTuple):
    """A verdict, and the sentence about it."""

    verdict: Verdict
    detail: str = ""

    @property
    def signs(self) -> bool:
        """Whether the log may be signed."""
        return self.verdict is Verdict.SAME


_SAME = Standing(Verdict.SAME)


def look(connection: Connection) -> LogLook:
    """Read how far the log is, and how far it is signed."""
    [row] = connection.execute(LOOK, prepare=True).fetchall()
    return LogLook._make(row)


def judge(connection: Connection, seen: LogLook, file: CheckpointFile) -> Standing:
    """Compare the log with its own newest checkpoint and with the one beside the ledger. Its tiles must be built."""
    return judge_with_root(connection, seen, file, ())[0]


def judge_with_root(
    connection: Connection, seen: LogLook, file: CheckpointFile, more: Sequence[int]
) -> tuple[Standing, dict[int, bytes]]:
    """Judge as `judge`, and return the roots of more sizes out of the same read."""
    try:
        beside = file.read()
    except Unreadable as error:
        return Standing(Verdict.UNREADABLE, str(error)), {}
    signed = [] if seen.signed_root is None else [Checkpoint(seen.origin, seen.signed_size or 0, seen.signed_root)]
    if beside is not None and beside.origin == seen.origin:
        signed.append(beside)
    elif beside is not None and not (beside.origin == seen.continues and _is_the_end(seen, beside)):
        detail = f"{file.path} is of {beside.origin}, and the log of this database is {seen.origin}"
        return Standing(Verdict.FOREIGN, detail), {}
    return _compare(connection, seen, signed, more)


def _is_the_end(seen: LogLook, beside: Checkpoint) -> bool:
    """Whether a checkpoint is the last one before the present origin, or an earlier one."""
    if seen.at_size is None or beside.size > seen.at_size:
        return False
    return beside.size < seen.at_size or bytes(seen.at_root or b"") == beside.root


def _compare(
    connection: Connection, seen: LogLook, signed: Iterable[Checkpoint], more: Sequence[int]
) -> tuple[Standing, dict[int, bytes]]:
    known = {(one.size, bytes(one.root)) for one in signed}
    for size, _ in known:
        if size > seen.size:
            detail = f"{size} events were signed as {seen.origin}, and this log has {seen.size}"
            return Standing(Verdict.SHORTER, detail), {}
    sizes = sorted({*(size for size, _ in known), *more})
    try:
        found = dict(zip(sizes, roots(connection, sizes, max(sizes, default=0)), strict=True))
    except NotInTree:
        return Standing(Verdict.DIFFERS, "Tiles or events are missing"), {}
    for size, root in sorted(known):
        if found[size] != root:
            detail = f"the first {size} events are not those that were signed as {seen.origin}"
            return Standing(Verdict.DIFFERS, detail), {}
    return _SAME, found


def note_standing(connection: Connection, standing: Standing) -> None:
    """Note a verdict where everybody finds it, if it is another than before."""
    connection.execute(_NOTE, (standing.verdict.value, standing.detail), prepare=True)


def noted_standing(connection: Connection) -> Standing | None:
    """Return the verdict of the last worker. None before the first look."""
    for verdict, detail in connection.execute(_NOTED).fetchall():
        return Standing(Verdict(verdict), detail)
    return None
