"""What must not be stored: values under telling names, and this service's own secrets (G-033, G-086). Pure.

The usual event has nothing to hide, so a few searches over its bytes decide whether to look at all. They may only
err on the side of looking: a name counts when it appears anywhere once case and separators are gone, and an escape
that could spell it otherwise always leads to the exact walk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from statemachines.kernel.telling import SECRET_FRAGMENTS, SEPARATORS, holds_own_secret, normalize_name

SCRUBBED = "[scrubbed]"

_SEPARATOR_BYTES = SEPARATORS.encode()
# What the quick look searches for in the bytes: pieces that every name of the list, and every secret, contains.
_PIECES = (b"passw", b"secret", b"token", b"apikey", b"privatekey", b"bearer", b"cookie")
_SECRET_PIECE = b"service_"
_ESCAPE = b"\\u"
_KELVIN = "\u212a".encode()  # the one character outside ASCII whose lowercase form is an ASCII letter
_LOWER = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"abcdefghijklmnopqrstuvwxyz")


class Scrubber:
    """The rules in force. `more_names` are added to the list, in any spelling."""

    def __init__(self, more_names: Iterable[str] = ()) -> None:
        self._names = (*SECRET_FRAGMENTS, *filter(None, map(normalize_name, more_names)))
        self._ascii = all(name.isascii() for name in self._names)
        added = (name.encode() for name in self._names[len(SECRET_FRAGMENTS) :])
        self._find_piece = re.compile(b"|".join(map(re.escape, (*_PIECES, *added)))).search

    def suspicious(self, raw: bytes) -> bool:
        """Whether the JSON text may hold anything to scrub. False is certain, True is not."""
        if _ESCAPE in raw or _SECRET_PIECE in raw:
            return True
        if not raw.isascii() and (_KELVIN in raw or not self._ascii):
            return True
        return self._find_piece(raw.translate(_LOWER, _SEPARATOR_BYTES)) is not None

    def _telling(self, name: str) -> bool:
        normalized = normalize_name(name)
        return any(part in normalized for part in self._names)

    def text(self, value: str) -> tuple[str, int]:
        """Scrub one string: returns it, or the mark, and how many values were scrubbed."""
        return (SCRUBBED, 1) if holds_own_secret(value) else (value, 0)

    def tree(self, value: Any) -> tuple[Any, int]:
        """Scrub a decoded JSON value at any depth; returns a new value and how many values were scrubbed.

        A telling name hides its value whole, whatever it is; a name that holds a secret is a string like any other.
        """
        match value:
            case str():
                return self.text(value)
            case dict():
                return self._members(value)
            case list():
                return self.parts(*value)
            case _:
                return value, 0

    def parts(self, *values: Any) -> tuple[list[Any], int]:
        """Scrub several values: returns them in their order, and how many values were scrubbed."""
        pairs = [self.tree(value) for value in values]
        return [value for value, _ in pairs], sum(count for _, count in pairs)

    def _members(self, members: dict[str, Any]) -> tuple[dict[str, Any], int]:
        result: dict[str, Any] = {}
        total = 0
        for name, value in members.items():
            shown, hidden_name = self.text(name)
            clean, hidden = (SCRUBBED, 1) if self._telling(name) else self.tree(value)
            result[shown] = clean
            total += hidden + hidden_name
        return result, total
