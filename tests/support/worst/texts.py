"""Texts that are dear to whoever parses, compares or shows them, in any length."""

from __future__ import annotations

from collections.abc import Sequence

UNITS: Sequence[str] = (
    "[",
    "![",
    "*a ",
    "**a_b",
    "`",
    "<",
    "&",
    '"',
    "> ",
    "- a\n",
    "\n",
    "|a",
    "[a](",
    "\\",
    "#\n",
    "Z\u0301\u0334\u0489",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "\u202e\u2067",
    "W",
    "+a\n-b\n",
)
"""What they are made of, over and over."""
DEEP = 200


def worst(number: int, length: int) -> str:
    """A text of exactly so many characters. Texts of other numbers are of other kinds."""
    kind = number % (len(UNITS) + 4)
    if kind < len(UNITS):
        text = UNITS[kind] * length
    elif kind == len(UNITS):  # a table: every line of it gets as many cells as the first
        text = "|a" * 200 + "|\n" + "|-" * 200 + "|\n" + "|\n" * length
    elif kind == len(UNITS) + 1:  # lists and quotes within each other
        text = "".join("  " * level + "- a\n" for level in range(DEEP)) + ("> " * DEEP + "- " * DEEP + "a\n") * length
    elif kind == len(UNITS) + 2:  # code that begins and never ends
        text = "".join("`" * width + "a" for width in range(1, 400)) * (length // 4000 + 1)
    else:  # JSON within each other
        text = "[" * DEEP + "]" * DEEP + '{"a":' * length
    return text[: length - 1].ljust(length - 1, "x") + "." if length > 1 else "x"
