"""Copies of the whole database: written by pg_dump in its custom format, and read by every supported server.

A copy is brought back as the SQL that pg_restore makes of it, not by pg_restore itself: the programs are those of the
newest server, and begin with a setting that older ones do not know.
"""

import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import click
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from service.embedded.programs import wheel_programs
from service.eventstore.connect.connection import TRANSACTION_TIMEOUT_FROM
from service.history.audit import Report
from service.history.bundle import Extent, hash_heads, read_extent
from service.settings import Settings
from service.sql import load_query

UNKNOWN_TO_OLDER = b"SET transaction_timeout = 0;\n"  # PostgreSQL 16 and before
# A mark that some minor releases put on columns for themselves, and every other server refuses.
_OWN_MARK = re.compile(rb"ALTER TABLE .* SET \(pg_attver=[^)]*\);\n")
_COPY = re.compile(rb"COPY public\.(?P<table>[a-z0-9_]+) \((?P<columns>.*)\) FROM stdin;\n")
_END = b"\\.\n"
_TABLES = load_query("cli", "tables")


class CopyTally:
    """What a copy holds: rows by table, and the figures of its log."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self._size = 0
        self._heads: list[str] = []

    def count(self, table: str, columns: Sequence[str], line: bytes) -> None:
        """Take in a row as COPY writes it."""
        self.rows[table] += 1
        if table not in {"stream_heads", "log_state"}:
            return
        row = dict(zip(columns, line.decode().rstrip("\n").split("\t"), strict=True))
        if table == "log_state":
            self._size = int(row["size"])
        else:
            chain = row["chain"].removeprefix("\\\\x")
            self._heads.append(f"{row['project_id']} {row['stream_id']} {row['revision']} {chain}")

    @property
    def extent(self) -> Extent:
        """How far the copied log goes."""
        by_name = sorted(self._heads, key=lambda line: line.split(" ")[:2])
        return Extent(self.rows["events"], self._size, *hash_heads(by_name))


def back_up(
    settings: Settings, file: Path, report: Report, *, force: bool = False, programs: Path | None = None
) -> Extent:
    """Write a consistent copy into `file`, which appears only when it is whole; returns how far its log goes.

    The pg_dump in `programs` writes it, by default that of the wheel. Whole means: read back from the file, each table
    has as many rows, and the streams have the same heads, as in the snapshot that was copied. Raises ClickException,
    also for a file that exists unless `force`.
    """
    _refuse_existing(file, force=force)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.touch(mode=0o600)
        with _snapshot(settings) as (connection, name):
            rows = _row_counts(connection)
            extent = read_extent(connection)
            _dump(settings, draft, name, lambda done: report(done, 2 * len(rows)), programs or wheel_programs())
        tally = CopyTally()
        for _ in read_sql(draft, tally, lambda done: report(len(rows) + done, 2 * len(rows))):
            pass
        if tally.rows != +rows or tally.extent != extent:
            raise click.ClickException(f"The written file differs from the database: {tally.extent}, not {extent}.")
        _refuse_existing(file, force=force)  # it may have come up meanwhile
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return extent


def _refuse_existing(file: Path, *, force: bool) -> None:
    if file.exists() and not force:
        raise click.ClickException(f"{file} exists already. Name another file, or replace it with --force.")


def bring_back(settings: Settings, file: Path, report: Report) -> None:
    """Fill the empty database from `file` in one transaction. Raises ClickException; nothing is in it then."""
    listed = subprocess.run([_program("pg_restore"), "--list", file], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        raise click.ClickException(f"{file} is not a copy made by `service db backup`.")
    tables = listed.stdout.count(" TABLE DATA ")
    with psycopg.connect(settings.database_url) as connection:
        knows = connection.info.server_version >= TRANSACTION_TIMEOUT_FROM
    with _running(settings, "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1") as psql:
        assert psql.stdin is not None
        try:
            psql.stdin.write(b"begin;\n")
            for line in read_sql(file, tally := CopyTally(), lambda done: report(done, tables)):
                if tally.rows or not (_OWN_MARK.fullmatch(line) or (line == UNKNOWN_TO_OLDER and not knows)):
                    psql.stdin.write(line)
            psql.stdin.write(b"commit;\n")  # only now: a file that broke off has raised by then
            psql.stdin.close()
        except BrokenPipeError:
            with suppress(BrokenPipeError):
                psql.stdin.close()  # what was not sent is nobody's any more: psql has ended, and says why


def extent_of(settings: Settings) -> Extent:
    """How far the log of the database goes."""
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        return read_extent(connection)


def read_sql(file: Path, tally: CopyTally, report: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the lines of SQL that bring a copy back, and count its rows. Raises ClickException when it breaks off.

    `report` is told how many tables are read.
    """
    with tempfile.TemporaryFile() as said:
        command = [_program("pg_restore"), "--no-owner", "--no-privileges", "--file=-", str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, env=_environment()) as process:
            assert process.stdout is not None
            yield from _counted(process.stdout, tally, report)
        if process.returncode != 0:
            raise click.ClickException(f"{file} cannot be read:\n{_end_of(said)}")


