"""`service doctor`: what is wrong with this installation, and what to do about it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import click
import psycopg

from service.cli.common import database, json_option, show
from service.cli.failures import explain
from service.cli.lookups import place_of
from service.embedded.errors import EmbeddedError
from service.eventstore import migrations, newer
from service.eventstore.audit import damaged_streams
from service.eventstore.clock import NOW
from service.eventstore.connection import CONNECT_SECONDS, answering_within
from service.eventstore.guards import serving_role
from service.eventstore.migrations import Standing
from service.eventstore.startup import server_problems
from service.registry import machines
from service.settings import Settings, unknown_variables

OK, WARNING, WRONG = "ok", "warning", "wrong"
ANSWER_SECONDS = 5.0
FREE_BYTES = 1_000_000_000
UNNUMBERED_SECONDS = 5
MOST_NAMED = 20  # streams that a finding names
LOCKS_A_PROCESS = 64 * 100  # a full batch of commands that each create many streams


class Finding(NamedTuple):
    """One check and its result."""

    check: str
    result: str
    detail: str


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Look at settings, database, schema, log and jobs. Exit code 0 only when nothing is wrong (warnings pass)."""
    findings = [*_surroundings()]
    try:
        with database(current=False) as settings:
            findings += _files(settings)
            findings += _database(settings)
    except (click.ClickException, EmbeddedError, psycopg.OperationalError) as error:
        findings.append(Finding("database", WRONG, explain(error) or str(error)))
    show([finding._asdict() for finding in findings], Finding._fields, as_json=as_json)
    if any(finding.result == WRONG for finding in findings):
        raise SystemExit(1)


