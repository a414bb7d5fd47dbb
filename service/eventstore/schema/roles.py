"""Roles of the database beside the one that owns the tables: one that serves, and ones that only read.

Who owns a table can take away its guards. With an owner apart, the role that serves may append to the history and
nothing else there; everything that needs an owner goes through functions that are made for it (`AS_OWNER`), or is
done by `service db migrate` and `service projections rebuild`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import sql

from service.eventstore.connect.hosts import CONNECT_SECONDS
from service.eventstore.schema import migrations
from service.eventstore.schema.migrations import MigrationError
from service.sql import load_query

Connection = psycopg.Connection[Any]

# What the role that serves may do to each table; all four to those that are not named.
_ALL: Final = "select, insert, update, delete"
SERVING: Final[Mapping[str, str]] = {
    "events": "select, insert",
    "stream_heads": "select, insert, update",
    "log_index": "select, insert",
    "log_state": "select, update",
    "log_origins": "select, insert",
    "log_tiles": "select, insert",
    "log_checkpoints": "select, insert, update, delete",
    "log_cosignatures": "select, insert",
    "log_keys": "select, insert",
    "project_positions": "select, insert",
    "unsequenced": "select, insert, delete",
    "installation": "select",
    "event_properties": "select",
    "inventories": "select",
    "invitation_standings": "select",
    "owned_projects": "select",
    "ownerships": "select",
    "person_namings": "select",
    "queried_deploys": "select",
    "queried_errors": "select",
    "queried_events": "select",
    "service_clock": "select, update",
    "schema_migrations": "select",
    "schema_functions": "select",
}
AS_OWNER: Final = (
    "deploys_as_queried", "drop_empty_partition", "drop_ended_partition", "drop_rebuild_halves", "ensure_partition",
    "erase_events", "erase_payloads",
)  # fmt: skip
"""Functions that work with the rights of the tables' owner: nobody but the role that serves may call them."""
QUERIED: Final = ("queried_deploys", "queried_errors", "queried_events")
"""Views that callers' own queries read."""
QUERYING: Final = "{}_queries"
"""The role of callers' queries, by the role that serves: all that it sees is QUERIED."""
READABLE: Final = (
    "checkpoints", "events", "installation", "log_checkpoints", "log_cosignatures", "log_index", "log_keys",
    "log_origins", "log_standing", "log_state", "log_tiles", "project_positions", "rebuilds",
    "schema_functions", "schema_migrations", "service_clock", "snapshots", "stream_heads", "topics_met", "unsequenced",
)  # fmt: skip
"""Tables of the event store that the commands read which only read."""

_TABLES = load_query("eventstore/schema", "tables")
_OWNED = load_query("eventstore/schema", "owner")
_ROLE = load_query("eventstore/schema", "role")
_FREE = load_query("eventstore/schema", "attributes")
_MEMBER_OF = load_query("eventstore/schema", "member_of")
_CONNECTS = load_query("eventstore/schema", "connects")
_OPEN = load_query("eventstore/schema", "open_functions")
_GRANTED = load_query("eventstore/schema", "granted")
_RIGHTS = load_query("eventstore/schema", "rights")


class RoleError(Exception):
    """A role cannot be what it is wanted for; the message says why, and what to do."""


class ReadingRole(NamedTuple):
    """What a role that only reads may see: whole tables, and of some tables certain columns."""

    tables: Collection[str]
    columns: Mapping[str, Collection[str]]


def bring_forward(serving_url: str, owner_url: str | None, report: Callable[[str], None] | None = None) -> list[str]:
    """Migrate as the owner, and give the role that serves its rights; returns what was applied.

    Without an owner apart the role that serves owns everything. Raises MigrationError and psycopg.Error.
    """
    if owner_url is None:
        done = migrations.migrate(serving_url, report=report)
        with psycopg.connect(serving_url, autocommit=True) as connection, connection.transaction():
            _alone(connection)
            _close_functions(connection)
        return done
    with psycopg.connect(owner_url, autocommit=True) as owner:
        _check_owner(owner)
    done = migrations.migrate(owner_url, report=report)
    with (
        psycopg.connect(owner_url, autocommit=True) as owner,
        psycopg.connect(serving_url, autocommit=True) as serving,
    ):
        let_serve(owner, _role_of(serving))
        _check_same(owner, serving)
    return done


