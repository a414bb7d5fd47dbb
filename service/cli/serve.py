"""`service serve` and `service worker`: the processes that stay."""

import click

import service.process  # noqa: F401 - first: it says what the logger does without
from service.settings import load_settings


@click.command()
def serve() -> None:
    """Run the API, the worker and, by default, the database, in the foreground.

    It migrates the schema first. SIGTERM or Ctrl-C stops everything. With SERVICE_DATABASE_URL, you can run
    several on one database.
    """
    from service.cli.shared.common import started_as
    from service.logs import configure
    from service.process.selfreports import reporter_of
    from service.process.supervisor import Supervisor

    settings = load_settings()
    configure(settings.log_level, "supervisor", reporter_of(settings))
    Supervisor(settings, started_as()).run()


@click.command()
def worker() -> None:
    """Run one more worker beside `serve`. SIGTERM or Ctrl-C stops it."""
    import psycopg

    from service.cli.shared.common import database
    from service.eventstore.schema.migrations import check_database
    from service.process import worker as process

    with database(serves=True) as settings:  # what it has to say are lines of a log
        with psycopg.connect(settings.database_url) as connection:
            check_database(connection, test_clock=settings.test_clock)
        process.main()
