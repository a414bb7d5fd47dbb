"""Making the database ready to be served from: its schema, rights and fitness, and what has to be erased once more.

The supervisor loads this while its children load and the database starts: nothing of it is needed before.
"""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

import psycopg
import structlog

from service.deletion.advancing import to_erase_again
from service.deletion.ledger import people_erased
from service.eventstore.schema import migrations, roles
from service.settings import Settings

log = structlog.get_logger()


def make_ready(settings: Settings) -> None:
    """Bring the schema up to date, and look whether the database is fit to serve from.

    Raises MigrationError, UnfitDatabase and psycopg.Error, and OSError for the ledger of erasures.
    """
    done = roles.bring_forward(
        settings.database_url, settings.migration_database_url, lambda name: log.debug("applied", name=name)
    )
    if done:
        log.info("migrated", files=len(done), last=done[-1])
    with psycopg.connect(settings.database_url) as connection:
        if later := migrations.of_later_releases(connection):
            log.info("beside_a_later_release", migrations=later)
        migrations.check_database(connection, test_clock=settings.test_clock)
    _erase_again(settings)
    _erase_people_again(settings)


def _erase_again(settings: Settings) -> None:
    """Erase once more what a restored backup has brought back. Nothing is served before that is done."""
    url, ledger = settings.database_url, settings.erasure_ledger
    found = to_erase_again(url, ledger)
    if not found:
        return
    sys.stdout.write(
        f"The database holds {len(found)} project(s) or account(s) that {ledger} says were erased. "
        "They are erased again before the service is ready.\n"
    )
    sys.stdout.flush()
    # It loads every machine, and hardly any start needs it.
    from service.deletion.advancing import erase_again  # noqa: PLC0415

    # In a thread of its own: the signals of this one wake the supervisor, and stay its own.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, erase_again(url, ledger, found)).result()
    log.warning("erased_again", number=len(found))


def _erase_people_again(settings: Settings) -> None:
    """Erase people of a restored backup once more."""
    url, ledger = settings.database_url, settings.erasure_ledger
    if not people_erased(ledger):
        return
    # It loads every machine, and few installations erase people.
    from service.deletion import people  # noqa: PLC0415

    found = people.people_to_erase_again(url, ledger)
    if not found:
        return
    sys.stdout.write(
        f"The database does not know {len(found)} deletion(s) of people that {ledger} names. "
        "They are carried out again before the service is ready.\n"
    )
    sys.stdout.flush()
    with ThreadPoolExecutor(1) as thread:
        again = people.erase_people_again(url, ledger, people.keys_of(settings), found)
        thread.submit(asyncio.run, again).result()
    log.warning("people_erased_again", number=len(found))