def check_parted(serving_url: str, owner_url: str) -> None:
    """Look whether one role can own the tables and the other serve, as a start does; changes nothing.

    Raises MigrationError and psycopg.Error.
    """
    with (
        psycopg.connect(owner_url, autocommit=True, connect_timeout=CONNECT_SECONDS) as owner,
        psycopg.connect(serving_url, autocommit=True, connect_timeout=CONNECT_SECONDS) as serving,
    ):
        _check_same(owner, serving)
        _check_owner(owner)
        _check_serves(owner, _role_of(serving))


def let_serve(owner: Connection, role: str) -> None:
    """Give a role the rights that serving needs, and take what it has beyond them. Raises MigrationError."""
    _check_serves(owner, role)
    name = sql.Identifier(role)
    with owner.transaction():
        _alone(owner)
        schema = _schema(owner)
        owner.execute(sql.SQL("grant usage on schema {} to {}").format(schema, name))
        owner.execute(sql.SQL("grant usage, select on all sequences in schema {} to {}").format(schema, name))
        for (table,) in owner.execute(_TABLES).fetchall():
            wanted = sql.SQL(SERVING.get(table, _ALL))
            if table in SERVING:
                owner.execute(sql.SQL("revoke all on {} from {}").format(sql.Identifier(table), name))
            owner.execute(sql.SQL("grant {} on {} to {}").format(wanted, sql.Identifier(table), name))
        _close_functions(owner)
        for function in AS_OWNER:
            owner.execute(sql.SQL("grant execute on function {} to {}").format(sql.Identifier(function), name))
        _let_query(owner, QUERYING.format(role), schema)


def let_read(owner: Connection, role: str, reader: ReadingRole) -> list[str]:
    """Let a role read what the reading commands need and nothing else; returns what it may do, a table a line.

    Raises RoleError for a role that is not there, that may write, that could do anything anyhow, that is a member of
    another one and would have its rights, or that cannot be let into the database.
    """
    if not owner.execute("select from pg_roles where rolname = %s", (role,)).fetchall():
        raise RoleError(f"There is no role {role}. Make it first: create role {role} login password '…';")
    superuser, owns, appends = _judged(owner, role)
    if superuser or owns or appends:
        why = "a superuser" if superuser else "the owner of the tables" if owns else "the role that serves"
        raise RoleError(f"{role} is {why}, so it could do more than read. Name another role.")
    _check_bare(owner, role)
    name = sql.Identifier(role)
    with owner.transaction():
        _alone(owner)
        schema = _schema(owner)
        _let_connect(owner, role)
        owner.execute(sql.SQL("revoke all on all tables in schema {} from {}").format(schema, name))
        owner.execute(sql.SQL("grant usage on schema {} to {}").format(schema, name))
        for table in sorted(reader.tables):
            owner.execute(sql.SQL("grant select on {} to {}").format(sql.Identifier(table), name))
        for table, columns in sorted(reader.columns.items()):
            names = sql.SQL(", ").join(map(sql.Identifier, columns))
            owner.execute(sql.SQL("grant select ({}) on {} to {}").format(names, sql.Identifier(table), name))
        _close_functions(owner)
        granted = [line for (line,) in owner.execute(_GRANTED, (role,)).fetchall()]
    return [*granted, *(f"select on {table} ({', '.join(columns)})" for table, columns in reader.columns.items())]


def _let_query(owner: Connection, role: str, schema: sql.Identifier) -> None:
    """Let the role of callers' queries see their views and nothing else, where there is such a role."""
    if not owner.execute("select from pg_roles where rolname = %s", (role,)).fetchall():
        return
    name = sql.Identifier(role)
    owner.execute(sql.SQL("revoke all on all tables in schema {} from {}").format(schema, name))
    owner.execute(sql.SQL("grant usage on schema {} to {}").format(schema, name))
    for view in QUERIED:
        owner.execute(sql.SQL("grant select on {} to {}").format(sql.Identifier(view), name))
    owner.execute(sql.SQL("grant execute on function deploys_as_queried to {}").format(name))


