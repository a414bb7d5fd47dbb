"""What the rows of a rebuild depend on beside the history, as one hash: the code of the fold, the shape of the table.

A fold is a pure function and reaches nothing outside the pure rooms (the import contracts hold it to that), so their
whole source stands for it. That takes too much for a change of the fold rather than too little: a rebuild that starts
over costs time, and one that mixes rows of two folds is wrong.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

import projections
import schemas
import statemachines
from projections.kernel.projection import AnyProjection
from service.eventstore.history import folding

_SHAPE = """
select coalesce(json_agg(x.line order by x.line), '[]')::text from (
    select format('%%s %%s %%s %%s', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attcollation) line
    from pg_attribute a where a.attrelid = %(table)s::text::regclass and a.attnum > 0 and not a.attisdropped
    union all
    select pg_get_constraintdef(c.oid) from pg_constraint c where c.conrelid = %(table)s::text::regclass
    union all
    select substr(i.indexdef, position(' USING ' in i.indexdef)) from pg_indexes i
    where i.schemaname = current_schema() and i.tablename = %(table)s::text
) x
"""


def fold_digest(connection: psycopg.Connection[Any], projection: AnyProjection) -> str:
    """Return the hash, hex, of a projection's fold and of its table as it is in the database."""
    digest = hashlib.sha256(_source_of_rooms().encode())
    for function in (projection.fold, projection.lasts):
        digest.update(f"{function.__module__}.{function.__qualname__}\0".encode())
        digest.update(source_of([_file_of(function.__module__)]).encode())
    [[shape]] = connection.execute(_SHAPE.encode(), {"table": projection.name}).fetchall()
    digest.update(shape.encode())
    return digest.hexdigest()


def source_of(files: Iterable[Path]) -> str:
    """Return the hash, hex, of the names and contents of files."""
    digest = hashlib.sha256()
    for file in sorted(files):
        content = file.read_bytes()
        digest.update(f"{file.parent.name}/{file.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


@cache
def _source_of_rooms() -> str:
    rooms = [_file_of(room.__name__).parent for room in (schemas, statemachines, projections)]
    return source_of([_file_of(folding.__name__), *_sources(rooms)])


def _sources(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from folder.rglob("*.py")


def _file_of(module: str) -> Path:
    file = sys.modules[module].__file__
    assert file is not None, "what is imported from nowhere has no source"
    return Path(file)
