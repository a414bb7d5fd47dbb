"""What every read model shares: a table of rows, and a pure fold keyed by stream.

An inline row belongs to exactly one stream, whose lock protects it, and carries the revision it shows. The same
fold serves three callers: inline (in the commit's transaction), rebuild and verify.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar

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


class Header(TypedDict):
    """The members of every row."""

    project_id: str
    id: str
    revision: int


def header(recorded: Recorded) -> Header:
    """The members that a row takes from the place of an event."""
    return {"project_id": recorded.project_id, "id": recorded.originator_id, "revision": recorded.revision}


R = TypeVar("R", bound=msgspec.Struct)


@dataclass(frozen=True, eq=False)
class Table(Generic[R]):
    """Rows of one SQL table: its name, row type and key columns (the primary key, in order)."""

    name: str
    row: type[R]
    key: tuple[str, ...] = ("project_id", "id")

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in the order of the row's fields."""
        return self.row.__struct_fields__


def always(_: Any, __: int) -> bool:
    """The default of `lasts`: every row is kept."""
    return True


@dataclass(frozen=True, eq=False, kw_only=True)
class Projection(Table[R]):
    """A table with a keyed fold: `kinds` are the stream prefixes it reads; `fold(row, recorded)` returns the new row.

    The row's key is (project_id, stream id). The fold returns None while the stream has no row, and may return None to
    remove it. `lasts` says of a row whether it is still of use at a time (epoch seconds): one that is not may have been
    removed from the table, and is then no difference to the history.
    """

    kinds: tuple[str, ...]
    fold: Callable[[R | None, Recorded], R | None]
    lasts: Callable[[R, int], bool] = always


def projection(
    name: str,
    row: type[R],
    kinds: tuple[str, ...],
    fold: Callable[[R | None, Recorded], R | None],
    lasts: Callable[[R, int], bool] = always,
) -> Projection[R]:
    """Declare an inline projection, whose table is its own."""
    return Projection(name, row, kinds=kinds, fold=fold, lasts=lasts)


AnyProjection = Projection[Any]


# When a secret was last used: the same fact of keys, sessions and credentials.


class UseRow(msgspec.Struct, frozen=True, kw_only=True):
    """A fact outside streams: when a key, session or credential was last used, at most a minute old (G-040)."""

    project_id: str
    id: str
    last_used_at: int
