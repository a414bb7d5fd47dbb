"""SQL functions: each in a file of its own, applied whenever its text is not the one that the database has.

A function is code, not schema: it is replaced as a whole, and the file always shows what runs. Two releases may run
side by side on one database, so a text must go on serving the release before; what that one calls can therefore not
change its signature. A new signature takes a new name, and the old function goes a release later, by a migration.

The runner of the migrations calls this under its lock, after them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any, NamedTuple

import psycopg

from service.release import VERSION
from service.sql import load_query

Connection = psycopg.Connection[tuple[Any, ...]]

FOLDER = "functions"
WAIT = "500ms"

_LEDGER = load_query("eventstore/schema", "function_ledger")
# Also those that were made by a migration: the ledger alone does not tell whether a function is there.
_SIGNATURES = load_query("eventstore/schema", "signatures")
_RECORD = load_query("eventstore/schema", "record_function")


class SignatureChanged(Exception):
    """A file does not replace the function of its name; the message says what to do."""


class Function(NamedTuple):
    """A file: the name of its function, its SQL and the hex SHA-256 of its bytes."""

    name: str
    sql: str
    checksum: str

    @property
    def path(self) -> str:
        """How the file is called where migrations are listed too."""
        return f"{FOLDER}/{self.name}"


def is_later(version: str) -> bool:
    """Whether a version is one after this release."""
    return _numbers(version) > _numbers(VERSION)


def discover() -> list[Function]:
    """All functions of this version, by name."""
    found = []
    for file in resources.files("service.eventstore.schema").joinpath("sql", FOLDER).iterdir():
        if file.name.endswith(".sql"):
            content = file.read_bytes()
            name = file.name.removesuffix(".sql")
            found.append(Function(name, content.decode(), hashlib.sha256(content).hexdigest()))
    return sorted(found)


def pending(connection: Connection, functions: Sequence[Function], version: str = "") -> list[Function]:
    """The functions that release `version` (this one when empty) would apply now; reads only.

    One that a later release has applied is not among them: an older one that starts again beside it leaves it alone.
    """
    mine = _numbers(version or VERSION)
    applied: dict[str, tuple[str, str]] = {}
    [[ledger]] = connection.execute("select to_regclass('schema_functions')::text").fetchall()
    if ledger:
        applied = {name: (checksum, by) for name, checksum, by in connection.execute(_LEDGER).fetchall()}
    there = _signatures(connection, functions)
    due = []
    for function in functions:
        checksum, by = applied.get(function.name, ("", ""))
        if function.name not in there or (checksum != function.checksum and _numbers(by) <= mine):
            due.append(function)
    return due


def apply(connection: Connection, functions: Sequence[Function], version: str = "") -> list[Function]:
    """Apply what is pending, all of it in one transaction; returns what was applied.

    Raises SignatureChanged when a file would make another function beside the one of its name, and psycopg.Error when
    its text is wrong; nothing is applied then.
    """
    due = pending(connection, functions, version)
    if not due:
        return []
    before = _signatures(connection, due)
    with connection.transaction():
        connection.execute(resources.files("service.eventstore.schema").joinpath("sql", "functions.sql").read_bytes())
        connection.execute(f"set local lock_timeout = '{WAIT}'")
        # Once without looking into their bodies, so that they may call each other in any order; then with.
        for look in ("off", "on"):
            connection.execute(f"set local check_function_bodies = {look}")
            for function in due:
                _create(connection, function)
        after = _signatures(connection, due)
        for function in due:
            _check(function, before.get(function.name), after.get(function.name, []))
            connection.execute(_RECORD, (function.name, function.checksum, version or VERSION))
    return due


def _create(connection: Connection, function: Function) -> None:
    try:
        connection.execute(function.sql)
    except psycopg.errors.InvalidFunctionDefinition as error:  # Names of parameters, or what it returns.
        raise SignatureChanged(_advice(function, str(error.diag.message_primary))) from error


def _check(function: Function, before: Sequence[str] | None, after: Sequence[str]) -> None:
    """Make sure that there is one function of the name, with the parameters that callers know."""
    if len(after) != 1:
        raise SignatureChanged(_advice(function, f"the database would have {len(after)} functions of that name"))
    if before is not None and list(before) != list(after):
        raise SignatureChanged(_advice(function, f"it was {before[0]} and would be {after[0]}"))


def _advice(function: Function, what: str) -> str:
    return (
        f"{function.path} has another signature than the function of this name that the database has: {what}. The "
        "release before still calls that one. Give the new one a new name and a file of its own, and drop the old one "
        "a release later."
    )


def _signatures(connection: Connection, functions: Sequence[Function]) -> dict[str, list[str]]:
    """Parameters and results of the functions of these names, as the database has them."""
    rows = connection.execute(_SIGNATURES, ([function.name for function in functions],)).fetchall()
    return dict(rows)


def _numbers(version: str) -> tuple[int, ...]:
    """A version as numbers to compare; the empty text comes before every version."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
