"""Where in a text of JSON a fault is, so that a person finds it without counting brackets."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from service.console.texts.budget import spend

AROUND = 2
"""Lines that are shown before and after that of a fault."""
LONGEST = 300
"""Characters of a line that is shown."""
MOST_PATHS = 4_000_000
"""Characters of all paths. One long name may stand in each of them."""
DEEPEST = 40
"""Levels that are looked into. No contract has as many."""
_SPACE = re.compile(r"[ \t\n\r]*")
_STEP = re.compile(r"\.?[^.\[\]]+$|\[\d+\]$")
_VALUE = json.JSONDecoder()


class SpotLine(NamedTuple):
    """A numbered line of the text, `at` the fault or around it."""

    number: int
    text: str
    at: bool


class Spots:
    """The places of all members of a text, by their paths, such as `automations[0].bindings.name`."""

    def __init__(self, text: str) -> None:
        spend(len(text))
        self._lines = text.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._places: dict[str, int] = {}
        self._left = MOST_PATHS
        try:
            self._walk(text, 0, "", DEEPEST)
        except (ValueError, IndexError, RecursionError):
            self._places = {}

    def around(self, path: str) -> Sequence[SpotLine]:
        """The line of a member, or of the nearest one that holds it, with its neighbours. None for broken JSON."""
        while path and path not in self._places:
            path = _STEP.sub("", path) if _STEP.search(path) else ""
        if path not in self._places:
            return ()
        line = bisect_right(self._starts, self._places[path]) - 1
        shown = range(max(line - AROUND, 0), min(line + AROUND + 1, len(self._lines)))
        return [SpotLine(number + 1, self._lines[number][:LONGEST].rstrip("\r"), number == line) for number in shown]

    def _walk(self, text: str, at: int, path: str, levels: int) -> int:
        """Note the places of a value and of all within it. Returns its end. Raises ValueError for too long paths."""
        at = _skip(text, at)
        self._note(path, at)
        if text[at] not in "{[" or not levels:
            return _VALUE.raw_decode(text, at)[1]
        closing = "}" if text[at] == "{" else "]"
        at, number = _skip(text, at + 1), 0
        while text[at] != closing:
            inner = f"{path}[{number}]"
            if closing == "}":
                name, after = _name(text, at)
                inner = f"{path}.{name}" if path else name
                self._note(inner, at)
                at = _skip(text, after) + 1
            at, number = _skip(text, self._walk(text, at, inner, levels - 1)), number + 1
            at = _skip(text, at + 1) if text[at] == "," else at
        return at + 1

    def _note(self, path: str, at: int) -> None:
        self._left -= len(path)
        if self._left < 0:
            raise ValueError
        self._places.setdefault(path, at)


def _name(text: str, at: int) -> tuple[str, int]:
    """The name of a member and its end. Raises ValueError for anything but a string."""
    if text[at] != '"':
        raise ValueError
    name: str
    name, end = _VALUE.raw_decode(text, at)
    return name, end


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
