"""The bounds of an event in bytes of JSON: of each member, of the variables of a frame, and of all of it. Pure.

A member beyond its bound is cut, from its end, and named in `left_out` of the event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

MOST_OF_EVENT = 256 * 1024
"""Bytes of an event as it is stored, without what the service itself adds."""
MOST_OF_MEMBER = 32 * 1024
"""Bytes of a member of what an SDK sends."""
MOST_OF_TEXT = 2 * 1024
"""Bytes of a text among them, but for the message."""
MOST_SAID = 16 * 1024
"""Bytes of a message beside an exception."""
MOST_OF_TAGS = 64 * 1024
MOST_VARIABLES = 4096
"""Bytes of the variables of a frame."""
MOST_VARIABLE = 1024
"""Bytes of one of them."""
SURELY_FITS = MOST_OF_EVENT // 2
"""Bytes of a record that is surely within MOST_OF_EVENT after its scrubbing."""
_SAID = frozenset({"message", "body"})
_LEVELS = 3
"""Levels of a member to cut. Large values further down are left out."""
_LEAST = 32
"""Bytes in which something may have room."""
_ESCAPED = 6
"""Bytes of a character of JSON at most."""
_NAME = "left_out"

_encode = msgspec.json.Encoder().encode


def most_of(name: str, value: Any) -> int:
    """The bound of a member with this value."""
    if not isinstance(value, str):
        return MOST_OF_MEMBER
    return MOST_SAID if name in _SAID else MOST_OF_TEXT


def cut_texts(members: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Members but for None, each text within its bound, and the names of the cut ones."""
    kept, names = {}, []
    for name, value in members.items():
        if value is None:
            continue
        kept[name] = value
        if isinstance(value, str) and len(value) * _ESCAPED > (most := most_of(name, value)):
            kept[name] = shown = _text(value, most)
            if shown is not value:
                names.append(name)
    return kept, names


def cut(value: Any, most: int, *, newest: bool = False, levels: int = _LEVELS) -> Any:
    """As much of a JSON value as has room, from its begin or, of a list with the newest last, from its end.

    None where nothing has.
    """
    if len(_encode(value)) <= most:
        return value
    if most < _LEAST or not levels:
        return None
    if isinstance(value, str):
        return _text(value, most) or None
    if isinstance(value, dict):
        kept: dict[str, Any] = {}
        for name, one in value.items():
            most -= len(_encode(name)) + 2
            if (fits := cut(one, most - 2, levels=levels - 1)) is not None:
                kept[name] = fits
                most -= len(_encode(fits))
            else:
                most += len(_encode(name)) + 2
            if most < _LEAST:
                break
        return kept or None
    if isinstance(value, list):
        listed = []
        for one in reversed(value) if newest else value:
            if (fits := cut(one, most - 2, levels=levels - 1)) is not None:
                listed.append(fits)
                most -= len(_encode(fits)) + 1
            if most < _LEAST:
                break
        return (listed[::-1] if newest else listed) or None
    return None


def cut_event(parts: dict[str, Any], extra: dict[str, Any], beside: int) -> dict[str, Any]:
    """Cut the largest parts of an event, in place, down to MOST_OF_EVENT. Returns its extra.

    `beside` is the bytes of all else. The first members of a part stay.
    """
    held = {**parts, "extra": extra}
    sizes = {name: len(_encode(part)) for name, part in held.items()}
    left_out: list[str] = []
    while (over := beside + sum(sizes.values()) + len(_encode({_NAME: left_out})) + _LEAST - MOST_OF_EVENT) > 0:
        largest = max(sizes, key=lambda name: sizes[name])
        held[largest] = cut(held[largest], sizes[largest] - over) or {}
        sizes[largest] = len(_encode(held[largest]))
        if largest not in left_out:
            left_out.append(largest)
    if not left_out:
        return extra
    parts.update({name: held[name] for name in parts})
    before = held["extra"].get(_NAME)
    return {**held["extra"], _NAME: [*(before if isinstance(before, list) else ()), *left_out]}


def bounded_variables(held: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of a frame with room for them, whole, as `vars`. `vars_left_out` is the number of the others."""
    kept: dict[str, Any] = {}
    room = MOST_VARIABLES
    for name, value in held.items():
        size = len(_encode({name: value}))
        if size <= MOST_VARIABLE and size <= room:
            kept[name] = value
            room -= size
    left_out = len(held) - len(kept)
    return {"vars": kept, **({"vars_left_out": left_out} if left_out else {})}


def _text(value: str, most: int) -> str:
    """The begin of a text, so many bytes as JSON."""
    if len(_encode(value)) <= most:
        return value
    value = value[:most]
    while value and (size := len(_encode(value))) > most:
        value = value[: min(len(value) - 1, len(value) * most // size)]
    return value
