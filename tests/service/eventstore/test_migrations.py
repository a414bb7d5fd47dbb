"""Migrations are applied once, in order, by one runner at a time, and never change afterwards."""

import hashlib
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from service.eventstore.schema import functions, migrations
from service.eventstore.schema.migrations import (
    Migration,
    MigrationError,
    MigrationStanding,
    UnfitDatabase,
    check_database,
    server_problems,
)
from tests.support.cluster import TestCluster
from tests.support.olddatabases import catalog


def made(name: str, sql: str) -> Migration:
    return Migration(name, sql, hashlib.sha256(sql.encode()).hexdigest())


FIRST = made("0001_one", "create table one (id int)")
SECOND = made("0002_two", "create table two (id int)")
COMPATIBLE = made("0003_three", "-- compatible: yes\ncreate table three (id int)")


def test_a_fresh_database_gets_every_file_and_a_second_run_nothing(any_cluster: TestCluster):
    """All files apply to an empty database, on every supported server."""
    with any_cluster.database("template0") as url:
        seen: list[str] = []
        done = migrations.migrate(url, report=seen.append)
        files = [migration.name for migration in migrations.discover()]
        assert done == seen == [*files, *(function.path for function in functions.discover())]
        assert migrations.migrate(url) == []
        with psycopg.connect(url) as connection:
            assert {standing for _, standing in migrations.status(connection)} == {MigrationStanding.APPLIED}
            check_database(connection, test_clock=False)


def test_numbers_are_unique_and_names_sort_by_them():
    """The job library's schema is the last, outside of the order."""
    *names, last = [migration.name for migration in migrations.discover()]
    assert names == sorted(names)
    assert len({name[:4] for name in names}) == len(names)
    assert last == migrations.JOB_SCHEMA


def test_status_of_an_empty_database_is_all_pending(empty_database_url: str):
    """Asking changes nothing."""
    with psycopg.connect(empty_database_url) as connection:
        assert {standing for _, standing in migrations.status(connection)} == {MigrationStanding.PENDING}
        assert connection.execute("select count(*) from pg_tables where schemaname = 'public'").fetchone() == (0,)


def test_many_runners_at_once_apply_each_file_once(empty_database_url: str):
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: migrations.migrate(empty_database_url), range(4)))
    assert sorted(map(len, done)) == [0, 0, 0, len(migrations.discover()) + len(functions.discover())]


def test_a_changed_file_is_refused_and_nothing_after_it_applied(empty_database_url: str):
    migrations.migrate(empty_database_url, [FIRST])
    changed = made(FIRST.name, "create table one (id bigint)")
    with pytest.raises(MigrationError, match="0001_one was changed"):
        migrations.migrate(empty_database_url, [changed, SECOND])
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("select to_regclass('two')").fetchone() == (None,)
        assert migrations.status(connection, [changed, SECOND]) == [
            ("0001_one", MigrationStanding.CHANGED),
            ("0002_two", MigrationStanding.PENDING),
        ]


def test_a_database_of_a_later_version_is_refused(empty_database_url: str):
    """Unless its files say that this version can work beside them; those that do are not named."""
    migrations.migrate(empty_database_url, [FIRST, SECOND, COMPATIBLE])
    with pytest.raises(MigrationError, match="migration 0002_two, which this version"):
        migrations.migrate(empty_database_url, [FIRST])
    with psycopg.connect(empty_database_url) as connection:
        standings = migrations.status(connection, [FIRST])
    assert standings == [
        ("0001_one", MigrationStanding.APPLIED),
        ("0002_two", MigrationStanding.UNKNOWN),
        ("0003_three", MigrationStanding.LATER),
    ]
    assert not migrations.serves(standings)


def test_a_later_version_that_is_compatible_is_worked_beside(empty_database_url: str):
    """By a start before or after it: nothing is applied or taken back, and everything serves."""
    migrations.migrate(empty_database_url, [FIRST, COMPATIBLE])
    assert migrations.migrate(empty_database_url, [FIRST]) == []
    with psycopg.connect(empty_database_url) as connection:
        standings = migrations.status(connection, [FIRST])
        assert standings == [("0001_one", MigrationStanding.APPLIED), ("0003_three", MigrationStanding.LATER)]
        assert migrations.serves(standings)
        assert migrations.status(connection, [FIRST, COMPATIBLE])[1] == ("0003_three", MigrationStanding.APPLIED)


