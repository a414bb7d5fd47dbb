"""Names that are locked in PostgreSQL, and statements from files.

All of them share one 64-bit space of advisory locks; the prefix keeps the classes apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

# Names that are locked in PostgreSQL: gates, idempotency keys, and ids of streams to create.

# Held shared by every round, and exclusively by a rebuild while it swaps a read model's table.
READ_MODELS = "read-models"


def lock_number(name: str) -> int:
    """Map a name to the signed 64-bit number that advisory locks take."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


def gate(scope: str) -> str:
    """Name the gate of a project or of a person's account."""
    return f"gate:{scope}"


def new_stream(project_id: str, stream_id: str) -> str:
    """Name a stream that does not exist yet: rivals to create it take this lock."""
    return f"new:{project_id}/{stream_id}"


def key(scope: str, principal: str, operation: str, idempotency_key: str) -> str:
    """Name an idempotency key in its scope: twins take this lock."""
    return f"key:{scope}/{principal}/{operation}/{idempotency_key}"


# The SQL of the areas: each query is a file of its own, `service/<area>/sql/<name>.sql`, with named parameters. What
# several queries have in common is a file, too, which they include as psql does, by a line `\ir name.sql`.

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