def _counted(lines: Iterable[bytes], tally: CopyTally, report: Callable[[int], None]) -> Iterator[bytes]:
    table, columns, done = "", list[str](), 0
    for line in lines:
        if not table:
            if found := _COPY.fullmatch(line):
                table, columns = found["table"].decode(), found["columns"].decode().replace('"', "").split(", ")
        elif line == _END:
            table = ""
            done += 1
            report(done)
        else:
            tally.count(table, columns, line)
        yield line


@contextmanager
def _snapshot(settings: Settings) -> Iterator[tuple[psycopg.Connection[Any], str]]:
    """A connection that sees one moment, and the name by which pg_dump sees the same."""
    with psycopg.connect(settings.database_url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        [[name]] = connection.execute("select pg_export_snapshot()").fetchall()
        yield connection, name


def _row_counts(connection: psycopg.Connection[Any]) -> Counter[str]:
    """Rows by table."""
    counts: Counter[str] = Counter()
    for (table,) in connection.execute(_TABLES).fetchall():
        query = sql.SQL("select count(*) from {}").format(sql.Identifier("public", table))
        [[counts[table]]] = connection.execute(query).fetchall()
    return counts


def _dump(settings: Settings, file: Path, snapshot: str, report: Callable[[int], None], programs: Path) -> None:
    """Let pg_dump write a file. Raises ClickException with the end of what it said."""
    arguments = ["--format=custom", "--no-owner", "--no-privileges", "--verbose", f"--file={file}"]
    command = [str(programs / "pg_dump"), *arguments, f"--snapshot={snapshot}", f"--dbname={_address(settings)}"]
    last: list[str] = []
    begun = 0
    with subprocess.Popen(command, env=_environment(settings), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            last = [*last[-9:], line.rstrip()]
            if "dumping contents of table" in line:
                report(begun)
                begun += 1
    if process.returncode != 0:
        raise click.ClickException("pg_dump failed:\n" + "\n".join(last))
    report(begun)


@contextmanager
def _running(settings: Settings, program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program on the database that is given its input. Raises ClickException with what it said when it fails."""
    command = [_program(program), *arguments, f"--dbname={_address(settings)}"]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, env=_environment(settings), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said
        )
        with process:
            yield process
        if process.returncode != 0:
            raise click.ClickException(f"{program} failed:\n{_end_of(said)}")


def _program(name: str) -> str:
    return str(wheel_programs() / name)


def _environment(settings: Settings | None = None) -> dict[str, str]:
    """The environment of a program. A password travels in it: other users could see a command line."""
    password = settings and conninfo_to_dict(settings.database_url).get("password")
    return {**os.environ, **({"PGPASSWORD": str(password)} if password else {}), "LC_ALL": "C"}


def _address(settings: Settings) -> str:
    """The database's address without its password."""
    parts = conninfo_to_dict(settings.database_url)
    parts.pop("password", None)
    return make_conninfo("", **parts)


def _end_of(said: IO[bytes]) -> str:
    said.seek(0)
    return "\n".join(said.read().decode(errors="replace").splitlines()[-10:])