def _database(settings: Settings) -> list[Finding]:
    """What is in the database. Raises psycopg.OperationalError when it does not answer within ANSWER_SECONDS."""
    with (
        psycopg.connect(settings.database_url, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection,
        answering_within(connection, ANSWER_SECONDS),
    ):
        findings = [Finding("database", OK, place_of(settings))]
        findings += _server(connection, settings)
        findings += _schema(connection)
        findings += _role(connection, settings)
        if all(finding.result != WRONG for finding in findings):
            findings += _contents(connection, settings)
    return findings


def _surroundings() -> Iterator[Finding]:
    """The interpreter and the environment."""
    yield Finding("python", OK, ".".join(map(str, sys.version_info[:3])))
    unknown = unknown_variables(os.environ)
    yield Finding("settings", WARNING if unknown else OK, f"not known: {', '.join(unknown)}" if unknown else "all read")
    node = shutil.which("node")
    yield Finding("node", OK if node else WARNING, node or "not found; only the demo needs it")


def _files(settings: Settings) -> Iterator[Finding]:
    """The data directory."""
    if not settings.embedded:
        return
    free = shutil.disk_usage(settings.data_dir).free
    yield Finding("disk", OK if free > FREE_BYTES else WARNING, f"{free // 1_000_000} MB free")
    open_files = [path.name for path in (settings.data_dir / "secrets").glob("*") if path.stat().st_mode & 0o077]
    detail = f"readable by others: {', '.join(open_files)}; chmod 600 them" if open_files else "readable by their owner"
    yield Finding("secrets", WRONG if open_files else OK, detail)


def _server(connection: psycopg.Connection[Any], settings: Settings) -> Iterator[Finding]:
    """The database server."""
    version = connection.info.parameter_status("server_version") or "unknown"
    problems = server_problems(connection)
    yield Finding(
        "server", WRONG if problems else OK, " ".join(problems) or f"PostgreSQL {version}, commits are durable"
    )
    names = ["data_checksums", "max_locks_per_transaction", "max_connections", "max_prepared_transactions"]
    query = "select name, setting from pg_settings where name = any(%s)"
    found: dict[str, str] = dict(connection.execute(query, (names,)).fetchall())
    checksums = found["data_checksums"] == "on"
    detail = "on" if checksums else "off: silent disk errors go unnoticed; pg_checksums turns them on"
    yield Finding("checksums", OK if checksums else WARNING, detail)
    slots = int(found["max_locks_per_transaction"]) * (
        int(found["max_connections"]) + int(found["max_prepared_transactions"])
    )
    needed = LOCKS_A_PROCESS * (settings.workers + 1)
    detail = f"room for {slots}" + ("" if slots >= needed else f", {needed} advised: raise max_locks_per_transaction")
    yield Finding("locks", OK if slots >= needed else WARNING, detail)


def _role(connection: psycopg.Connection[Any], settings: Settings) -> Iterator[Finding]:
    """Whether the role that serves could take away what guards the history."""
    [[there]] = connection.execute("select to_regclass('events') is not null").fetchall()
    if not there:
        return
    role = serving_role(connection)
    if not role.appends:
        yield Finding("role", OK, f"{role.name} reads only")
    elif role.superuser:
        yield Finding(
            "role", WRONG, f"{role.name} is a superuser, whom no guard of the history stops; serve as another"
        )
    elif role.owns:
        parted = settings.migration_database_url is not None
        advice = (
            "" if settings.embedded else "; SERVICE_MIGRATION_DATABASE_URL parts the owner from the one that serves"
        )
        result = WRONG if parted else OK if settings.embedded else WARNING
        yield Finding("role", result, f"{role.name} owns the tables, and could take their guards away{advice}")
    else:
        yield Finding("role", OK, f"{role.name} owns no table, and can append to the history alone")


def _schema(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """The migrations."""
    standings = migrations.status(connection)
    wrong = [f"{name} {standing.value}" for name, standing in standings if not migrations.serves([(name, standing)])]
    detail = f"{', '.join(wrong)}; run `service db migrate`" if wrong else "up to date"
    yield Finding("schema", WRONG if wrong else OK, detail)
    later = [name for name, standing in standings if standing is Standing.LATER]
    if later:
        yield Finding("release", WARNING, f"a later one works on this database too: {', '.join(later)}")


def _contents(connection: psycopg.Connection[Any], settings: Settings) -> Iterator[Finding]:
    """The clock, the log and the jobs."""
    [[offset]] = connection.execute("select offset_seconds from service_clock").fetchall()
    moved = f"{offset} seconds ahead" if offset else "real time"
    yield Finding("clock", WRONG if offset and not settings.test_clock else OK, moved)
    [[waiting, age]] = connection.execute(
        f"select count(*), coalesce(extract(epoch from {NOW} - min(e.recorded_at)), 0)::bigint "  # noqa: S608 - a constant
        "from unsequenced u join events e on e.seq = u.seq"
    ).fetchall()
    late = age > UNNUMBERED_SECONDS
    detail = f"{waiting} events wait for their position" + (f", {age} s by now: is a worker running?" if late else "")
    yield Finding("log", WARNING if late else OK, detail)
    yield _newer_streams(connection)
    damaged = damaged_streams(connection, MOST_NAMED)
    detail = (
        f"head and log differ: {', '.join(damaged)}; `service events verify` tells more"
        if damaged
        else "as their heads say"
    )
    yield Finding("heads", WRONG if damaged else OK, detail)
    [[failed]] = connection.execute("select count(*) from procrastinate_jobs where status = 'failed'").fetchall()
    yield Finding("jobs", WARNING if failed else OK, f"{failed} failed in the last week")


def _newer_streams(connection: psycopg.Connection[Any]) -> Finding:
    """Streams that hold events of a later release (G-149)."""
    machines()  # Imports every module that declares topics.
    unknown = connection.execute(newer.UNKNOWN.encode(), newer.known()).fetchall()
    if not unknown:
        return Finding("streams", OK, "this release can read all of them")
    wanted = newer.asked(unknown)
    [[count]] = connection.execute(newer.COUNT.encode(), wanted).fetchall()
    return Finding("streams", WARNING, newer.describe(wanted.topics, count))
