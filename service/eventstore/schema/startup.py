"""What must hold of a database before the service serves from it."""

from __future__ import annotations

from typing import Any

import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]

OLDEST_SERVER = 150000
DURABLE = {"fsync": {"on"}, "full_page_writes": {"on"}, "synchronous_commit": {"on", "remote_apply"}}


class UnfitDatabase(Exception):
    """The database cannot keep what the service promises; the message lists why, one reason a line."""


def check_database(connection: Connection, *, test_clock: bool) -> None:
    """Refuse a server that may lose acknowledged work, and a database that tests have moved in time.

    `test_clock` is whether this process was started with the test clock. Raises UnfitDatabase.
    """
    problems = server_problems(connection)
    [[offset]] = connection.execute("select offset_seconds from service_clock").fetchall()
    if offset and not test_clock:
        problems.append(
            f"The clock of this database was moved {offset} seconds ahead by tests. It can only be used with "
            "SERVICE_TEST_CLOCK=1 and SERVICE_TEST_TOKEN."
        )
    if problems:
        raise UnfitDatabase("\n".join(problems))


def server_problems(connection: Connection) -> list[str]:
    """What is wrong with the server: its version, its encoding, its durability."""
    problems = []
    if connection.info.server_version < OLDEST_SERVER:
        problems.append("The database server is older than PostgreSQL 15.")
    names = [*DURABLE, "server_encoding"]
    rows = connection.execute("select name, setting from pg_settings where name = any(%s)", (names,)).fetchall()
    settings: dict[str, str] = dict(rows)
    if settings["server_encoding"] != "UTF8":
        problems.append("The database is not encoded in UTF8.")
    problems += [
        f"{name} is {settings[name]} on the database server; it must be {' or '.join(sorted(allowed))}, because "
        "answered work would be lost in a crash."
        for name, allowed in DURABLE.items()
        if settings[name] not in allowed
    ]
    return problems
