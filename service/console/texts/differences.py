"""Two texts compared line by line, within bounds: matching lines takes time with the square of their number."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from service.console.texts.budget import spend

MOST_LINES = 400
"""Lines of each text that are compared, without those that both begin and end with."""
COST = 10  # characters of plain work that a line costs at most
NAMES = 2  # lines in which the names of the files stand
AROUND = 3
"""Lines before and after a difference that are shown with it."""
_KINDS = {"+": "added", "-": "removed", " ": "kept"}


class DiffLine(NamedTuple):
    """A line of a comparison: `added`, `removed`, `kept`, or `apart` between two places."""

    kind: str
    text: str


class Compared(NamedTuple):
    """Two texts with the lines that differ. `whole` is False for texts with more lines than are compared."""

    lines: Sequence[DiffLine]
    added: int
    removed: int
    whole: bool
    before: str
    after: str


def written(document: Any) -> str:
    """A document as text, in canonical order. Equal documents are equal line by line. Empty for None."""
    if document is None:
        return ""
    return msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=2).decode()


def differences(before: str, after: str) -> Compared:
    """The lines that differ, with three around them. None for equal texts. Raises TooMuchHere."""
    old, new = (text.split("\n") if text else [] for text in (before, after))
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    first, second = len(old) - head - tail, len(new) - head - tail
    if first > MOST_LINES or second > MOST_LINES:
        return Compared([], 0, 0, False, before, after)
    spend(len(before) + len(after) + COST * (first + second))
    begin, end = max(head - AROUND, 0), max(tail - AROUND, 0)
    found = difflib.unified_diff(old[begin : len(old) - end], new[begin : len(new) - end], n=AROUND, lineterm="")
    lines: list[DiffLine] = []
    for line in islice(found, NAMES, None):
        if line[0] != "@":
            lines.append(DiffLine(_KINDS[line[0]], line[1:]))
        elif lines:
            lines.append(DiffLine("apart", "…"))
    added, removed = (sum(one.kind == kind for one in lines) for kind in ("added", "removed"))
    return Compared(lines, added, removed, True, before, after)


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines two texts begin with in common."""
    pairs = zip(old, new, strict=False)
    return next((number for number, (one, other) in enumerate(pairs) if one != other), min(len(old), len(new)))
