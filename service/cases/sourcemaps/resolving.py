"""One source map made ready, and places looked up in it (R-CASE-04). No I/O.

Positions come from the map's own tokens: the compact form of the library, which knows the functions and the lines
around a place, drops a token that repeats the one before it, also where a line of the minified file begins with it.
"""

import re
from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from schemas.cases.event import Verdict

MOST_MARKS = 4_000_000
"""Commas and semicolons of a map: each may be a token, which takes some seventy bytes, whatever the map weighs."""
CONTEXT_LINES = 3
MOST_TEXT = 500  # characters of a line that is shown, and of a name
LONGEST_LINE = 10_000  # characters: each look-up copies the lines around a place as a whole
_BEYOND = 2**31 - 1
_TOKEN_BYTES = 96  # in both forms
_OVERHEAD = 16 * 1024
_NAMELESS = frozenset({"<unknown>", "<anonymous>"})
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?://(?!\.\.?(?:[/\\]|$))[^/\\]*)?")
_DRIVE = re.compile(r"^[A-Za-z]:")


class TooComplex(Exception):
    """A map with more tokens than are taken apart."""


class Corrupt(Exception):
    """Not a source map."""


class SourcePlace(NamedTuple):
    """Where a frame comes from; lines and columns begin at 1. `library`: the map lists the file in `ignoreList`."""

    source: str
    line: int
    column: int
    function: str | None
    before: list[str]
    text: str | None
    after: list[str]
    library: bool = False


class ReadyMap:
    """A source map taken apart. To make one takes up to seconds, so it is done aside; look-ups take microseconds."""

    def __init__(self, source_map: bytes, minified: bytes) -> None:
        """Raises Corrupt and TooComplex. `minified` may be empty: function names are not known then."""
        if source_map.count(b",") + source_map.count(b";") > MOST_MARKS:
            raise TooComplex
        content = without_prefix(source_map)
        # Loaded with the first map: it is a binary of many megabytes, and the start of a process needs none of it.
        from symbolic.exceptions import SymbolicError  # noqa: PLC0415
        from symbolic.sourcemap import SourceMapView  # noqa: PLC0415
        from symbolic.sourcemapcache import SourceMapCache  # noqa: PLC0415

        try:
            self._view = SourceMapView.from_json_bytes(content)
            self._cache = SourceMapCache.from_bytes(minified, content)
        except (SymbolicError, ValueError) as error:
            raise Corrupt from error
        self._ignored = _ignored_sources(content)
        self._lengths = _line_lengths(minified)
        self._long = {name for number, name in self._view.iter_sources() if self._has_long_line(number)}
        self.weight = _OVERHEAD + 2 * len(source_map) + len(minified) + _TOKEN_BYTES * len(self._view)
        """Bytes of memory, by estimate."""

    def _has_long_line(self, number: int) -> bool:
        content = self._view.get_source_contents(number) or ""
        return len(content) > LONGEST_LINE and max(map(len, content.split("\n"))) > LONGEST_LINE

    def first_column(self, line: int) -> int:
        """The column of the first token of a line, 1 where there is none."""
        low, high = 0, _BEYOND
        token = self._view.lookup(line - 1, _BEYOND)
        if token is None or token.dst_line != line - 1:
            return 1
        while low < high:
            middle = (low + high) // 2
            token = self._view.lookup(line - 1, middle)
            low, high = (low, middle) if token is not None and token.dst_line == line - 1 else (middle + 1, high)
        return low + 1

    def look_up(self, line: int, column: int) -> SourcePlace | Verdict:
        """Find where a place of the minified file comes from, or say why that is not known."""
        if self._lengths and line > len(self._lengths):
            return "line_out_of_range"
        if self._lengths and column > self._lengths[line - 1] + 1:
            return "column_out_of_range"
        token = self._view.lookup(line - 1, column - 1)
        if token is None or token.dst_line != line - 1:
            last = self._view.lookup(line - 1, _BEYOND)
            return "line_out_of_range" if last is None or last.dst_line != line - 1 else "column_out_of_range"
        if not token.src:
            return "not_mapped_code"
        if token.src_line > _BEYOND or token.src_col > _BEYOND:
            return "map_corrupt"  # Numbers of a map are unsigned to the library: this one was below zero.
        near = None if token.src in self._long else self._cache.lookup(line, column, CONTEXT_LINES)
        around = near if near is not None and (near.src, near.line) == (token.src, token.src_line + 1) else None
        function = None if near is None else near.function_name
        return SourcePlace(
            inside(token.src),
            token.src_line + 1,
            token.src_col + 1,
            None if not function or function in _NAMELESS else function[:MOST_TEXT],
            [] if around is None else _lines(around.pre_context),
            None if around is None or around.context_line is None else _line(around.context_line),
            [] if around is None else _lines(around.post_context),
            token.src in self._ignored,
        )


class _Lists(msgspec.Struct):
    """What a map says of its sources, and of those that are of third parties (ECMA-426)."""

    sources: list[str | None] = []
    sourceRoot: str | None = None  # noqa: N815 - the name in the format
    ignoreList: list[int] = []  # noqa: N815
    x_google_ignoreList: list[int] = []  # noqa: N815
    sections: list[dict[str, msgspec.Raw]] = []


_lists_of = msgspec.json.Decoder(_Lists).decode


def _ignored_sources(content: bytes) -> frozenset[str]:
    """The sources that a map lists as those of third parties, as its tokens call them."""
    if b"gnoreList" not in content:
        return frozenset()
    try:
        told = _lists_of(content)
        parts = [told, *[_lists_of(section["map"]) for section in told.sections if "map" in section]]
    except (msgspec.DecodeError, RecursionError):
        return frozenset()
    found = set()
    for part in parts:
        root = (part.sourceRoot or "").removesuffix("/")
        for number in {*part.ignoreList, *part.x_google_ignoreList}:
            source = part.sources[number] if 0 <= number < len(part.sources) else None
            if source:
                found |= {source, f"{root}/{source}" if root else source}
    return frozenset(found)


def without_prefix(content: bytes) -> bytes:
    """A map without the line that keeps it from being run as a script."""
    return content.partition(b"\n")[2] if content.startswith(b")]}'") else content


@lru_cache(maxsize=4096)
def inside(source: str) -> str:
    """The name of a source without steps that lead upwards: whoever opens it stays in the project.

    A drive, `file:` and a leading slash go too; another scheme and its host stay, for what has them is no path.
    """
    found = _SCHEME.match(source)
    head, path = (found.group(), source[found.end() :]) if found else ("", _DRIVE.sub("", source))
    steps = "/".join(step for step in re.split(r"[/\\]", path) if step not in {"", ".", ".."})[-MOST_TEXT:]
    if head.startswith("file:"):
        head = ""
    name = f"{head}/{steps}" if "//" in head else head + steps
    return "".join(character if character.isprintable() else "\ufffd" for character in name)


def _line_lengths(minified: bytes) -> Sequence[int]:
    """Length of each line in UTF-16 units, as columns count."""
    if not minified:
        return ()
    lines = minified.decode("utf-8", "replace").split("\n")
    return array(
        "L", [len(line) if line.isascii() else len(line.encode("utf-16-le", "surrogatepass")) // 2 for line in lines]
    )


def _line(text: str) -> str:
    return text.rstrip("\r\n")[:MOST_TEXT].replace("\x00", "\ufffd")


def _lines(texts: Sequence[str]) -> list[str]:
    return [_line(text) for text in texts]
