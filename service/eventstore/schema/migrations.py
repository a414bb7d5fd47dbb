"""Migrations: plain numbered SQL files, forward only, each applied once and never changed afterwards.

The runner holds an advisory lock, so any number of processes may start at once. Each file is one transaction. DDL
waits for table locks at most half a second at a time and then steps back, because whatever queues behind a waiting
ALTER TABLE waits too.

The release before may run beside this one, and be started again there. A file says in a line of its head whether it
can: `-- compatible: yes`. That is recorded with it, and read by releases that do not have the file: a start goes on
when every file that it does not know is marked so, and refuses by name otherwise.

Two things stand outside of the numbered order: the schema of the job library (jobschema.py), whose text is read from
the installed package, and the SQL functions (functions.py), which are replaced whenever their text changes.
"""

from __future__ import annotations

import hashlib
import random
import re
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from enum import Enum
from importlib import metadata, resources, util
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg import sql
from psycopg.errors import DeadlockDetected, LockNotAvailable

from service.eventstore.schema import functions as sqlfunctions
from service.eventstore.schema.functions import Function, SignatureChanged

# What must hold of a database before the service serves from it.

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


# The tables of telemetry, which have a partition for each day.

TELEMETRY = ("log_events", "analytics_events")

_NAMES = (
    "select c.relname::text from pg_inherits i join pg_class c on c.oid = i.inhrelid "
    "where i.inhparent = %s::regclass order by c.relname"
)


async def partitions_of(connection: psycopg.AsyncConnection[tuple[Any, ...]], table: str) -> list[str]:
    """Names of all partitions of a table, oldest day first, the default one last."""
    cursor = await connection.execute(_NAMES, (table,))
    return [name for (name,) in await cursor.fetchall()]


def partition_of(table: str, day: int) -> str:
    """Name the partition that a day (the epoch of its midnight) has once it is made; see ensure_partition."""
    return f"{table}_{datetime.fromtimestamp(day, UTC):%Y%m%d}"


# The SQL of procrastinate, the job library: read from the installed package, never copied here. A fresh database gets
# the library's whole schema. A database that has an older one gets the library's own steps in between, so that raising
# the version in requirements/ needs no migration of ours. It stands outside of the numbered order of our own files,
# and is applied after them. The number in its name is what databases have recorded since the first release; a file of
# ours may have a lower number and be newer.

JOB_SCHEMA = "0090_procrastinate"
STEP = re.compile(r"(\d+)\.(\d+)\.(\d+)_.*\.sql")


def version() -> str:
    """The installed version."""
    return metadata.version("procrastinate")


def schema() -> str:
    """SQL that makes the whole schema in an empty database."""
    return (_directory() / "schema.sql").read_text(encoding="utf-8")


def steps(after: str) -> str:
    """SQL of the library's steps that came after version `after`, in their order; possibly empty."""
    found = []
    for file in (_directory() / "migrations").iterdir():
        matched = STEP.fullmatch(file.name)
        if matched and tuple(map(int, matched.groups())) > _numbers(after):
            found.append((file.name, file.read_text(encoding="utf-8")))
    return "\n;\n".join(text for _, text in sorted(found)) or "select 1"


def is_older(one: str, other: str) -> bool:
    """Whether version `one` came before `other`."""
    return _numbers(one) < _numbers(other)


def _directory() -> Path:
    """Where the library keeps its SQL. Importing it to ask would make each start a tenth of a second longer."""
    spec = util.find_spec("procrastinate")
    assert spec is not None, "installed, as its version is known"
    assert spec.origin is not None, "an ordinary package"
    return Path(spec.origin).parent / "sql"


def _numbers(written: str) -> tuple[int, ...]:
    """A version as numbers to compare; the empty text comes before every version."""
    return tuple(int(part) for part in re.findall(r"\d+", written)[:3])


RUNNER_LOCK = 0x53455256494345  # "SERVICE"; any number that nobody else uses
RUNNER_WAIT_SECONDS = 120.0
DDL_WAIT = "500ms"
DDL_ATTEMPTS = 60
NAME = re.compile(r"\d{4}_[a-z0-9_]+")
_MARK = re.compile(r"^-- compatible: (yes|no)$", re.MULTILINE)

LEDGER = (
    "select name, checksum, detail, coalesce((to_jsonb(m) ->> 'compatible')::boolean, false) from schema_migrations m"
)
"""Reads the ledger, also one from before there were marks; its rows are what `ledger` takes."""


class MigrationError(Exception):
    """The database and these files do not fit; the message says what to do."""