def copy_rights(connection: Connection, table: str, other: str) -> None:
    """Give every role the rights on another table that it has on this one: `like` does not take them along."""
    for privilege, role in connection.execute(_RIGHTS, (table,)).fetchall():
        connection.execute(
            sql.SQL("grant {} on {} to {}").format(sql.SQL(privilege), sql.Identifier(other), sql.Identifier(role))
        )


def _close_functions(owner: Connection) -> None:
    """Let nobody call the functions that work with the owner's rights but whom it was granted."""
    for (name,) in owner.execute(_OPEN, (list(AS_OWNER),)).fetchall():
        owner.execute(sql.SQL("revoke execute on function {} from public").format(sql.Identifier(name)))


def _alone(connection: Connection) -> None:
    """Wait for whoever else changes rights, until the end of the transaction: two at once would fail."""
    connection.execute("select pg_advisory_xact_lock(%s)", (migrations.RUNNER_LOCK,))


def _check_owner(owner: Connection) -> None:
    found = owner.execute(_OWNED).fetchall()
    if found and not found[0][1]:
        present, wanted = found[0][0], _role_of(owner)
        raise MigrationError(
            f"The tables belong to {present}, not to {wanted}, the role of SERVICE_MIGRATION_DATABASE_URL. Hand them "
            f"over as a superuser, in this database: reassign owned by {present} to {wanted};"
        )


def _judged(owner: Connection, role: str) -> tuple[bool, bool, bool]:
    """Whether a role is a superuser, owns the tables, may append to the history."""
    [(superuser, owns, appends)] = owner.execute(_ROLE, (role,)).fetchall()
    return superuser, owns, appends


def _check_serves(owner: Connection, role: str) -> None:
    superuser, owns, _ = _judged(owner, role)
    if superuser or owns:
        why = "is a superuser" if superuser else "owns the tables"
        raise MigrationError(
            f"SERVICE_MIGRATION_DATABASE_URL is set, but {role}, the role of SERVICE_DATABASE_URL, {why}. Serve as a "
            "role of its own (create role … login), which owns nothing."
        )


def _check_same(owner: Connection, serving: Connection) -> None:
    if _salt(owner) != _salt(serving):
        raise MigrationError("SERVICE_MIGRATION_DATABASE_URL and SERVICE_DATABASE_URL name different databases.")


def _check_bare(owner: Connection, role: str) -> None:
    """Raise RoleError for a role that has rights beside those that it is granted: attributes, or another role's."""
    [[free]] = owner.execute(_FREE, (role,)).fetchall()
    if free:
        raise RoleError(f"{role} has {free}, so it could do more than read. Name another role.")
    [[others]] = owner.execute(_MEMBER_OF, (sql.Identifier(role).as_string(owner),)).fetchall()
    if others:
        raise RoleError(
            f"{role} is a member of {others}, and would have those rights too. Name another role, or take them back: "
            f"revoke {others} from {role};"
        )


def _let_connect(owner: Connection, role: str) -> None:
    """Let a role into the database, where that is not everybody's right. Raises RoleError."""
    if owner.execute(_CONNECTS, (role,)).fetchall() == [(True,)]:
        return
    name = sql.Identifier(owner.info.dbname)
    # Who does not own the database is only warned that nothing was granted.
    owner.execute(sql.SQL("grant connect on database {} to {}").format(name, sql.Identifier(role)))
    if owner.execute(_CONNECTS, (role,)).fetchall() != [(True,)]:
        grant = sql.SQL("grant connect on database {} to {};").format(name, sql.Identifier(role)).as_string(owner)
        raise RoleError(f"{role} may not connect to the database. Let its owner or a superuser run: {grant}")


def _role_of(connection: Connection) -> str:
    [[role]] = connection.execute("select current_user::text").fetchall()
    return str(role)


def _schema(connection: Connection) -> sql.Identifier:
    [[schema]] = connection.execute("select current_schema()::text").fetchall()
    return sql.Identifier(schema)


def _salt(connection: Connection) -> str:
    """What tells one installation from another; empty where the role finds none."""
    try:
        [[salt]] = connection.execute("select salt from installation").fetchall()
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable):
        return ""
    return str(salt)
