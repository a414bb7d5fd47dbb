"""`service doctor`: what is wrong with this installation, and what to do about it."""

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click
import psycopg

from service.analytics.connecting.registering import READ, THREE_WAYS, ClientWay, Registration
from service.auth.oidc import Issuer, IssuerFailed
from service.billing.plans import BEFORE_SELF_HOSTED, unsubscribed_days
from service.cli.shared.common import advised, database, json_option, show
from service.cli.shared.failures import explain
from service.cli.shared.lookups import place_of
from service.cli.shared.witnesses import look_at_witnesses
from service.copy.batches import statuses
from service.deletion.ledger import try_to_write
from service.egress.guard import Guard
from service.embedded.attach import supervisor_of
from service.embedded.layout import EmbeddedError, Layout, unfit
from service.embedded.room import STOP_BYTES, ballast_of
from service.eventstore.connect.hosts import (
    CONNECT_SECONDS,
    Host,
    HostStanding,
    Role,
    answering_within,
    host_alone,
    hosts_of,
    standing,
)
from service.eventstore.schema import migrations
from service.eventstore.schema.guards import serving_role
from service.eventstore.schema.roles import check_parted
from service.history import rebuild
from service.history.audit import damaged_streams
from service.process.selfreports import envelope, send
from service.registry import machines
from service.release import missing
from service.settings import Settings, SettingsError, doubts, load_settings, unknown_variables
from service.settingvalues import CHDB, SELF_HOSTED
from service.sql import load_query
from service.testing.installation import find_git, find_node
from service.testing.shop import WorldFailed
from service.tlog.signing import judge, look
from service.tlog.tree import CheckpointFile, is_built
from statemachines.contracts import stop

OK, WARNING, WRONG = "ok", "warning", "wrong"
_REPLICATION = ("synchronous_standby_names", "synchronous_commit")
_WAITING = frozenset({"on", "remote_apply"})
_SCHEMA_IS_THERE = load_query("cli", "schema_is_there")
_SERVER_SETTINGS = load_query("cli", "server_settings")
_CLOCK_OFFSET = load_query("cli", "clock_offset")
_QUERY_ROLE = load_query("cli", "query_role")
_UNNUMBERED = load_query("cli", "unnumbered")
_FAILED_TASKS = load_query("cli", "failed_tasks")
_LAST_EVENT_IF = load_query("cli", "last_event_if")
ANSWER_SECONDS = 5.0
HOST_SECONDS = 2.0  # one host of a list has to answer
FREE_BYTES = 1_000_000_000
MB = 1_000_000
UNNUMBERED_SECONDS = 5
COPY_LOOK_SECONDS = 300  # between two looks of a worker at the copy
WIDTH = 100  # characters of its table, where no terminal says
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
    """Check settings, database, schema, log and jobs. Exits with 0 when nothing is wrong. Warnings pass."""
    findings = [*_surroundings()]
    try:
        settings = load_settings(secrets=False)
        findings += _doubtful(settings)
        findings += _extras(settings)
        findings += _files(settings)
        findings += _issuer(settings)
        findings += _self_reports(settings)
        with database(current=False):
            findings += _database(settings)
    except SettingsError as error:
        findings.append(Finding("settings", WRONG, " ".join(error.problems)))
    except (click.ClickException, EmbeddedError, psycopg.OperationalError) as error:
        findings.append(Finding("database", WRONG, explain(error) or str(error)))
    show(
        [finding._replace(detail=advised(finding.detail))._asdict() for finding in findings],
        Finding._fields,
        as_json=as_json,
        width=WIDTH,
    )
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
        findings += _hosts(connection, settings)
        findings += _schema(connection)
        findings += _role(connection, settings)
        findings += _start(connection, settings)
        findings.append(_writing(connection, settings))
        if all(finding.result != WRONG for finding in findings):
            findings += _contents(connection, settings)
    return findings


def _surroundings() -> Iterator[Finding]:
    """The interpreter and the environment."""
    yield Finding("python", OK, ".".join(map(str, sys.version_info[:3])))
    unknown = unknown_variables(os.environ)
    yield Finding("settings", WARNING if unknown else OK, f"not known: {', '.join(unknown)}" if unknown else "all read")
    for program, find in (("git", find_git), ("node", find_node)):
        try:
            yield Finding(program, OK, find())
        except WorldFailed as absent:
            yield Finding(program, WARNING, f"{absent} Nothing else needs it.")