class Migration(NamedTuple):
    """A numbered file: its name without ending, its SQL and the hex SHA-256 of its bytes.

    `detail` is the version of the library that the SQL belongs to, else empty.
    """

    name: str
    sql: str
    checksum: str
    detail: str = ""

    @property
    def compatible(self) -> bool:
        """Whether the release before can run on the schema that this file makes, started before or after it."""
        mark = _MARK.search(self.sql)
        return mark is not None and mark[1] == "yes"


class MigrationStanding(Enum):
    """How a migration stands in a database."""

    APPLIED = "applied"
    PENDING = "pending"
    CHANGED = "changed"  # applied, but the file is another one now
    UNKNOWN = "unknown"  # applied, but this version of the service has no such file
    LATER = "later"  # the same, but marked as compatible: made by a later release, and no hindrance to this one


class Applied(NamedTuple):
    """A row of the ledger."""

    name: str
    checksum: str
    detail: str
    compatible: bool = False


def discover() -> list[Migration]:
    """All migrations of this version, in order; the job library's schema is the last, whatever its name says."""
    found = []
    for file in resources.files("service.eventstore.schema").joinpath("sql").iterdir():
        name = file.name.removesuffix(".sql")
        if NAME.fullmatch(name):
            content = file.read_bytes()
            found.append(Migration(name, content.decode(), hashlib.sha256(content).hexdigest()))
    found.sort()
    numbers = [migration.name[:4] for migration in found]
    assert len(numbers) == len(set(numbers)), "two migrations have one number"
    return [*found, _library_migration()]


def migrate(
    conninfo: str,
    migrations: list[Migration] | None = None,
    report: Callable[[str], None] | None = None,
    *,
    functions: list[Function] | None = None,
) -> list[str]:
    """Bring the database at `conninfo` up to date; returns the names applied now, reported one by one.

    `migrations` are those of this version, together with its functions, unless given; given ones come with the given
    `functions` only. Raises MigrationError when the database was made by other files than these, and psycopg.Error when
    a file fails (nothing of that file stays).
    """
    if functions is None:
        functions = sqlfunctions.discover() if migrations is None else []
    migrations = discover() if migrations is None else migrations
    with psycopg.connect(conninfo, autocommit=True, application_name="service-migrate") as connection:
        connection.execute("set statement_timeout = 0")
        _lock(connection)
        _make_ledger(connection)
        done = []
        for migration in _to_apply(migrations, _applied(connection)):
            _patiently(connection, migration)
            done.append(migration.name)
            if report:
                report(migration.name)
        for name in _apply(connection, functions):
            done.append(name)
            if report:
                report(name)
        return done


def _apply(connection: Connection, functions: list[Function]) -> list[str]:
    """Apply the functions whose text has changed. Raises MigrationError when one has another signature."""
    try:
        return [function.path for function in sqlfunctions.apply(connection, functions)]
    except SignatureChanged as error:
        raise MigrationError(str(error)) from error


def status(connection: Connection, migrations: list[Migration] | None = None) -> list[tuple[str, MigrationStanding]]:
    """How each migration stands, in order, then each function; reads only. Given migrations come without functions."""
    [[there]] = connection.execute("select to_regclass('schema_migrations')::text").fetchall()
    applied = _applied(connection) if there else {}
    if migrations is not None:
        return compare(applied, migrations)
    functions = sqlfunctions.discover()
    due = sqlfunctions.pending(connection, functions)
    return [
        *compare(applied, discover()),
        *((f.path, MigrationStanding.PENDING if f in due else MigrationStanding.APPLIED) for f in functions),
    ]


def compare(applied: dict[str, Applied], migrations: list[Migration]) -> list[tuple[str, MigrationStanding]]:
    """Set the ledger beside the files."""
    standings = {
        name: MigrationStanding.LATER if row.compatible else MigrationStanding.UNKNOWN for name, row in applied.items()
    }
    for migration in migrations:
        found = applied.get(migration.name)
        if found is None:
            standings[migration.name] = MigrationStanding.PENDING
        elif found.checksum == migration.checksum:
            standings[migration.name] = MigrationStanding.APPLIED
        else:
            standings[migration.name] = _standing_of_another(migration, found)
    return sorted(standings.items())


def _standing_of_another(migration: Migration, found: Applied) -> MigrationStanding:
    """How a migration stands whose recorded text is not that of its file."""
    if migration.detail and is_older(found.detail, migration.detail):
        return MigrationStanding.PENDING
    if migration.detail and is_older(migration.detail, found.detail):
        return MigrationStanding.UNKNOWN  # The library of a later release; its steps bear no mark of ours.
    return MigrationStanding.CHANGED