@pytest.mark.parametrize(
    ("text", "compatible"),
    [
        ("-- compatible: yes\nselect 1", True),
        ("-- What it is for.\n-- compatible: yes\nselect 1", True),
        ("-- compatible: no\nselect 1", False),
        ("select 1", False),
        ("select 1 -- compatible: yes", False),
        ("-- compatible: yes, perhaps\nselect 1", False),
    ],
)
def test_a_file_is_compatible_when_it_says_so_in_a_line_of_its_own(text: str, *, compatible: bool):
    assert made("0001_some", text).compatible is compatible


def test_every_new_file_says_whether_it_is_compatible():
    """Those below came before the first release that asks for it."""
    asked = [migration for migration in migrations.discover() if migration.name >= "0120"]
    silent = [migration.name for migration in asked if not re.search("(?m)^-- compatible: (yes|no)$", migration.sql)]
    assert silent == [], "say `-- compatible: yes` or `no` in a line of its own"


def test_a_ledger_without_marks_is_brought_forward(empty_database_url: str):
    """That of the first release: what it holds counts as not compatible, and is read before it is touched."""
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(
            "create table schema_migrations (name text primary key, checksum text not null, "
            "detail text not null default '', applied_at timestamptz not null default clock_timestamp())"
        )
        connection.execute(
            "insert into schema_migrations (name, checksum) values (%s, %s)", (FIRST.name, FIRST.checksum)
        )
        assert migrations.status(connection, []) == [("0001_one", MigrationStanding.UNKNOWN)]
        assert migrations.migrate(empty_database_url, [FIRST, COMPATIBLE]) == ["0003_three"]
        rows = connection.execute("select name, compatible from schema_migrations order by name").fetchall()
    assert rows == [("0001_one", False), ("0003_three", True)]


def test_a_new_file_below_the_last_one_is_refused(empty_database_url: str):
    """Forward only: what was skipped once would run against tables that its author never saw."""
    migrations.migrate(empty_database_url, [SECOND])
    with pytest.raises(MigrationError, match="0001_one is new"):
        migrations.migrate(empty_database_url, [FIRST, SECOND])


@pytest.mark.parametrize("number", ["0072", "0080", "0089", "0090", "0091", "0100", "0190", "0900"])
def test_a_file_can_be_added_whatever_number_the_job_library_bears(empty_database_url: str, number: str):
    """Its recorded name stays, so that the release before still knows it; its number says nothing about our order."""
    url = empty_database_url
    added = made(f"{number}_added", "create table added (id int)")
    *files, library = migrations.discover()
    ours = [file for file in files if file.name < number]
    migrations.migrate(url, [*ours, library])
    assert migrations.migrate(url, [*ours, added, library]) == [added.name]
    assert migrations.migrate(url, [*ours, added, library]) == []
    late = made("0061_late", "create table late (id int)")
    with pytest.raises(MigrationError, match=f"0061_late is new, but the database is already at {number}_added"):
        migrations.migrate(url, [*ours, late, added, library])


def test_our_own_order_holds_below_the_job_library_too(database_url: str):
    """What is new and below our own last file is refused, however far below the library's number both are."""
    *ours, library = migrations.discover()
    late = made("0061_late", "create table late (id int)")
    with pytest.raises(MigrationError, match=f"0061_late is new, but the database is already at {ours[-1].name}"):
        migrations.migrate(database_url, [*ours, late, library])


def test_a_failing_file_leaves_nothing_of_itself(empty_database_url: str):
    broken = made("0002_broken", "create table two (id int); select 1/0")
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrations.migrate(empty_database_url, [FIRST, broken])
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("select to_regclass('one')::text, to_regclass('two')::text").fetchone() == (
            "one",
            None,
        )
    assert migrations.migrate(empty_database_url, [FIRST, SECOND]) == ["0002_two"]


def test_a_table_in_use_is_waited_for_in_short_steps(empty_database_url: str):
    """DDL steps back while a reader holds the table, so that others can still read it, and goes on afterwards."""
    migrations.migrate(empty_database_url, [FIRST])
    alter = made("0002_alter", "alter table one add column more int")
    with psycopg.connect(empty_database_url) as reader:
        reader.execute("select * from one")
        thread = threading.Thread(target=migrations.migrate, args=(empty_database_url, [FIRST, alter]))
        thread.start()
        time.sleep(0.3)
        with psycopg.connect(empty_database_url) as other:
            other.execute("set statement_timeout = '2s'")
            other.execute("select * from one")
        assert thread.is_alive()
    thread.join(10)
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("select more from one")


