"""Whether the database still guards the history as the migrations made it do, and who could get round that.

Triggers, constraints and functions are compared with what this release makes (`sql/guards.txt`, written by
scripts/guards.py, and the files of the functions). More than that is no finding, and neither is what a later release
has changed. Owners and rights are judged by what they allow: whoever owns a table can take its guards away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from typing import Any, NamedTuple

import psycopg

from service.eventstore.schema import functions, migrations
from service.sql import load_query

Connection = psycopg.Connection[Any]

FILE = "guards.txt"

# Partitions have the constraints of their tables; those of the job library are its own.
DESCRIBE = load_query("eventstore/schema", "describe")
_FUNCTIONS = load_query("eventstore/schema", "bodies_of_functions")
_BY_LATER = load_query("eventstore/schema", "functions_by_release")
# Whoever owns a table, its functions, its schema or the database can take away what guards the history.
_OWNERS = load_query("eventstore/schema", "owners")
_SERVING = load_query("eventstore/schema", "serving_role")
_BODY = re.compile(r"^(?P<head>create or replace function .*?)\$body\$(?P<body>.*)\$body\$", re.DOTALL | re.MULTILINE)
_SETTING = re.compile(r"\bset (\w+) = (.+?)(?: as )?$", re.MULTILINE)


class Weakness(NamedTuple):
    """Something that no longer guards the history, or somebody who could get round it."""

    what: str
    detail: str


class Serving(NamedTuple):
    """The role of a connection: whether it can do anything, can change the tables themselves, and may append."""

    name: str
    superuser: bool
    owns: bool
    appends: bool


def expected() -> list[str]:
    """Triggers and constraints as this release makes them, one a line."""
    return resources.files("service.eventstore.schema").joinpath("sql", FILE).read_text(encoding="utf-8").splitlines()


def described(connection: Connection) -> list[str]:
    """Those of a database, in the same form."""
    return [line for (line,) in connection.execute(DESCRIBE).fetchall()]


def check_guards(connection: Connection, *, parted: bool = False) -> Iterator[Weakness]:
    """Compare what guards the history with what this release makes; yields what is weaker. Reads only.

    `parted` is whether a role of its own is meant to own the tables: then the one that serves must not.
    """
    later = migrations.of_later_releases(connection)
    yield from _check_catalogue(connection, only_history=bool(later))
    yield from _check_functions(connection)
    for what, detail in connection.execute(_OWNERS).fetchall():
        yield Weakness(what, detail)
    serving = serving_role(connection)
    if serving.appends and serving.superuser:
        yield Weakness("superuser_serves", f"{serving.name} is a superuser, whom no guard stops")
    elif serving.appends and serving.owns and parted:
        yield Weakness("owner_serves", f"{serving.name} owns the tables, and can drop their guards")


def serving_role(connection: Connection) -> Serving:
    """What the role of this connection may do to the history."""
    [row] = connection.execute(_SERVING).fetchall()
    return Serving._make(row)


def _check_catalogue(connection: Connection, *, only_history: bool) -> Iterator[Weakness]:
    """Compare triggers and constraints: those of events alone where a later release may have changed others."""
    there = {_name(line): line for line in described(connection)}
    for line in expected():
        name = _name(line)
        if only_history and name[1] != "events":
            continue
        kind, table, own = name
        found = there.get(name)
        if found is None:
            yield Weakness(f"{kind}_missing", f"{own} on {table}")
        elif found.split(" ")[3] == "off":
            yield Weakness(f"{kind}_disabled", f"{own} on {table}")
        elif found != line:
            yield Weakness(f"{kind}_changed", f"{own} on {table}")


def _name(line: str) -> tuple[str, str, str]:
    kind, table, name, _ = line.split(" ", 3)
    return kind, table, name


def _check_functions(connection: Connection) -> Iterator[Weakness]:
    """Compare the functions with their files, but for those that a later release has applied."""
    files = functions.discover()
    rows = connection.execute(_FUNCTIONS, ([file.name for file in files],)).fetchall()
    there = {name: (body, definer, frozenset(settings)) for name, body, definer, settings in rows}
    by: dict[str, str] = dict(connection.execute(_BY_LATER).fetchall())
    for file in files:
        matched = _BODY.search(file.sql)
        assert matched is not None, file.name
        head = matched["head"]
        settings = frozenset(f"{name}={value}" for name, value in _SETTING.findall(head))
        made = (matched["body"], "security definer" in head, settings)
        if file.name not in there:
            yield Weakness("function_missing", file.name)
        elif there[file.name] != made and not functions.is_later(by.get(file.name, "")):
            yield Weakness("function_changed", file.name)
