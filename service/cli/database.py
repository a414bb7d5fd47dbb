"""`service db`: the schema, and copies of the data."""

from __future__ import annotations

from pathlib import Path

import click

from service.cli.shared.common import as_owner, database, json_option, print_json, print_table, progress, say, show
from service.settings import load_settings


@click.group()
def db() -> None:
    """Migrate, back up and restore the database."""


@db.command()
def migrate() -> None:
    """Bring the schema up to date. Safe beside running processes and other runs."""
    from service.eventstore.schema import functions, migrations, roles

    with database(current=False, makes=True) as settings:
        files = len(migrations.discover()) + len(functions.discover())
        with progress("Migrations") as report:
            done: list[str] = []

            def applied(name: str) -> None:
                done.append(name)
                report(len(done), files)

            roles.bring_forward(settings.database_url, settings.migration_database_url, applied)
    for name in done:
        say(f"applied {name}")
    say("The schema is up to date.")


@db.command()
@json_option
def status(as_json: bool) -> None:
    """Show each migration and each SQL function, and how it stands. Exit code 0 only when all are applied.

    Those of a later release that this one can work beside are shown too (later), and are no hindrance.
    """
    import psycopg

    from service.eventstore.schema import migrations

    with (
        database(current=False) as settings,
        psycopg.connect(settings.database_url, autocommit=True) as connection,
    ):
        standings = migrations.status(connection)
    rows = [{"migration": name, "status": standing.value} for name, standing in standings]
    show(rows, ("migration", "status"), as_json=as_json)
    if not migrations.serves(standings):
        raise SystemExit(1)


@db.command("grant-auditor")
@click.argument("role")
@json_option
def grant_auditor(role: str, as_json: bool) -> None:
    """Let ROLE, which exists, read what the reading commands need, and nothing else; prints its rights.

    That is the history, the read models and the counters, with the titles of cases, the ids of users and the hashes of
    secrets that they hold. It is not what decides nothing: sealed copies, answers kept for repeated requests, the texts
    of telemetry, jobs. Run it again after an upgrade. A role that serves, owns the tables, is a superuser or belongs to
    another role is refused.
    """
    import psycopg

    from service.cli.shared.auditing import reader
    from service.eventstore.schema.roles import let_read

    if load_settings(secrets=False).embedded:
        raise click.ClickException(
            "The embedded database lets in nobody but the user that runs it. With a database of your own, "
            "SERVICE_DATABASE_URL, others may read."
        )
    with database() as settings, psycopg.connect(as_owner(settings).database_url, autocommit=True) as connection:
        granted = let_read(connection, role, reader())
    if as_json:
        print_json(granted)
        return
    for line in granted:
        say(line)
    say(f"{role} reads, and may do nothing else. Let it connect by SERVICE_DATABASE_URL; it needs no secrets.")


@db.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE when there is one already.")
def backup(file: Path, *, force: bool) -> None:
    """Write everything in the database into FILE, as it is at this moment, while the service runs.

    FILE is then read back: it has to hold every row and every head of that moment, or it is not kept. Every supported
    server takes it, older ones too. Keys that seal data are not in it: keep SERVICE_ENCRYPTION_KEY and
    SERVICE_SIGNING_KEY (or the secrets in the data directory) with it, or what they sealed cannot be read again.
    """
    from service.cli.shared.copies import back_up

    with database() as settings, progress("Tables") as report:
        extent = back_up(as_owner(settings), file, report, force=force)
    say(f"Wrote {file} ({file.stat().st_size} bytes) and read it back.")
    say(f"Log in it: {extent}")


@db.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def restore(file: Path) -> None:
    """Fill an empty database from FILE, whole or not at all; then bring its schema up to date."""
    from service.cli.shared.copies import bring_back, extent_of
    from service.cli.shared.lookups import has_tables
    from service.eventstore.schema import roles

    with database(current=False, makes=True) as settings:
        if has_tables(settings):
            raise click.ClickException(
                "The database is not empty. Restore into a new one: set SERVICE_DATA_DIR to a new directory, or "
                "SERVICE_DATABASE_URL to an empty database."
            )
        with progress("Tables") as report:
            bring_back(as_owner(settings), file, report)
        done = roles.bring_forward(settings.database_url, settings.migration_database_url)
        extent = extent_of(settings)
    print_table([{"migration": name} for name in done], ("migration",), empty="The schema was up to date.")
    say(f"Restored {file}.")
    say(f"Log in it: {extent}")