def test_migrations_add_up(cluster: TestCluster, database_url: str):
    """One run over all files and one run a file end in the same schema."""
    with cluster.database("template0") as url:
        files = migrations.discover()
        for count in range(1, len(files) + 1):
            migrations.migrate(url, files[:count])
        migrations.migrate(url)
        assert catalog(url) == catalog(database_url)


def test_an_older_job_library_is_brought_forward_by_its_own_steps(empty_database_url: str):
    """A recorded older version is pending, not changed; a newer one is refused."""
    [current] = [migration for migration in migrations.discover() if migration.name == migrations.JOB_SCHEMA]
    older = current._replace(checksum="of another version", detail="3.0.0")
    migrations.migrate(empty_database_url, [older])
    with psycopg.connect(empty_database_url) as connection:
        assert migrations.status(connection, [current]) == [(migrations.JOB_SCHEMA, MigrationStanding.PENDING)]
    assert "add_heartbeat" not in migrations.steps("3.1.0")
    assert migrations.steps("999.0.0") == "select 1"
    newer = current._replace(checksum="of another version", detail="999.0.0")
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("update schema_migrations set detail = %s, checksum = %s", (newer.detail, newer.checksum))
    with pytest.raises(MigrationError, match=f"{migrations.JOB_SCHEMA}, which this version"):
        migrations.migrate(empty_database_url, [current])


def test_the_steps_of_the_job_library_lead_to_its_schema(cluster: TestCluster):
    """From the library's first version, its steps through ours make what its fresh schema is."""
    [current] = [migration for migration in migrations.discover() if migration.name == migrations.JOB_SCHEMA]
    split = "3.2.0"
    later = migrations.steps(split)
    with cluster.database("template0") as stepped, cluster.database("template0") as fresh:
        earlier = migrations.steps("").removesuffix(later)
        old = Migration(migrations.JOB_SCHEMA, earlier, "of another version", split)
        migrations.migrate(stepped, [old])
        assert migrations.migrate(stepped, [current]) == [migrations.JOB_SCHEMA]
        assert migrations.migrate(stepped, [current]) == []
        migrations.migrate(fresh, [current])
        tables = [row for row in catalog(stepped) if row[0] in {"column", "enum"}]
        assert tables == [row for row in catalog(fresh) if row[0] in {"column", "enum"}]


def test_the_clock_only_grows(database_url: str):
    """No statement turns the test clock back, and service_now() shows its offset."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert connection.execute("select advance_service_clock(90)").fetchone() == (90,)
        assert connection.execute("select advance_service_clock(10)").fetchone() == (100,)
        [[ahead]] = connection.execute("select extract(epoch from service_now() - clock_timestamp())").fetchall()
        assert 99 < ahead <= 100
        for statement in (
            "update service_clock set offset_seconds = 99",
            "delete from service_clock",
            "truncate service_clock",
            "insert into service_clock default values",
        ):
            with pytest.raises(psycopg.errors.IntegrityError):
                connection.execute(statement)
        with pytest.raises(UnfitDatabase, match="100 seconds ahead"):
            check_database(connection, test_clock=False)
        check_database(connection, test_clock=True)


def test_service_now_runs_on_inside_a_transaction(database_url: str):
    """A lease that ends while a statement waits must be seen to have ended."""
    with psycopg.connect(database_url) as connection:
        [[first]] = connection.execute("select service_now()").fetchall()
        connection.execute("select pg_sleep(0.05)")
        [[second]] = connection.execute("select service_now()").fetchall()
        assert (second - first).total_seconds() >= 0.05


def test_each_installation_has_its_own_salt(cluster: TestCluster):
    salts = set()
    for _ in range(2):
        with cluster.database("template0") as url:
            migrations.migrate(url, migrations.discover()[:1])
            with psycopg.connect(url) as connection:
                [[salt]] = connection.execute("select salt from installation").fetchall()
                salts.add(salt)
                with pytest.raises(psycopg.errors.UniqueViolation):
                    connection.execute("insert into installation (salt) values (repeat('0', 64))")
    assert len(salts) == 2
    assert all(len(bytes.fromhex(salt)) == 32 for salt in salts)


def test_a_server_that_may_lose_commits_is_refused(cluster: TestCluster, database_url: str):
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert server_problems(connection) == []
        connection.execute("set synchronous_commit = off")
        [problem] = server_problems(connection)
        assert problem.startswith("synchronous_commit is off on the database server; it must be on or remote_apply")
