"""`service db`: the schema, and copies of the data."""

from pathlib import Path

import click

from service.cli.shared.common import as_owner, database, json_option, print_json, print_table, progress, say, show
from service.settings import load_settings


@click.group()
def db() -> None:
    """Migrate, back up and restore the database."""


@db.command()
def migrate() -> None:
    """Migrate the schema. Safe beside running processes and other runs."""
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
    """List migrations and SQL functions with their status. Exits with 0 when all are applied.

    `later` marks those of a later release that this one can run beside.
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
    """Grant ROLE the rights of an auditor, and print them.

    ROLE must exist. An auditor reads the history, the read models and the counters, with titles of cases, ids of users
    and hashes of secrets. An auditor does not read sealed copies, stored answers, texts of telemetry or jobs. Run it
    again after an upgrade. The command refuses a role that serves, owns the tables, is a superuser or belongs to
    another role.
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
    say(f"{role} can read, and nothing else. It connects with SERVICE_DATABASE_URL and needs no secrets.")


@db.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE when there is one already.")
def backup(file: Path, *, force: bool) -> None:
    """Write the whole database into FILE while the service runs.

    The command reads FILE back and keeps it only if it holds every row and every head of that moment. You can restore
    it on every supported server. It does not hold your keys. Keep SERVICE_ENCRYPTION_KEY and SERVICE_SIGNING_KEY,
    or the secrets in the data directory, with it. Without them you cannot read sealed data.
    """
    from service.cli.shared.copies import back_up

    with database() as settings, progress("Tables") as report:
        extent = back_up(as_owner(settings), file, report, force=force)
    say(f"Wrote {file} ({file.stat().st_size} bytes) and read it back.")
    say(f"Log in it: {extent}")


@db.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def restore(file: Path) -> None:
    """Restore FILE into an empty database, whole or not at all, and migrate it."""
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


@db.command()
@click.option(
    "--from-bin",
    "programs",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Directory with postgres and pg_dump of the PostgreSQL that made the files.",
)
def upgrade(programs: Path) -> None:
    """Move the embedded database to the major version of PostgreSQL that this release has.

    Stop the service first. The programs in DIR start on the old files and copy them, and those of this release restore
    the copy into new files beside them. These replace the old ones when they hold the same log. The old files keep
    another name, which the command prints. It takes free space for a second database and a compressed copy.
    """
    from service.cli.shared.upgrading import upgrade_embedded

    done = upgrade_embedded(load_settings(secrets=False), programs)
    if done is None:
        say("Nothing to do: the database belongs to the PostgreSQL of this release.")
        return
    say(f"The database is that of PostgreSQL {done.after} now.")
    say(f"Log in it: {done.extent}")
    say(f"The files of PostgreSQL {done.before} are in {done.kept}. Remove them when you no longer need them.")