def _files(settings: Settings) -> Iterator[Finding]:
    """The data directory, and who works on it."""
    if not settings.embedded:
        yield Finding("data directory", OK, "none: SERVICE_DATABASE_URL names a database")
        return
    layout = Layout(settings.data_dir)
    problem = unfit(settings.data_dir, makes=True)
    begun = not problem and layout.begun
    detail = problem or (str(settings.data_dir) if begun else f"{settings.data_dir}, empty before the first start")
    yield Finding("data directory", WRONG if problem else OK, detail)
    if problem:
        return
    holder = supervisor_of(layout)
    detail = f"runs as process {holder.pid} at {holder.base_url or 'an unknown address'}" if holder else "does not run"
    yield Finding("service", OK, detail)
    there = next(path for path in (settings.data_dir, *settings.data_dir.parents) if path.exists())
    free, bound = shutil.disk_usage(there).free, settings.min_free_mb * MB
    state = OK if free > FREE_BYTES else WARNING if free >= bound else WRONG
    ballast = ballast_of(layout)
    detail = f"{free // MB} MB free" + (f", and a ballast file of {ballast // MB} MB" if ballast else "")
    if state != OK:
        detail += f"; below {bound // MB} MB the service is not ready, below {STOP_BYTES // MB} MB writes stop"
    yield Finding("disk", state, detail)
    open_files = [path.name for path in (settings.data_dir / "secrets").glob("*") if path.stat().st_mode & 0o077]
    detail = f"readable by others: {', '.join(open_files)}; chmod 600 them" if open_files else "readable by their owner"
    yield Finding("secrets", WRONG if open_files else OK, detail)


def _server(connection: psycopg.Connection[Any], settings: Settings) -> Iterator[Finding]:
    """The database server."""
    version = connection.info.parameter_status("server_version") or "unknown"
    problems = migrations.server_problems(connection)
    yield Finding(
        "server", WRONG if problems else OK, " ".join(problems) or f"PostgreSQL {version}, commits are durable"
    )
    names = ["data_checksums", "max_locks_per_transaction", "max_connections", "max_prepared_transactions"]
    found: dict[str, str] = dict(connection.execute(_SERVER_SETTINGS, {"names": names}).fetchall())
    checksums = found["data_checksums"] == "on"
    detail = "on" if checksums else "off: silent disk errors go unnoticed; pg_checksums turns them on"
    yield Finding("checksums", OK if checksums else WARNING, detail)
    slots = int(found["max_locks_per_transaction"]) * (
        int(found["max_connections"]) + int(found["max_prepared_transactions"])
    )
    needed = LOCKS_A_PROCESS * (settings.workers + 1)
    detail = f"room for {slots}" + ("" if slots >= needed else f", {needed} advised: raise max_locks_per_transaction")
    yield Finding("locks", OK if slots >= needed else WARNING, detail)


def _hosts(connection: psycopg.Connection[Any], settings: Settings) -> Iterator[Finding]:
    """The hosts of a list, and what their commits wait for; nothing for one host without a synchronous standby."""
    hosts = hosts_of(settings.database_url)
    found: dict[str, str] = dict(connection.execute(_SERVER_SETTINGS, {"names": list(_REPLICATION)}).fetchall())
    standbys, waits = (found[name] for name in _REPLICATION)
    if not (hosts or standbys):
        return
    primary = standing(connection)
    if hosts:
        addresses = [host_alone(settings.database_url, host) for host in hosts]
        with ThreadPoolExecutor(len(hosts)) as looks:  # a silent one would use up the time of the others
            seen = dict(zip(hosts, looks.map(_look_at, addresses), strict=True))
        first = [host for host, one in seen.items() if one.role is Role.PRIMARY]
        whole = len(first) == 1 and all(one.timeline for one in seen.values())
        told = "; ".join(_describe(host, one, primary.end) for host, one in seen.items())
        yield Finding("hosts", OK if whole else WARNING, told)
    detail = f"synchronous_standby_names is {standbys or 'empty: what a lost host has acknowledged is lost with it'}"
    if standbys and not hosts:
        detail += "; name each host in SERVICE_DATABASE_URL, so that looks at earlier commits wait for a standby too"
    yield Finding("standbys", OK if standbys else WARNING, detail)
    late = "" if waits in _WAITING else f": commits wait for no standby; set it to {' or '.join(sorted(_WAITING))}"
    yield Finding("commits", WARNING if late else OK, f"synchronous_commit is {waits}{late}")


