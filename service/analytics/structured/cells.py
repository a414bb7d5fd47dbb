"""From rows as read to rows as shown: values of JSON, and columns named by a provider."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from schemas.analytics import Column, ColumnType
from schemas.kernel.shape import SAFE_INTEGER
from service.analytics.structured.checking import Column as Asked
from service.analytics.structured.checking import Structured

Row = tuple[Any, ...]

RESERVED: Final = "results"
"""No column has this name: an answer has no such member, at any depth."""
_OF_KIND: Final[Mapping[str, ColumnType]] = {"text": "string", "epoch": "epoch", "boolean": "boolean", "json": "json"}


def columns_of(query: Structured) -> tuple[Column, ...]:
    """The columns of a structured query."""
    return tuple(_column(column) for column in query.columns)


def _column(column: Asked) -> Column:
    if column.fn is None:
        assert column.field is not None
        kind = _OF_KIND[column.field.kind]
        said = "The value under the key; objects and arrays as JSON texts." if kind == "json" else "The field."
        return Column(column.name, kind, "seconds" if kind == "epoch" else None, said)
    if column.fn == "unique":
        assert column.field is not None
        return Column(column.name, "integer", "values", f"Different values of {column.field.name}.")
    said = "Rows." if column.field is None else f"Rows that have {column.field.name}."
    return Column(column.name, "integer", "rows", said)


def row_type(query: Structured) -> Any:
    """The type of a row as read: its columns, and whether it is within the bound of bytes."""
    kinds: list[Any] = []
    for column in query.columns:
        kind = "epoch" if column.fn is not None or column.field is None else column.field.kind
        kinds.append({"epoch": int, "boolean": bool}.get(kind, str | None))
    return tuple[(*kinds, int | bool)]  # type: ignore[valid-type] # a type made of several


def structured_rows(query: Structured, found: Sequence[Row]) -> tuple[list[Row], bool]:
    """The rows to show, and whether the bound of bytes has cut some off."""
    cut = bool(found) and not found[-1][-1]
    at_json = [at for at, column in enumerate(columns_of(query)) if column.type == "json"]
    rows = []
    for row in found[:-1] if cut else found:
        cells = list(row[:-1])
        for at in at_json:
            cells[at] = _read(cells[at])
        rows.append(tuple(cells))
    return rows, cut


def _read(text: str | None) -> Any:
    """A value by its JSON text. An object or array stays a text."""
    if text is None or text[:1] in {"{", "["}:
        return text
    try:
        return _plain(msgspec.json.decode(text))
    except (msgspec.DecodeError, ValueError):
        return text  # a number beyond all that a double holds


def _plain(value: Any) -> Any:
    """A scalar as a double holds it, exactly or as near as it gets. An object or array becomes its JSON text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) <= SAFE_INTEGER else float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool):
        return value
    return json.dumps(value, ensure_ascii=False)


def text_rows(names: Sequence[str], found: Iterable[Row]) -> tuple[tuple[Column, ...], list[Row]]:
    """The columns and rows of a text as a provider answered it, a value a name.

    The types are those of the values, for a provider has names of its own for them.
    """
    rows = [tuple(map(_plain, row)) for row in found]
    shown = _different(names)
    kinds = [_kind({type(row[at]) for row in rows if row[at] is not None}) for at in range(len(shown))]
    columns = tuple(
        Column(name, kind, None, "As the provider answered.") for name, kind in zip(shown, kinds, strict=True)
    )
    return columns, rows


def _kind(types: set[type]) -> ColumnType:
    if types == {int}:
        return "integer"
    if types and types <= {int, float}:
        return "number"
    return "string" if types == {str} else "boolean" if types == {bool} else "json"


def _different(names: Iterable[str]) -> list[str]:
    """The names of columns, each once: a row has its values by them."""
    taken = {RESERVED}
    shown = []
    for name in names:
        free = name
        number = 2
        while free in taken:
            free = f"{name}_{number}"
            number += 1
        taken.add(free)
        shown.append(free)
    return shown
