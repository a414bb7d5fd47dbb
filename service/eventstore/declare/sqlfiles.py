r"""The SQL of the areas: each query is a file of its own, `service/<area>/sql/<name>.sql`, with named parameters.

What several queries have in common is a file, too, which they include as psql does, by a line `\ir name.sql`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

COMMENT: Final = "--"
INCLUDE: Final = "\\ir "


def load_sql(area: str, name: str) -> str:
    """Read a query of an area as one line without its comments. Raises FileNotFoundError.

    It is read while its module is imported. The driver keeps how a statement is written for the server if it is short
    enough: without its line breaks it is.
    """
    return " ".join(_lines(resources.files("service").joinpath(area, "sql"), f"{name}.sql"))


def on_table(query: str, table: str) -> str:
    """Name the table of a query that is made for several, as for the partitions of one; by a declared name alone."""
    return query.replace("{table}", table)


def _lines(folder: Traversable, name: str) -> Iterator[str]:
    *inner, last = name.split("/")
    folder = folder.joinpath(*inner)
    for line in map(str.strip, folder.joinpath(last).read_text(encoding="utf-8").splitlines()):
        if line.startswith(INCLUDE):
            yield from _lines(folder, line.removeprefix(INCLUDE))
        elif line and not line.startswith(COMMENT):
            yield line