def serves(standings: Sequence[tuple[str, MigrationStanding]]) -> bool:
    """Whether a release can work on a database in which its migrations stand so."""
    return all(standing in {MigrationStanding.APPLIED, MigrationStanding.LATER} for _, standing in standings)


def of_later_releases(connection: Connection) -> list[str]:
    """Names of the migrations of later releases that this one goes on beside; reads only."""
    return [name for name, standing in compare(_applied(connection), discover()) if standing is MigrationStanding.LATER]


def ledger(rows: Iterable[tuple[Any, ...]]) -> dict[str, Applied]:
    """The rows of LEDGER by name."""
    return {name: Applied(name, checksum, detail, compatible) for name, checksum, detail, compatible in rows}


def _to_apply(migrations: list[Migration], applied: dict[str, Applied]) -> list[Migration]:
    """The files to apply now. Raises MigrationError when going forward is not enough."""
    standings = dict(compare(applied, migrations))
    for name, standing in standings.items():
        if standing is MigrationStanding.CHANGED:
            raise MigrationError(
                f"Migration {name} was changed after it was applied to this database. Restore the file and put the "
                "change into a new one."
            )
    unknown = [name for name, standing in standings.items() if standing is MigrationStanding.UNKNOWN]
    if unknown:
        raise MigrationError(
            f"This database has migration {', '.join(unknown)}, which this version of the service does not know, and "
            "which is not marked as compatible with it. Run the version that made it, or a later one: migrations only "
            "go forward."
        )
    pending = [migration for migration in migrations if standings[migration.name] is MigrationStanding.PENDING]
    # The number of the job library's schema is only a part of its recorded name, no place in the order of our files.
    last = max((name for name in applied if name != JOB_SCHEMA), default="")
    for migration in pending:
        if migration.name not in {*applied, JOB_SCHEMA} and migration.name < last:
            raise MigrationError(
                f"Migration {migration.name} is new, but the database is already at {last}. Give it a higher number."
            )
        if migration.name in applied:
            pending[pending.index(migration)] = _library_upgrade(migration, applied[migration.name])
    return pending


def _patiently(connection: Connection, migration: Migration) -> None:
    """Apply one file in one transaction, stepping back as often as a table is in use."""
    for attempt in range(1, DDL_ATTEMPTS + 1):
        try:
            with connection.transaction():
                connection.execute(sql.SQL("set local lock_timeout = {}").format(DDL_WAIT))
                connection.execute(migration.sql)
                connection.execute(
                    "insert into schema_migrations (name, checksum, detail, compatible) values (%s, %s, %s, %s) "
                    "on conflict (name) do update set checksum = excluded.checksum, detail = excluded.detail, "
                    "compatible = excluded.compatible, applied_at = excluded.applied_at",
                    (migration.name, migration.checksum, migration.detail, migration.compatible),
                )
                return
        except (LockNotAvailable, DeadlockDetected) as error:
            if attempt == DDL_ATTEMPTS:
                raise MigrationError(
                    f"Migration {migration.name} found its tables in use {DDL_ATTEMPTS} times. Nothing of it was "
                    "applied; end long transactions and try again."
                ) from error
        time.sleep(random.uniform(0.05, 0.3))  # noqa: S311 (spreads the attempts; no secret)


def _lock(connection: Connection) -> None:
    """Become the only runner; the lock ends with the connection. Raises MigrationError after two minutes."""
    give_up = time.monotonic() + RUNNER_WAIT_SECONDS
    while connection.execute("select pg_try_advisory_lock(%s)", (RUNNER_LOCK,)).fetchall() != [(True,)]:
        if time.monotonic() > give_up:
            raise MigrationError("Another process has been migrating this database for too long.")
        time.sleep(0.05)


def _make_ledger(connection: Connection) -> None:
    """Make the ledger, or bring one forward that has no marks: to alter a table waits for whoever reads it."""
    query = "select count(*) from pg_attribute where attrelid = to_regclass('schema_migrations') and attname = %s"
    if connection.execute(query, ("compatible",)).fetchall() == [(0,)]:
        connection.execute(resources.files("service.eventstore.schema").joinpath("sql", "ledger.sql").read_bytes())


def _applied(connection: Connection) -> dict[str, Applied]:
    """The ledger by name."""
    return ledger(connection.execute(LEDGER).fetchall())


def _library_migration() -> Migration:
    """The job library's schema, as a fresh database gets it."""
    text = schema()
    return Migration(JOB_SCHEMA, text, hashlib.sha256(text.encode()).hexdigest(), version())


def _library_upgrade(migration: Migration, applied: Applied) -> Migration:
    """The library's own steps from the recorded version to the installed one, as one transaction."""
    return migration._replace(sql=steps(applied.detail))
