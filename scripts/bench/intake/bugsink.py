"""Bugsink on loopback, as its documentation sets one up for production on a single host, for `make bench`.

That is: gunicorn with a worker for each processor, its background worker beside it, its default database. There is no
proxy in front of it, which only spares it work. Its limits, which would refuse most of a load, are lifted as it asks of
those who measure it (https://www.bugsink.com/docs/stress-testing/); nothing leaves the machine.

`make .bugsink/.installed` makes its environment. It is run, never imported, and stops with its data.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from scripts.bench.intake.trackers import Tracker
from scripts.load import worlds

HOME = worlds.ROOT / ".bugsink"
_PROGRAMS = HOME / "venv" / "bin"
_STOPPING = 20.0  # seconds

_SETTINGS = """
# For a measurement on loopback, without a proxy.
SECURE_PROXY_SSL_HEADER = None
USE_X_REAL_IP = False
BUGSINK |= {{
    "BASE_URL": "http://{host}:{port}",
    "PHONEHOME": False,
    **{{
        f"MAX_EVENTS_PER_{{whose}}{{period}}": 1_000_000_000
        for whose in ("", "PROJECT_PER_")
        for period in ("5_MINUTES", "HOUR", "MONTH")
    }},
}}
ALLOWED_HOSTS = ["{host}"]
"""
_CREATE_PROJECT = """
from projects.models import Project
project = Project.objects.create(name="bench", retention_max_event_count=1_000_000_000)
print(project.dsn)
"""


@contextmanager
def running() -> Iterator[Tracker]:
    """Run Bugsink with one project. Exits when it is not installed, or does not start."""
    if not (HOME / ".installed").exists():
        raise SystemExit("Bugsink is not installed: `make .bugsink/.installed`")
    directory = Path(tempfile.mkdtemp(prefix="bugsink-bench-"))
    started: list[subprocess.Popen[bytes]] = []
    try:
        with (directory / "log").open("ab") as log:
            port = worlds.free_port()
            dsn = _set_up(directory, port)
            started += [
                subprocess.Popen(command, cwd=directory, env=_environment(directory), stdout=log, stderr=log)
                for command in _servers(port)
            ]
            worlds.wait_until_ready(port, started[0], path="/health/ready")
            database = directory / "db.sqlite3"
            yield Tracker(
                f"Bugsink {version()}",
                dsn,
                lambda: _count(database, "events_event"),
                lambda: _count(database, "issues_issue"),
            )
    finally:
        for process in started:
            _stop(process)
        shutil.rmtree(directory)


def version() -> str:
    """The version that is installed."""
    [found] = HOME.glob("venv/lib/python3*/site-packages/bugsink-*.dist-info")
    return found.name.removeprefix("bugsink-").removesuffix(".dist-info")


def _environment(directory: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "TMPDIR"}}
    return {**kept, "HOME": str(directory), "PYTHONPATH": str(directory), "PYTHONUNBUFFERED": "1"}


def _set_up(directory: Path, port: int) -> str:
    """Write its settings, make its databases and one project; returns the project's DSN."""
    _run(
        directory, "bugsink-create-conf", "--template=singleserver", f"--host={worlds.HOST}", f"--base-dir={directory}"
    )
    with (directory / "bugsink_conf.py").open("a") as settings:
        settings.write(_SETTINGS.format(host=worlds.HOST, port=port))
    _run(directory, "bugsink-manage", "migrate")
    _run(directory, "bugsink-manage", "migrate", "snappea", "--database=snappea")
    return _run(directory, "bugsink-manage", "shell", "--no-imports", "-c", _CREATE_PROJECT).split()[-1]


def _run(directory: Path, program: str, *arguments: str) -> str:
    done = subprocess.run(
        [_PROGRAMS / program, *arguments],
        cwd=directory,
        env=_environment(directory),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{program} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def _servers(port: int) -> list[list[str]]:
    """Its web server and its background worker, as its guide for a single server has them."""
    web = [
        str(_PROGRAMS / "gunicorn"),
        f"--bind={worlds.HOST}:{port}",
        f"--workers={min(os.cpu_count() or 1, 4)}",
        "--timeout=6",
        "--access-logfile=-",
        "--max-requests=1000",
        "--max-requests-jitter=100",
        "bugsink.wsgi",
    ]
    return [web, [str(_PROGRAMS / "bugsink-runsnappea")]]


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOPPING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _count(database: Path, table: str) -> int:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)) as connection:
        [count] = connection.execute(f"select count(*) from {table}").fetchone()
    return int(count)
