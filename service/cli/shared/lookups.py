"""Queries about a database that several commands share."""

from typing import Any

import click
import psycopg
from psycopg.conninfo import conninfo_to_dict

from service.eventstore.connect.hosts import hosts_of
from service.eventstore.schema import migrations
from service.settings import Settings
from service.sql import load_query

_PROJECT_IS_THERE = load_query("cli", "project_is_there")
_ANY_TABLE = load_query("cli", "any_table")


def place_of(settings: Settings) -> str:
    """Where the data is, for people: the data directory, or the database without its password."""
    if settings.embedded:
        return f"PostgreSQL in {settings.data_dir}"
    parts = conninfo_to_dict(settings.database_url)
    if hosts := hosts_of(settings.database_url):
        return f"{parts.get('dbname') or parts.get('user') or 'the default database'} at {', '.join(map(str, hosts))}"
    place = ":".join(str(parts[name]) for name in ("host", "port") if parts.get(name)) or "the default host"
    return f"{parts.get('dbname') or parts.get('user') or 'the default database'} at {place}"


def require_current(settings: Settings) -> None:
    """Raise MigrationError unless the schema is the one of this version, or of a later one that it can work on."""
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        standings = migrations.status(connection)
    wrong = [found for found in standings if not migrations.serves([found])]
    if wrong and all(standing is migrations.MigrationStanding.PENDING for _, standing in standings):
        raise migrations.MigrationError(
            f"There is no data of the service in {place_of(settings)}. Name the database that holds it, or run "
            "`service db migrate` or `service serve` to begin in this one."
        )
    if wrong:
        name, standing = wrong[0]
        raise migrations.MigrationError(
            f"Migration {name} is {standing.value}. Run `service db migrate` or `service serve` first."
        )


def require_project(connection: psycopg.Connection[Any], project_id: str) -> None:
    """Raise ClickException when the log holds nothing of a project."""
    if connection.execute(_PROJECT_IS_THERE, {"project_id": project_id}).fetchone() != (True,):
        raise click.ClickException(f"There is no such project: {project_id}.")


def has_tables(settings: Settings) -> bool:
    """Whether the database holds anything of the service, or of anybody, in its schema."""
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        return connection.execute(_ANY_TABLE).fetchone() == (True,)
