"""Telemetry is not refused for its oddities: they are adjusted, and the record says which (G-133).

The body gate has refused such a text already, so this one is slow and thorough: it takes the text apart, changes what
is odd, and returns a text that the gate lets pass. What the gate refuses for other reasons is refused here too, and
the field at fault is named where there is one. Pure: it runs in a thread.

- Integers beyond +-(2^53 - 1), and numbers outside the double range, become strings of at most 100 characters.
- NUL and lone surrogates become U+FFFD, in names as well. Names that become equal by it are one member twice.
- What nests deeper than 64 levels becomes "[cut]".
- Of more than MAX_VALUES values those nearest to the top stay, in their order: an object or array keeps as many as
  there is room for, and one below with no room at all becomes "[cut]". Of an array that lists the latest last, such as
  the frames of an SDK, the end stays. A text of more than MOST_READ is refused: to read it takes up to fifty times its
  bytes.
"""

import json
import math
import re
import secrets
from collections import deque
from typing import Any, NamedTuple, NoReturn

import msgspec

from service.http.body.gate import (
    MAX_DEPTH,
    MAX_VALUES,
    Members,
    fault,
    holds_more,
    may_be_deep,
    may_hold_wide_integer,
    members_of,
    named_twice,
)
from service.ingest.items import Adjustments
from statemachines.kernel.canonical import MAX_INTEGER
from statemachines.kernel.shapes import join

CUT = "[cut]"
MOST_READ = 2**17
"""Values of a text that is taken apart: as many as fit in a log event that comes alone."""
MAX_NUMBER = 100  # characters of an odd number that are kept
MAX_NAMED = 50  # places that a record names

_ODD_CHARACTERS = re.compile("[\x00\ud800-\udfff]")
# A string that does not end reaches to the end: the look for its end is not taken up again from each quote in it.
_STRINGS_AND_BRACKETS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)
_OPENING = b"[{"
_QUOTE = ord('"')
_LONGEST_INTEGER = len(str(MAX_INTEGER)) + 1  # with its sign

_encode = msgspec.json.Encoder().encode


class Adjusted(NamedTuple):
    """The text as it is taken, and what was adjusted in it."""

    raw: bytes
    adjustments: Adjustments


class _Number(str):
    """The text of a number that is not taken as one."""

    __slots__ = ()


def adjust(raw: bytes, latest_last: str | None = None) -> Adjusted:
    """Accept a text refused by the gate for an oddity. Raises InvalidPayload if it cannot be adjusted.

    Arrays that are a member called `latest_last` keep their end where there is no room for all of them.
    """
    if holds_more(raw, MOST_READ):
        raise fault(f"must hold at most {MOST_READ} values")
    mark = secrets.token_hex(16)
    try:
        [value, *_] = [_read(piece) for piece in _pieces(raw, mark)]
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError too.
        raise fault("must be one well-formed JSON value") from None
    return _Walk(mark, latest_last).over(value)


def _pieces(raw: bytes, mark: str) -> list[bytes]:
    """Cut a text into pieces of at most MAX_DEPTH levels, the outermost first; the mark stands where one was cut out.

    What is dropped is read as well, so that only JSON is taken. Raises ValueError when a bracket stays open.
    """
    if not may_be_deep(raw):
        return [raw]
    done: list[bytes] = []
    opened: list[list[bytes]] = [[]]
    depth = cut_to = 0
    for token in _STRINGS_AND_BRACKETS.finditer(raw):
        first = raw[token.start()]
        if first in _OPENING:
            if depth and depth % MAX_DEPTH == 0:
                opened[-1] += [raw[cut_to : token.start()], b'"', mark.encode(), b'"']
                opened.append([])
                cut_to = token.start()
            depth += 1
        elif first != _QUOTE:
            depth -= 1
            if depth > 0 and depth % MAX_DEPTH == 0:
                done.append(b"".join([*opened.pop(), raw[cut_to : token.end()]]))
                cut_to = token.end()
    if depth != 0:
        raise ValueError
    return [b"".join([*opened[0], raw[cut_to:]]), *done]


def _read(piece: bytes) -> Any:
    # Most texts hold no long integer, and a call for each of their numbers would cost as much as all else.
    wide = _integer if may_hold_wide_integer(piece) else None
    return json.loads(
        piece.decode(), parse_int=wide, parse_float=_number, parse_constant=_no_constant, object_pairs_hook=members_of
    )


def _integer(text: str) -> int | _Number:
    if len(text) <= _LONGEST_INTEGER and abs(int(text)) <= MAX_INTEGER:
        return int(text)
    return _Number(text[:MAX_NUMBER])


def _number(text: str) -> float | _Number:
    number = float(text)
    return number if math.isfinite(number) else _Number(text[:MAX_NUMBER])


def _no_constant(_: str) -> NoReturn:
    raise ValueError


class _Place(NamedTuple):
    """An object or array that is still to be looked at, and where it is: its path, and the key in what holds it."""

    path: str
    holder: Any
    key: str | int


class _Walk:
    """A walk over a value from its top downwards, level by level. It keeps no stack of calls."""

    def __init__(self, mark: str, latest_last: str | None) -> None:
        self._mark = mark
        self._latest_last = latest_last
        self._changes = 0
        self._places: list[str] = []
        self._room = MAX_VALUES
        self._waiting = deque[_Place]()

    def over(self, value: Any) -> Adjusted:
        """Adjust a value. Raises InvalidPayload that names a member that is there twice."""
        top = [value]
        self._array("", top)
        while self._waiting:
            path, holder, key = self._waiting.popleft()
            node = holder[key]
            if self._room <= 0:
                self._note(path)
                holder[key] = CUT
            elif isinstance(node, Members):
                self._object(path, node)
            else:
                self._array(path, node, latest_last=key == self._latest_last is not None)
        return Adjusted(_encode(top[0]), Adjustments(self._changes, tuple(self._places)))

    def _note(self, path: str) -> None:
        self._changes += 1
        if len(self._places) < MAX_NAMED:
            self._places.append(path)

    def _object(self, path: str, node: Members) -> None:
        if node.twice is not None:
            raise named_twice(join(path, self._text(node.twice, path)))
        names = list(node)
        if len(names) > self._room:
            self._note(path)
            for name in names[self._room :]:
                del node[name]
        names = list(node)
        self._room -= len(names)
        for name in names:
            clean = _ODD_CHARACTERS.sub("\ufffd", name)
            place = join(path, clean)
            if clean != name:
                self._note(place)
                if clean in node:
                    raise named_twice(place)
                node[clean] = node.pop(name)
            node[clean] = self._value(_Place(place, node, clean), node[clean])

    def _array(self, path: str, node: list[Any], *, latest_last: bool = False) -> None:
        if len(node) > self._room:
            self._note(path)
            del node[slice(len(node) - self._room) if latest_last else slice(self._room, None)]
        self._room -= len(node)
        for index in reversed(range(len(node))) if latest_last else range(len(node)):
            value = node[index]
            node[index] = self._value(_Place(f"{path}[{index}]" if path else "", node, index), value)

    def _value(self, place: _Place, value: Any) -> Any:
        if isinstance(value, _Number):
            self._note(place.path)
            return str(value)
        if isinstance(value, str):
            return self._text(value, place.path)
        if isinstance(value, dict | list) and value:
            self._waiting.append(place)
        return value

    def _text(self, text: str, path: str) -> str:
        if text == self._mark:
            self._note(path)
            return CUT
        clean = _ODD_CHARACTERS.sub("\ufffd", text)
        if clean != text:
            self._note(path)
        return clean
