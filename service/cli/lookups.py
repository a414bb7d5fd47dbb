"""Queries about a database that several commands share."""

from __future__ import annotations

import psycopg

from service.eventstore import migrations
from service.eventstore.migrations import MigrationError, Standing
from service.settings import Settings


def require_current(settings: Settings) -> None:
    """Raise MigrationError unless the schema is the one of this version."""
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        wrong = [
            (name, standing) for name, standing in migrations.status(connection) if standing is not Standing.APPLIED
        ]
    if wrong:
        name, standing = wrong[0]
        raise MigrationError(
            f"Migration {name} is {standing.value}; run `service db migrate` or `service serve` first."
        )


def has_tables(settings: Settings) -> bool:
    """Whether the database holds anything of the service, or of anybody, in its schema."""
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        query = "select exists (select from pg_tables where schemaname = current_schema())"
        return connection.execute(query).fetchone() == (True,)
