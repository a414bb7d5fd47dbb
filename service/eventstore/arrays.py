"""Columns of values as PostgreSQL array literals: what the `unnest` of a statement takes.

The driver turns a list into an array element by element in Python, which cost more than everything else that a round
does. Here a column becomes one string, joined at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Value = str | int | bytes


def array(values: Iterable[Value]) -> str:
    """Write a column of one type as an array literal: texts, integers, or bytes (in hex)."""
    listed = list(values)
    if not listed:
        return "{}"
    first = listed[0]
    if isinstance(first, int):
        return "{" + ",".join(map(str, listed)) + "}"
    if isinstance(first, bytes):
        return "{" + ",".join([f'"\\\\x{value.hex()}"' for value in listed if isinstance(value, bytes)]) + "}"
    texts = [value for value in listed if isinstance(value, str)]
    joined = "".join(texts)
    if '"' in joined or "\\" in joined:
        texts = [text.replace("\\", "\\\\").replace('"', '\\"') for text in texts]
    return '{"' + '","'.join(texts) + '"}'


def columns(rows: Iterable[Sequence[Value]], width: int) -> tuple[str, ...]:
    """Turn rows of `width` values into their columns."""
    return tuple(map(array, zip(*rows, strict=True))) or ("{}",) * width
