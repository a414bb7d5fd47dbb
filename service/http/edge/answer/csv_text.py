"""Rows as CSV (RFC 4180), safe to open in a spreadsheet.

A spreadsheet takes a text that begins like a formula for one, and people's texts are in these rows: such a text gets an
apostrophe before it, which a spreadsheet does not show. Numbers stay as they are.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

import msgspec

MEDIA = "text/csv"
CONTENT_TYPE = f"{MEDIA}; charset=utf-8; header=present"
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_csv(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Write rows with a line of names before them; an absent value is empty, and what is no scalar is JSON."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow([_cell(name) for name in names])
    writer.writerows([[_cell(row[name]) for name in names] for row in rows])
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f"'{text}" if text.startswith(FORMULA) else text
