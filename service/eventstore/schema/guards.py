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

Connection = psycopg.Connection[Any]

FILE = "guards.txt"

# Partitions have the constraints of their tables; those of the job library are its own.
DESCRIBE = """
select line from (
select concat_ws(' ', 'trigger', c.relname, t.tgname, case t.tgenabled when 'A' then 'always' when 'O' then 'on' else
    'off' end, pg_get_triggerdef(t.oid))
from pg_trigger t join pg_class c on c.oid = t.tgrelid
where not t.tgisinternal and c.relnamespace = current_schema()::regnamespace and not starts_with(c.relname,
    'procrastinate_')
union all
select concat_ws(' ', 'constraint', c.relname, k.conname, case when k.convalidated then 'on' else 'off' end,
    pg_get_constraintdef(k.oid))
from pg_constraint k join pg_class c on c.oid = k.conrelid
where k.contype in ('p', 'u', 'c', 'f') and c.relnamespace = current_schema()::regnamespace and not c.relispartition
    and not starts_with(c.relname, 'procrastinate_')
) described(line) order by line collate "C"
"""
_FUNCTIONS = """
select p.proname::text, p.prosrc, p.prosecdef, coalesce(p.proconfig, '{}')
from pg_proc p where p.proname = any(%s) and p.pronamespace = current_schema()::regnamespace
"""
_BY_LATER = "select name, release from schema_functions"
# Whoever owns a table, its functions, its schema or the database can take away what guards the history.
_OWNERS = """
with mine as (select relowner from pg_class where oid = 'events'::regclass)
select 'table_of_another_owner', format('%s belongs to %s', c.relname, pg_get_userbyid(c.relowner))
from pg_class c, mine where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p', 'v', 'S')
    and c.relowner <> mine.relowner
union all
select 'function_of_another_owner', format('%s belongs to %s', p.proname, pg_get_userbyid(p.proowner))
from pg_proc p, mine where p.pronamespace = current_schema()::regnamespace and p.proowner <> mine.relowner
union all
select 'database_of_another_owner', format('%s owns the %s', r.rolname, o.what)
from mine, (select 'database' as what, datdba as owner from pg_database where datname = current_database()
    union all select 'schema', nspowner from pg_namespace where nspname = current_schema()) o
join pg_roles r on r.oid = o.owner
where o.owner <> mine.relowner and not r.rolsuper and r.rolname <> 'pg_database_owner'
union all
select 'may_change_history', format('%s may %s events', r.rolname, w.what)
from mine, pg_roles r, unnest(array['UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER']) w(what)
where r.rolcanlogin and not r.rolsuper and not pg_has_role(r.oid, mine.relowner, 'member') and (
    has_table_privilege(r.oid, 'events', w.what)
    or (w.what = 'UPDATE' and has_any_column_privilege(r.oid, 'events', w.what)))
order by 1, 2
"""
_SERVING = """
select r.rolname::text, r.rolsuper, pg_has_role(current_user, c.relowner, 'member')
    or pg_has_role(current_user, (select nspowner from pg_namespace where nspname = current_schema()), 'member'),
    has_table_privilege('events', 'INSERT')
from pg_roles r, pg_class c where r.rolname = current_user and c.oid = 'events'::regclass
"""
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
    return [line for (line,) in connection.execute(DESCRIBE.encode()).fetchall()]


def check_guards(connection: Connection, *, parted: bool = False) -> Iterator[Weakness]:
    """Compare what guards the history with what this release makes; yields what is weaker. Reads only.

    `parted` is whether a role of its own is meant to own the tables: then the one that serves must not.
    """
    later = migrations.of_later_releases(connection)
    yield from _check_catalogue(connection, only_history=bool(later))
    yield from _check_functions(connection)
    for what, detail in connection.execute(_OWNERS.encode()).fetchall():
        yield Weakness(what, detail)
    serving = serving_role(connection)
    if serving.appends and serving.superuser:
        yield Weakness("superuser_serves", f"{serving.name} is a superuser, whom no guard stops")
    elif serving.appends and serving.owns and parted:
        yield Weakness("owner_serves", f"{serving.name} owns the tables, and can drop their guards")


def serving_role(connection: Connection) -> Serving:
    """What the role of this connection may do to the history."""
    [row] = connection.execute(_SERVING.encode()).fetchall()
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
