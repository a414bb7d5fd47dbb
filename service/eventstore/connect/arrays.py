"""Columns of values as PostgreSQL array literals: what the `unnest` of a statement takes.

The driver turns a list into an array element by element in Python, which cost more than everything else that a round
does. Here a column becomes one string, joined at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Value = str | int | bytes


def array(values: Iterable[Value]) -> str:
    """Write a column as an array literal: texts, integers, or bytes (in hex)."""
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: Value) -> str:
    if isinstance(value, str):
        if '"' in value or "\\" in value:
            value = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{value}"'
    return str(value) if isinstance(value, int) else f'"\\\\x{value.hex()}"'


def columns(rows: Iterable[Sequence[Value]], width: int) -> tuple[str, ...]:
    """Turn rows of `width` values into their columns."""
    return tuple(map(array, zip(*rows, strict=True))) or ("{}",) * width
