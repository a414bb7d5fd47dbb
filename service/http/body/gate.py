"""The body gate: what every JSON body must be before anything looks at its meaning (reliability §4.9, threat 19).

The decoder behind it takes the last of two equal member names, keeps NUL and integers of any size, and fails in its
own ways on deep nesting and broken UTF-8. So the gate asks, over bytes, questions that cost little when the answer is
the usual one; only a body that looks unusual is taken apart. Tests hold it equal to a slow tokenizer.
"""

import json
import re
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from service.auth.refusals import InvalidPayload
from statemachines.kernel.canonical import MAX_INTEGER
from statemachines.kernel.shapes import join

MAX_DEPTH = 64
MAX_VALUES = 5000
"""Values that a telemetry record may hold: members and items at any depth, and itself."""

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_INTEGER = re.compile(rb"(?<![0-9.eE+-])-?([0-9]{16,})(?![0-9.eE])")
_NOT_BRACKETS = bytes(set(range(256)) - set(b'[]{}"'))
_NOT_BEGINS = bytes(set(range(256)) - set(b",[{"))
_ONE_BRACKET = bytes.maketrans(b"{}", b"[]")
_OPEN = ord("[")
_DIGITS_AS_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_INTEGER = b"0" * len(str(MAX_INTEGER))
_BEGINS_AND_DIGITS = bytes.maketrans(b",[-123456789", b":::" + b"0" * 9)
_LONG_MEMBER = b":" + _LONG_INTEGER
_SHALLOW = 8
_BLOCK = 64 * 1024

_MESSAGE = "The body is not acceptable JSON."

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def check_body(raw: bytes) -> Any:
    """Check one JSON text and return its value as plain objects. Raises InvalidPayload, whose details name the fault.

    Refused: what is not strict UTF-8 or not JSON, nesting beyond 64, a member name twice in one object (compared
    after unescaping), NUL, lone surrogates, and integers outside +-(2**53 - 1).
    """
    if may_be_deep(raw) and _is_deep(raw):
        raise odd("must not be nested deeper than 64 levels")
    if may_hold_wide_integer(raw) and _has_wide_integer(raw):
        raise odd("must hold integers within +-(2^53 - 1) only")
    if b"\\" in raw and b"\\u0000" in raw and _NUL.search(raw):
        raise odd("must not hold the character NUL")
    try:
        value = _decode(raw)
    except UnicodeDecodeError:
        raise fault("must be valid UTF-8") from None
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise odd("must be one well-formed JSON value") from None
    if _has_duplicates(raw, value):
        raise named_twice(_find_twice(raw))
    return value


def check_written(raw: bytes) -> None:
    """Check a telemetry record that was written here, from parts of a foreign one; raises as `check_body` does.

    Such a text is well-formed and names nothing twice. The question whether it may hold anything else to refuse errs
    on the side of looking: an integer follows a colon, a comma, a bracket or a sign, but so may digits in a string.
    """
    if may_be_deep(raw) or b"\\u0000" in raw or _LONG_MEMBER in raw.translate(_BEGINS_AND_DIGITS):
        check_body(raw)
    check_values(raw)


class Odd(InvalidPayload):
    """A text that is refused for what telemetry may have adjusted (G-133)."""


def check_values(raw: bytes, most: int = MAX_VALUES) -> None:
    """Check that a well-formed text holds at most so many values; any other may be refused for it too. Raises Odd.

    It costs far less than to decode the text, which is one piece of work and takes time for each value.
    """
    if holds_more(raw, most):
        raise odd(f"must hold at most {most} values")


def holds_more(raw: bytes, most: int) -> bool:
    """Whether a well-formed text holds more than so many values, or nearly; of any other, what is read until its fault.

    Of an array with nothing but a string in it one is counted, not two.
    """
    if len(raw) < most or len(raw.translate(None, _NOT_BEGINS)) < most:
        return False
    bare = _outside_strings(raw).translate(None, b" \t\r\n")
    # Each object or array holds one value more than it has commas, unless it is empty.
    holders = bare.count(b"[") + bare.count(b"{") - bare.count(b"[]") - bare.count(b"{}")
    return 1 + bare.count(b",") + holders > most


def may_be_deep(raw: bytes) -> bool:
    """Whether a text has as many brackets as it takes to nest beyond the limit. Those of strings count, too."""
    return raw.count(b"[") + raw.count(b"{") > MAX_DEPTH


