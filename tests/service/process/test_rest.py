"""What the service takes while nothing happens: processes, sessions, modules (by counts, which no load changes)."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest
from psutil import Process

from tests.service.process.test_loading import SETTINGS
from tests.support.accounts import create_project, sign_in
from tests.support.server import USUAL_PROCESSES, ServerFactory, ServerHandle, clean_environment

MOST_PROCESSES = 20
REST_SECONDS = 150.0
"""Within which all is at rest after some use, once sessions have been closed and between two scheduled jobs."""
LOAD = "import service.process.serving; from service.process.apiserver import load; load()"
HELP = "import contextlib, service.cli\nwith contextlib.suppress(SystemExit): service.cli.main(['--help'])"


def all_processes(server: ServerHandle) -> list[Process]:
    """The supervisor, the processes below it, the database server and its sessions."""
    assert server.pid is not None
    supervisor = psutil.Process(server.pid)
    pid_file = server.directory / "data" / "postgres" / "postmaster.pid"
    database = psutil.Process(int(pid_file.read_text().splitlines()[0]))
    found = [supervisor, *supervisor.children(recursive=True), database, *database.children(recursive=True)]
    return list({process.pid: process for process in found}.values())


def sessions(server: ServerHandle) -> list[str]:
    """How the sessions of the database go by, as far as they can be told."""
    named = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"]]
    return [line[0] for line in named if line[0].startswith("postgres: ")] + [str(server.directory)]


def test_at_rest_there_are_few_processes(server_factory: ServerFactory):
    """With the embedded database, after some use of every kind: each session closes when it has nothing to do."""
    server = server_factory.prepare(env=USUAL_PROCESSES)
    server.start()
    with server.client() as client:
        key = sign_in(client, server.internal_token)
        create_project(client, key)
    with server.client(key) as client:
        for _ in range(20):
            assert client.get("/v1/projects").is_success
    give_up = time.monotonic() + REST_SECONDS
    while (number := len(all_processes(server))) > MOST_PROCESSES:
        assert time.monotonic() < give_up, (number, sessions(server))
        time.sleep(0.5)


@pytest.mark.parametrize(("code", "most"), [(LOAD, 1550), (HELP, 150)], ids=["api", "help"])
def test_a_process_imports_no_more_modules_than_it_needs(code: str, most: int):
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(len(sys.modules), file=sys.stderr)"],
        env=clean_environment(**SETTINGS),
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stderr.split()[-1]) <= most
