"""A stack trace as text, and what is read of it."""

from __future__ import annotations

from typing import NamedTuple


class Printed(NamedTuple):
    """`frames`: base name, bare function, line, and whether it is the product's own; the latest call first."""

    text: str
    type: str | None
    value: str | None
    frames: list[tuple[str, str, int | None, bool]]