def _look_at(address: str) -> HostStanding:
    """What a host of the list is."""
    try:
        with (
            psycopg.connect(address, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection,
            answering_within(connection, HOST_SECONDS),
        ):
            return standing(connection)
    except psycopg.errors.ConnectionTimeout:
        return HostStanding(Role.SILENT)
    except psycopg.Error:
        return HostStanding(Role.AWAY)


def _describe(host: Host, found: HostStanding, end: int) -> str:
    """A host in words: its role, its timeline, and how far it is behind the end of the primary's log."""
    if not found.timeline:
        return f"{host} {found.role.value}"
    behind = f", {max(0, end - found.end)} bytes behind" if found.role is Role.STANDBY else ""
    return f"{host} is {found.role.value}, timeline {found.timeline}{behind}"


def _role(connection: psycopg.Connection[Any], settings: Settings) -> Iterator[Finding]:
    """Whether the role that serves could take away what guards the history."""
    [[there]] = connection.execute(_SCHEMA_IS_THERE).fetchall()
    if not there:
        return
    role = serving_role(connection)
    if not role.appends:
        yield Finding("role", OK, f"{role.name} reads only")
    elif role.superuser:
        yield Finding(
            "role", WRONG, f"{role.name} is a superuser, and no guard of the history stops one. Serve as another"
        )
    elif role.owns:
        parted = settings.migration_database_url is not None
        advice = (
            "" if settings.embedded else "; SERVICE_MIGRATION_DATABASE_URL separates the owner from the serving role"
        )
        result = WRONG if parted else OK if settings.embedded else WARNING
        yield Finding("role", result, f"{role.name} owns the tables, and can drop their guards{advice}")
    else:
        yield Finding("role", OK, f"{role.name} owns no table, and can append to the history alone")
    if role.appends:
        [[queries, there]] = connection.execute(_QUERY_ROLE).fetchall()
        confined = f"callers' queries run as {queries}, which sees three views"
        detail = confined if there else f"callers' queries run in read-only transactions: no role {queries} sees less"
        yield Finding("queries", OK if there or role.owns else WARNING, detail)


def _start(connection: psycopg.Connection[Any], settings: Settings) -> Iterator[Finding]:
    """What a start of `serve` looks at besides, by the same functions; nothing for a role that only reads."""
    [[there]] = connection.execute(_SCHEMA_IS_THERE).fetchall()
    if there and not serving_role(connection).appends:
        return
    if not settings.embedded:
        try:
            load_settings()
            yield Finding("required", OK, "every secret that `serve` needs is set")
        except SettingsError as error:
            yield Finding("required", WRONG, " ".join(error.problems))
    if settings.migration_database_url is not None and there:
        try:
            check_parted(settings.database_url, settings.migration_database_url)
            yield Finding("owner", OK, "SERVICE_MIGRATION_DATABASE_URL names the owner of these tables")
        except (migrations.MigrationError, psycopg.Error) as error:
            yield Finding("owner", WRONG, explain(error) or str(error))
    try:
        try_to_write(settings.erasure_ledger)
        yield Finding("erasures", OK, f"{settings.erasure_ledger} can be written")
    except OSError as error:
        detail = f"{settings.erasure_ledger} cannot be written ({error.strerror}): no deletion gets past its fence"
        yield Finding("erasures", WRONG, detail)


def _doubtful(settings: Settings) -> Iterator[Finding]:
    """Settings that are read and mean nothing, or not what they look like."""
    if found := doubts(settings, os.environ):
        yield Finding("doubtful", WARNING, " ".join(found))


def _extras(settings: Settings) -> Iterator[Finding]:
    """Extras that settings want and that are not installed."""
    url = settings.clickhouse_url
    wanted = {
        "SERVICE_PAYMENT_API_KEY": None if settings.payment_api_key is None else "stripe",
        "SERVICE_CLICKHOUSE_URL": None if url is None else "chdb" if url.startswith(f"{CHDB}:") else "clickhouse",
    }
    for name, extra in wanted.items():
        if extra is not None and (line := missing(extra)) is not None:
            yield Finding("extras", WARNING, f"{name} needs the extra `{extra}`. {line}")


def _issuer(settings: Settings) -> Iterator[Finding]:
    """Whether people can sign in at the OIDC issuer; nothing without one."""
    if settings.oidc_issuer is None:
        return
    try:
        keys = asyncio.run(Issuer(settings, Guard()).look())
    except IssuerFailed as failed:
        yield Finding("issuer", WRONG, str(failed))
        return
    detail = f"{keys} usable keys" if keys else "none of its keys is for RS256, ES256 or EdDSA"
    yield Finding("issuer", OK if keys else WRONG, detail)


def _self_reports(settings: Settings) -> Iterator[Finding]:
    """Whether the project in SERVICE_SELF_DSN takes errors of the service. It is sent an envelope without any."""
    if settings.self_dsn is None:
        return
    place = urlsplit(settings.self_dsn.url).netloc
    try:
        status = send(envelope(settings.self_dsn, {}))
    except (OSError, HTTPException):
        yield Finding("self reports", WARNING, f"{place} does not answer; errors of the service are in the log alone")
        return
    taken = status == HTTPStatus.OK
    detail = f"{place} takes errors of the service" if taken else f"{place} answers {status}; check SERVICE_SELF_DSN"
    yield Finding("self reports", OK if taken else WARNING, detail)


def _writing(connection: psycopg.Connection[Any], settings: Settings) -> Finding:
    """Whether there is room for a write: one that is taken back, and that no other session ever sees."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute("create temporary table service_doctor (line text)")
            connection.execute("insert into service_doctor select repeat('x', 1000) from generate_series(1, 100)")
    except psycopg.errors.DiskFull as error:
        return Finding("writing", WRONG, f"the database has no room: {error.diag.message_primary}")
    except psycopg.errors.ReadOnlySqlTransaction:
        if settings.embedded:
            return Finding("writing", WRONG, "the server takes reads alone until there is room on its disk")
        return Finding("writing", OK, "not tried: this server only reads")
    except psycopg.errors.InsufficientPrivilege:
        return Finding("writing", OK, "not tried: this role only reads")
    return Finding("writing", OK, "the database has room")


def _schema(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """The migrations."""
    standings = migrations.status(connection)
    wrong = [found for found in standings if not migrations.serves([found])]
    pending = [name for name, standing in wrong if standing is migrations.MigrationStanding.PENDING]
    named = [
        f"{name} {standing.value}" for name, standing in wrong if standing is not migrations.MigrationStanding.PENDING
    ]
    if pending:
        named.append(pending[0] + " pending" if len(pending) == 1 else f"{len(pending)} pending, from {pending[0]} on")
    detail = f"{', '.join(named)}; run `service db migrate`" if named else "up to date"
    yield Finding("schema", WRONG if named else OK, detail)
    later = [name for name, standing in standings if standing is migrations.MigrationStanding.LATER]
    if later:
        yield Finding("release", WARNING, f"a later one works on this database too: {', '.join(later)}")


def _contents(connection: psycopg.Connection[Any], settings: Settings) -> Iterator[Finding]:
    """The clock, the log and the jobs."""
    [[offset]] = connection.execute(_CLOCK_OFFSET).fetchall()
    moved = f"{offset} seconds ahead" if offset else "real time"
    yield Finding("clock", WRONG if offset and not settings.test_clock else OK, moved)
    [[waiting, age]] = connection.execute(_UNNUMBERED).fetchall()
    late = age > UNNUMBERED_SECONDS
    detail = f"{waiting} events wait for their position" + (f", {age} s by now: is a worker running?" if late else "")
    yield Finding("log", WARNING if late else OK, detail)
    yield from _signed_log(connection, settings)
    yield _newer_streams(connection)
    damaged = damaged_streams(connection, MOST_NAMED)
    detail = (
        f"head and log differ: {', '.join(damaged)}; see `service events verify`" if damaged else "as their heads say"
    )
    yield Finding("heads", WRONG if damaged else OK, detail)
    yield _installation_stop(connection)
    yield from _plans(connection, settings)
    yield from _copy(connection, settings)
    yield _provider(connection, settings)
    failed = connection.execute(_FAILED_TASKS).fetchall()
    named = ", ".join(f"{task} ({count})" for task, count in failed[:MOST_NAMED])
    detail = f"failed in the last week: {named}; `service jobs` lists and retries them" if failed else "none has failed"
    yield Finding("jobs", WARNING if failed else OK, detail)


def _plans(connection: psycopg.Connection[Any], settings: Settings) -> Iterator[Finding]:
    """Whether accounts have a cap, and how long telemetry is kept where they have none (G-203)."""
    if not settings.self_hosted:
        yield Finding("plans", OK, f"accounts have a cap, by the plans {', '.join(settings.plans)}")
        return
    [[older]] = connection.execute(BEFORE_SELF_HOSTED).fetchall()
    days = unsubscribed_days(settings.terms, older=older)
    yield Finding("plans", OK, f"{SELF_HOSTED}: no account has a cap, and telemetry is kept for {days} days")


def _copy(connection: psycopg.Connection[Any], settings: Settings) -> Iterator[Finding]:
    """Whether the copy of telemetry follows (G-200). Nothing where there is none and none is wanted."""
    try:
        found = statuses(connection)
    except psycopg.errors.InsufficientPrivilege:
        return  # A role that only reads sees nothing of the copy.
    if not found:
        if settings.clickhouse_url is not None:
            yield Finding("copy", WARNING, "has not begun; the worker's log names the reason")
        return
    if settings.clickhouse_url is None:
        detail = "there is a copy of telemetry and no SERVICE_CLICKHOUSE_URL, so deletions wait"
        yield Finding("copy", WRONG, f"{detail}; set it again, or give the copy up with `service telemetry forget`")
        return
    lag = max(one.lag_seconds for one in found)
    problem = next((one.problem for one in found if one.problem is not None), None)
    late = found[0].now - found[0].looked_at > COPY_LOOK_SECONDS
    if problem is not None:
        yield Finding("copy", WARNING, f"{problem}; it is {lag} s behind, and deletions wait for it")
    else:
        rows = sum(one.rows for one in found)
        detail = f"{rows} rows, {lag} s behind" + ("; no worker looks at it" if late else "")
        yield Finding("copy", WARNING if late else OK, detail)


def _provider(connection: psycopg.Connection[Any], settings: Settings) -> Finding:
    """How this installation gets its client at the analytics provider (G-180)."""
    ours = Registration(settings)
    if settings.encryption_key is None:
        return Finding("provider", OK, "cannot be connected: no SERVICE_ENCRYPTION_KEY seals its tokens")
    match ours.way:
        case ClientWay.OPERATOR:
            return Finding("provider", OK, "connects by the client in SERVICE_PROVIDER_CLIENT_ID")
        case ClientWay.DOCUMENT:
            return Finding("provider", OK, f"connects by the document at {ours.document_url}")
        case ClientWay.REGISTERED:
            name = {"authority": ours.shared, "redirect_uri": ours.redirect_uri}
            done = any(sealed for _, _, sealed, _ in connection.execute(READ, name))
            begun = "is registered" if done else "registers itself at the first connection"
            detail = f"{begun} at {ours.shared}, and sends browsers of this machine alone to {ours.redirect_uri}"
            return Finding("provider", OK, detail)
        case None:
            return Finding("provider", OK, f"cannot be connected; the ways: {THREE_WAYS}")


def _signed_log(connection: psycopg.Connection[Any], settings: Settings) -> Iterator[Finding]:
    """Whether the log is signed, and continues what was signed before (G-169)."""
    seen = look(connection)
    if (seen.signed_size or 0) < seen.size and not is_built(connection, seen.size):
        yield Finding("signed log", WARNING, "the tree is being built; nothing is signed before it is whole")
        return
    standing = judge(connection, seen, CheckpointFile(settings.erasure_ledger))
    if standing.signs:
        yield Finding("signed log", OK, f"{seen.signed_size or 0} of {seen.size} events, as {seen.origin}")
        report = look_at_witnesses(connection, settings, seen.origin, seen.signed_size or 0)
        if report is not None:
            result = OK if report.fine else WARNING if report.readable else WRONG
            yield Finding("witnesses", result, report.detail)
    else:
        advice = "nothing is signed until `service log continue` begins a new origin"
        yield Finding("signed log", WRONG, f"{standing.detail}; {advice}")


def _installation_stop(connection: psycopg.Connection[Any]) -> Finding:
    """Whether an operator has stopped all automation (G-148)."""
    project_id, stream_id = stop.stream().name
    values = {"project_id": project_id, "stream_id": stream_id, "topic": stop.InstallationStopped.TOPIC}
    found = connection.execute(_LAST_EVENT_IF, values).fetchall()
    if not found:
        return Finding("automation", OK, "not stopped by an operator")
    [[why, since]] = found
    return Finding("automation", WARNING, f"stopped since {since} ({why}); `service resume --all` lifts the stop")


def _newer_streams(connection: psycopg.Connection[Any]) -> Finding:
    """Streams that hold events of a later release (G-149)."""
    machines()  # Imports every module that declares topics.
    unknown = connection.execute(rebuild.UNKNOWN, rebuild.known()).fetchall()
    if not unknown:
        return Finding("streams", OK, "this release can read all of them")
    wanted = rebuild.asked(unknown)
    [[count]] = connection.execute(rebuild.COUNT, wanted).fetchall()
    return Finding("streams", WARNING, rebuild.describe(wanted.topics, count))