def may_hold_wide_integer(raw: bytes) -> bool:
    """Whether anywhere in a text there are as many digits in a row as it takes to be too large."""
    return _LONG_INTEGER in raw.translate(_DIGITS_AS_ZERO)


def odd(reason: str) -> Odd:
    """The refusal of a text that telemetry may have adjusted."""
    return Odd(_MESSAGE, invalid=[("", f"the body {reason}")])


def fault(reason: str) -> InvalidPayload:
    """The refusal of a text that nobody may send."""
    return InvalidPayload(_MESSAGE, invalid=[("", f"the body {reason}")])


def named_twice(path: str) -> InvalidPayload:
    """The refusal of a text with a member that is there twice, by its place."""
    return InvalidPayload(_MESSAGE, invalid=[(path, "must not be named twice in one object")])


class Members(dict[str, Any]):
    """The members of an object. `twice` is a name that it had more than once."""

    __slots__ = ("twice",)
    twice: str | None


def members_of(pairs: list[tuple[str, Any]]) -> Members:
    """Make an object of its members, the last of each name."""
    members = Members(pairs)
    members.twice = None
    if len(members) < len(pairs):
        seen: set[str] = set()
        members.twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    return members


def _find_twice(raw: bytes) -> str:
    """The place of a member that is there twice, of several one that is nearest to the top; "" without one.

    The text has been decoded without that, which says nothing of names.
    """
    waiting = deque([("", json.loads(raw.decode(), object_pairs_hook=members_of))])
    while waiting:
        path, node = waiting.popleft()
        if isinstance(node, Members) and node.twice is not None:
            return join(path, node.twice)
        waiting.extend(_inside(path, node))
    return ""


def _inside(path: str, node: Any) -> Iterator[tuple[str, Any]]:
    """The objects and arrays in one, with their places."""
    if isinstance(node, dict):
        yield from ((join(path, name), held) for name, held in node.items() if isinstance(held, dict | list))
    elif isinstance(node, list):
        yield from ((f"{path}[{index}]", held) for index, held in enumerate(node) if isinstance(held, dict | list))


def _outside_strings(raw: bytes) -> bytes:
    """What is left of a well-formed text without its strings; of any other, something that need not mean much."""
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")  # quotes that are left begin or end a string
    return _outside_quotes(raw)


def _outside_quotes(raw: bytes) -> bytes:
    """What stands outside of pairs of quotes, a block at a time: a short piece takes ten times its bytes."""
    left: list[bytes] = []
    inside = 0
    for begin in range(0, len(raw), _BLOCK):
        parts = raw[begin : begin + _BLOCK].split(b'"')
        left.append(b"".join(parts[inside::2]))
        inside = (inside + len(parts) - 1) % 2
    return b"".join(left)


def _is_deep(raw: bytes) -> bool:
    """Whether brackets nest beyond the limit. Each replacement takes away the innermost level, most texts have few."""
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Of most strings nothing is left but their quotes. What stands between two others is inside or outside as before.
    brackets = raw.translate(_ONE_BRACKET, _NOT_BRACKETS).replace(b'""', b"")
    if b'"' in brackets:
        brackets = _outside_quotes(brackets)
    for _ in range(_SHALLOW):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return False
    depth = _SHALLOW
    for bracket in brackets:
        depth += 1 if bracket == _OPEN else -1
        if depth > MAX_DEPTH:
            return True
    return False


def _has_wide_integer(raw: bytes) -> bool:
    """Whether an integer is too large. Its digits are counted before they are converted."""
    found = (match.group(1) for match in _INTEGER.finditer(_outside_strings(raw)))
    return any(len(digits) > len(_LONG_INTEGER) or int(digits) > MAX_INTEGER for digits in found)


def _has_duplicates(raw: bytes, value: Any) -> bool:
    """Whether decoding lost a member. A colon is part of each member; encoding again writes back those that are left.

    Most texts are written as it writes them. Strings keep their colons, except one that was written as an escape; such
    a text is compared without its strings.
    """
    written = _encode(value)
    if written == raw:
        return False
    if b"\\u003" not in raw:
        return raw.count(b":") != written.count(b":")
    return _outside_strings(raw).count(b":") != _outside_strings(written).count(b":")
