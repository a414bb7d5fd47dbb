"""Members of what SDKs send in JSON: each counts where it is of the documented type, and is as if absent where not.

Sentry's and PostHog's SDKs write an exception and its frames alike. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import islice
from typing import Any, TypeVar

import msgspec

from service.ingest.foreign.common import ForeignError, Frame
from service.ingest.grouping.first import shown

MOST_CODES = 10
MAX_CODE = 100
"""Members of what an SDK says of a code, and characters of one of them."""
MAX_INTEGER = 2**53
_MECHANISM = ("synthetic", "is_exception_group", "exception_id", "parent_id")
FRAMES = "frames"
"""The member that lists the frames of a stack trace, the latest call last."""
_MAX_NUMBER = 2**31 - 1
_TEXTS = ("filename", "function", "abs_path", "module", "context_line", "package")  # of a frame


def text_of(value: Any) -> str | None:
    """A text that says something."""
    return value if isinstance(value, str) and value else None


def object_of(value: Any) -> Mapping[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def error_of(value: Mapping[str, Any]) -> ForeignError:
    """An exception, whose frames come with the latest call last."""
    said = value.get("value")
    return ForeignError(
        type=text_of(value.get("type")),
        value=text_of(said) if isinstance(said, str) or said is None else shown(said),
        frames=frames_of(value.get("stacktrace")),
        module=text_of(value.get("module")),
        mechanism=_mechanism_of(value.get("mechanism")),
    )


def frames_of(stacktrace: Any) -> list[Frame]:
    """The frames of a stack trace, the latest call first."""
    frames = object_of(stacktrace).get(FRAMES)
    listed = reversed(frames) if isinstance(frames, list) else ()
    return [_frame(frame) for frame in listed if isinstance(frame, dict)]


def _mechanism_of(value: Any) -> Mapping[str, Any] | None:
    """What a case may rest on of how an exception came: its container, and the codes that identify it."""
    if not isinstance(value, dict):
        return None
    kept = {name: value[name] for name in _MECHANISM if isinstance(value.get(name), str | int)}
    for name in ("meta", "data"):
        held = {key: _codes(said) for key, said in islice(object_of(value.get(name)).items(), MOST_CODES)}
        if known := {key: said for key, said in held.items() if said}:
            kept[name] = known
    return {name: said[:MAX_CODE] if isinstance(said, str) else said for name, said in kept.items()} or None


def _codes(value: Any) -> Any:
    """A code: a number, a short text, or an object of these."""
    if isinstance(value, dict):
        return {name: said for name, one in islice(value.items(), MOST_CODES) if (said := _code(one)) is not None}
    return _code(value)


def _code(value: Any) -> int | str | None:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < MAX_INTEGER:
        return value
    return value if isinstance(value, str) and 0 < len(value) <= MAX_CODE else None


def _frame(frame: Mapping[str, Any]) -> Frame:
    filename, function, abs_path, module, context_line, package = [
        value if isinstance(value, str) and value else None for value in map(frame.get, _TEXTS)
    ]
    lineno, colno, in_app = frame.get("lineno"), frame.get("colno"), frame.get("in_app")
    return Frame(
        filename,
        function,
        abs_path,
        module,
        None if lineno is None else _number(lineno),
        None if colno is None else _number(colno),
        in_app if isinstance(in_app, bool) else None,
        context_line,
        package,
        None if (address := frame.get("instruction_addr")) is None else _address(address),
        _lines_of(frame.get("pre_context")),
        _lines_of(frame.get("post_context")),
        _variables(frame),
    )


def _variables(frame: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The values of variables, under the name that the SDK of either protocol gives them."""
    held = frame.get("vars") or frame.get("code_variables")
    return held if isinstance(held, dict) and held else None


def _address(value: Any) -> str | None:
    """An address in memory, a text or a number."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return hex(value)
    return text_of(value)


def _lines_of(value: Any) -> tuple[str, ...]:
    """Lines of source. None unless all are texts."""
    if not isinstance(value, list):
        return ()
    try:
        "".join(value)  # tells it of all of them in one call
    except TypeError:
        return ()
    return tuple(value)


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_NUMBER else None


# Arrays of JSON, of which only so many items are built as are asked for: what follows is gone over and forgotten. An
# array of two million zeros fits in some kilobytes once it is packed, and a piece of each of them takes a hundred
# times its bytes. So whoever takes at most a thousand items asks for one more than that. Pure.

_FEWEST = 3  # 2 to this power is the smallest number of items that there is a decoder for
_ABSENT = msgspec.Raw(b"")


def first_items(raw: bytes, most: int) -> list[bytes]:
    """The texts of at most the first `most` items. Raises ValueError and RecursionError for what is no JSON array."""
    items: list[bytes] = []
    for item in msgspec.structs.astuple(_decoder(min(most, _at_least(raw.count(b",") + 1)))(raw)):
        if item is _ABSENT:
            break
        items.append(bytes(item))
    return items


def _at_least(items: int) -> int:
    """One of a few numbers that is not less: to build a decoder takes long, and to leave members out some time."""
    return 1 << max(_FEWEST, (items - 1).bit_length())


@cache
def _decoder(most: int) -> Callable[[bytes], Any]:
    """A decoder of arrays as structs of so many members: those that an array has not are left out, more are skipped."""
    fields = [(f"item_{number}", msgspec.Raw, _ABSENT) for number in range(most)]
    return msgspec.json.Decoder(msgspec.defstruct("Items", fields, array_like=True)).decode


# Lone surrogates in JSON, such as the half of an emoji: the decoder refuses a whole body for one of them (G-175). Each
# is replaced by `\u0000` before a body is cut. The decoder takes that, and the gate finds the record with it and has
# it adjusted as it adjusts the surrogate itself: U+FFFD, counted and named (G-133). So the other records stay as they
# were sent. Both have six bytes, so no place in the text moves. Pure.

T = TypeVar("T")

FAULTS = (ValueError, RecursionError)
"""Errors of a decoder: those of msgspec, and that of broken UTF-8, are ValueErrors."""

_HEX = rb"[0-9a-fA-F]"
_HIGH = rb"u[dD][89abAB]" + _HEX + rb"{2}"
_LOW = rb"u[dD][c-fC-F]" + _HEX + rb"{2}"
_ANY = rb"u[dD][89a-fA-F]" + _HEX + rb"{2}"
# All up to the next lone surrogate or, where there is none, to the end: no search begins anew from a place within.
_LONE = re.compile(
    rb"(?:[^\\]++|\\" + _HIGH + rb"\\" + _LOW + rb"|\\(?!" + _ANY + rb").)*+(?:\\(?P<lone>" + _ANY + rb")|\\?\Z)",
    re.DOTALL,
)
_NUL = b"u0000"


def without_lone(raw: bytes) -> bytes:
    """The same text with NUL in place of each lone surrogate. Linear in the text, of which one copy is made."""
    text = bytearray(raw)
    for found in _LONE.finditer(raw):
        if found["lone"] is not None:
            text[found.start("lone") : found.end("lone")] = _NUL
    return bytes(text)


def decode_any(decode: Callable[[bytes], T], raw: bytes) -> T:
    """Decode a text, one with lone surrogates as if they were NUL. Raises ValueError and RecursionError."""
    try:
        return decode(raw)
    except FAULTS:
        if b"\\ud" not in raw and b"\\uD" not in raw:
            raise
    return decode(without_lone(raw))
