"""What every read model shares: a table of rows, and a pure fold keyed by stream.

An inline row belongs to exactly one stream, whose lock protects it, and carries the revision it shows. The same
fold serves three callers: inline (in the commit's transaction), rebuild and verify.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from statemachines.kernel.machine import Recorded


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a read model: column names are field names, nested values are JSONB columns.

    `project_id` leads every primary key; rows about people hold the user id there. `revision` is the number of the
    last event folded in.
    """

    project_id: str
    id: str
    revision: int


R = TypeVar("R", bound=msgspec.Struct)


class Table(NamedTuple, Generic[R]):
    """Rows of one SQL table: its name, row type and key columns (the primary key, in order)."""

    name: str
    row: type[R]
    key: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in the order of the row's fields."""
        return self.row.__struct_fields__


def always(_: Any, __: int) -> bool:
    """The default of `lasts`: every row is kept."""
    return True


class Projection(NamedTuple, Generic[R]):
    """A keyed fold: `kinds` are the stream prefixes it reads; `fold(row, recorded)` returns the new row.

    The row's key is (project_id, stream id): key columns are `project_id, id`. The fold returns None while the
    stream has no row, and may return None to remove it. `lasts` says of a row whether it is still of use at a time
    (epoch seconds): one that is not may have been removed from the table, and is then no difference to the history.
    """

    table: Table[R]
    kinds: tuple[str, ...]
    fold: Callable[[R | None, Recorded], R | None]
    lasts: Callable[[R, int], bool] = always

    @property
    def name(self) -> str:
        """The name of its table."""
        return self.table.name


def projection(
    name: str,
    row: type[R],
    kinds: tuple[str, ...],
    fold: Callable[[R | None, Recorded], R | None],
) -> Projection[R]:
    """Declare an inline projection over its own table, keyed by (project_id, id)."""
    return Projection(Table(name, row, ("project_id", "id")), kinds, fold)


AnyProjection = Projection[Any]
