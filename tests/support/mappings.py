"""Source maps written by hand: mappings as lists of segments, encoded and read back without any library."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class Segment(NamedTuple):
    """A place of the minified line and where it comes from, all from 0; `source` None: from nowhere."""

    column: int
    source: int | None = None
    line: int = 0
    original_column: int = 0


Lines = Sequence[Sequence[Segment]]


def encode(lines: Lines) -> str:
    """Write mappings (ECMA-426): columns begin anew in each line, all else goes on."""
    written = []
    source = line = original = 0
    for segments in lines:
        column, texts = 0, []
        for segment in segments:
            text, column = _vlq(segment.column - column), segment.column
            if segment.source is not None:
                text += _vlq(segment.source - source) + _vlq(segment.line - line)
                text += _vlq(segment.original_column - original)
                source, line, original = segment.source, segment.line, segment.original_column
            texts.append(text)
        written.append(",".join(texts))
    return ";".join(written)


def find(lines: Lines, line: int, column: int) -> Segment | None:
    """The last segment at or before a place (both from 0) in its line; of equal ones any comes from one place."""
    if line >= len(lines):
        return None
    return max((one for one in lines[line] if one.column <= column), key=lambda one: one.column, default=None)


def document(lines: Lines, sources: Sequence[str], **more: Any) -> bytes:
    """A whole map."""
    return json.dumps({"version": 3, "sources": list(sources), "names": [], "mappings": encode(lines), **more}).encode()


def _vlq(number: int) -> str:
    rest = -number << 1 | 1 if number < 0 else number << 1
    text = ""
    while True:
        digit, rest = rest & 31, rest >> 5
        text += _DIGITS[digit | 32 if rest else digit]
        if not rest:
            return text
