r"""Queries: named blocks of one `queries.sql` an area, read once while the modules that run them are imported.

    -- owner_of_thing --
    -- The owner of a thing. No row: there is no such thing.
    select t.owner from things t where t.project_id = %(project_id)s
        \include not_deleted

    -- part not_deleted --
    -- A thing that is still there.
    and t.deleted_at is null

A part is no statement, and stands where a line `\include` names it: alone, or as `<file>.<part>` one of another file.
Where an area has more than about 600 lines, a resource has a file beside its module: `cases/people.sql`.
An area of one module has its file there too: `deploys.sql`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, LiteralString, NamedTuple, TypeAlias

ROOM: Final = Path(__file__).parent
COMMENT: Final = "--"
INCLUDE: Final = "\\include "
_HEAD = re.compile(r"-- (?P<part>part )?(?P<name>[a-z]\w*) --")
_NAME = re.compile(r"[a-z]\w*")


class Query(bytes):
    """A statement as the driver takes it, with the name of its file, its own, and what it answers."""

    file: str
    name: str
    description: str

    @property
    def text(self) -> str:
        """The statement as text: for a log, or a server that takes no bytes."""
        return self.decode()

    def __str__(self) -> str:
        return self.decode()

    def filled(self, **places: Query | str | int | tuple[str, ...]) -> Query:
        """Fill places such as `{table}`, each with a declared name or names, a number or a query. Raises ValueError.

        Values of callers never come this way: they are parameters.
        """
        text = self.text
        for place, content in places.items():
            if f"{{{place}}}" not in text:
                raise ValueError(f"{self.file}.{self.name} has no place {{{place}}}.")
            text = text.replace(f"{{{place}}}", _written(content))
        return _made(text, self.file, self.name, self.description)


Statement: TypeAlias = Query | LiteralString
"""What a reader runs: a query of a file, or a line that stands among the code."""


class Block(NamedTuple):
    """A query or a part as it stands in its file: its comment, and its lines with what they include."""

    is_part: bool
    description: str
    lines: tuple[str, ...]


def load_query(file: str, name: str) -> Query:
    """Return a query of `<area>/queries.sql`, `<area>.sql` or `<area>/<thing>.sql`.

    Raises LookupError, OSError and ValueError.
    Its lines become one without comments: the driver keeps how a statement is written for the server if it is short.
    """
    return _made(" ".join(_lines(file, name)), file, name, load_blocks(file)[name].description)


@cache
def load_blocks(file: str) -> Mapping[str, Block]:
    """Return the blocks of a file by name, in their order. Raises OSError, and ValueError for a line outside them."""
    return dict(_blocks(path_of(file).read_text(encoding="utf-8").splitlines()))


def path_of(file: str) -> Path:
    """Where the blocks of an area stand (`billing`), of an area of one module (`deploys`), or of a resource."""
    beside = ROOM / f"{file}.sql"
    return beside if beside.is_file() else ROOM / file / "queries.sql"


def _written(content: Query | str | int | tuple[str, ...]) -> str:
    if isinstance(content, Query | int):
        return str(content)
    names = (content,) if isinstance(content, str) else content
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a table or column.")
    return ", ".join(names)


def _made(text: str, file: str, name: str, description: str) -> Query:
    query = Query(text.encode())
    query.file, query.name, query.description = file, name, description
    return query


def _blocks(lines: list[str]) -> Iterator[tuple[str, Block]]:
    heads = [(place, found) for place, line in enumerate(lines) if (found := _HEAD.fullmatch(line))]
    names = [found["name"] for _, found in heads]
    if len(set(names)) != len(names) or any(map(str.strip, lines[: heads[0][0] if heads else None])):
        raise ValueError(f"A line above all blocks, or two blocks of one name: {names}")
    ends = [*(place for place, _ in heads[1:]), len(lines)]
    for (place, found), end in zip(heads, ends, strict=True):
        body = [line.strip() for line in lines[place + 1 : end]]
        says = next((at for at, line in enumerate(body) if not line.startswith(COMMENT)), len(body))
        description = " ".join(line.removeprefix(COMMENT).strip() for line in body[:says])
        code = tuple(line for line in body[says:] if line and not line.startswith(COMMENT))
        yield found["name"], Block(found["part"] is not None, description, code)


def _lines(file: str, name: str) -> Iterator[str]:
    for line in load_blocks(file)[name].lines:
        if not line.startswith(INCLUDE):
            yield line
            continue
        there, _, part = line.removeprefix(INCLUDE).rpartition(".")
        yield from _lines(there or file, part)
