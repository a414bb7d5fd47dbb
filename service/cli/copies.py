"""Copies of the whole database, made by PostgreSQL's own programs in its custom format."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import click
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from service.embedded.programs import wheel_programs
from service.settings import Settings

Report = Callable[[int, int], None]


def back_up(settings: Settings, file: Path, report: Report) -> None:
    """Write a consistent copy into `file`, which appears only when it is whole. Raises ClickException."""
    import psycopg

    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        [[tables]] = connection.execute("select count(*) from pg_tables where schemaname = 'public'").fetchall()
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.touch(mode=0o600)
        arguments = ["--format=custom", "--no-owner", "--no-privileges", "--verbose", f"--file={draft}"]
        _run(settings, "pg_dump", arguments, "dumping contents of table", tables, report)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def bring_back(settings: Settings, file: Path, report: Report) -> None:
    """Fill the empty database from `file` in one transaction. Raises ClickException."""
    listed = subprocess.run(
        [str(wheel_programs() / "pg_restore"), "--list", str(file)], capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        raise click.ClickException(f"{file} is not a copy made by `service db backup`.")
    arguments = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", "--verbose"]
    _run(
        settings,
        "pg_restore",
        [*arguments, f"--dbname={_address(settings)}", str(file)],
        "processing data for table",
        listed.stdout.count(" TABLE DATA "),
        report,
    )


def _run(settings: Settings, program: str, arguments: Sequence[str], sign: str, total: int, report: Report) -> None:
    """Run a program on the database, counting the lines that hold `sign`. Its password travels by environment."""
    password = conninfo_to_dict(settings.database_url).get("password")
    command = [str(wheel_programs() / program), *arguments]
    if program == "pg_dump":
        command.append(f"--dbname={_address(settings)}")
    environment = {**os.environ, **({"PGPASSWORD": str(password)} if password else {}), "LC_ALL": "C"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    last: list[str] = []
    done = 0
    with process:
        for line in process.stderr:
            last = [*last[-9:], line.rstrip()]
            if sign in line:
                done += 1
                report(done, total)
    if process.returncode != 0:
        raise click.ClickException(f"{program} failed:\n" + "\n".join(last))


def _address(settings: Settings) -> str:
    """The database's address without its password, which other users could see in a command line."""
    parts = conninfo_to_dict(settings.database_url)
    parts.pop("password", None)
    return make_conninfo("", **parts)
