"""A database that takes connections and never answers, or stops answering: every command says so and gives up."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import click
import pytest

from service.cli import COMMANDS, main
from tests.faults.test_silent_database import stopped_database
from tests.support.loaded import run_command
from tests.support.server import ServerFactory, clean_environment

MOST_SECONDS = 5.0
LOADED = 45.0  # more, for a machine on which many processes start at once: a command that hangs takes forever
WITHOUT = {
    "serve",
    "worker",
    "witness keys",
    "witness serve",
    "demo",
    "conformance",
    "openapi",
    "apply",
    "events schemas",
    "projections list",
    "machines list",
    "machines diagram",
    "db upgrade",
    "import sentry-events",
}
"""Commands that last, or need no database, or start their own, or ask the API."""
WORDS = {
    "events show": ["stream"],
    "events replay": ["stream"],
    "events diff": ["stream", "r:1", "r:2"],
    "events export": ["--out", "log.jsonl"],
    "projections rebuild": ["--all"],
    "db grant-auditor": ["somebody"],
    "db backup": ["copy.dump"],
    "db restore": ["old.dump"],
    "jobs retry": ["--all-failed"],
    "cases regroup": ["--dry-run", "proj_1"],
    "console open": ["--email", "one@example.com"],
    "keys create": ["--email", "one@example.com"],
    "keys revoke": ["key_1"],
    "keys authorize": ["BCDF-GHJK", "--email", "one@example.com"],
    "keys deny": ["BCDF-GHJK"],
    "members list": ["proj_1"],
    "members add": ["proj_1", "one@example.com"],
    "members remove": ["proj_1", "one@example.com"],
    "pause": ["--all", "--why", "a test"],
    "resume": ["--all"],
    "telemetry forget": ["--yes"],
}


def commands() -> list[str]:
    """Every command that asks a database, as it is typed."""
    found = []
    with click.Context(main) as context:
        for name in COMMANDS:
            command = main.get_command(context, name)
            found += [f"{name} {one}" for one in command.commands] if isinstance(command, click.Group) else [name]
    return [name for name in found if name not in WITHOUT]


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts whoever comes, and says nothing."""
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=200) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    held.append(listener.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        yield f"postgresql://service@127.0.0.1:{listener.getsockname()[1]}/service"
        listener.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()


def run(name: str, directory: Path, url: str) -> tuple[str, float, subprocess.CompletedProcess[str]]:
    words = [*name.split(), *WORDS.get(name, [])]
    began = time.monotonic()
    env = clean_environment(SERVICE_DATABASE_URL=url, SERVICE_DATA_DIR=str(directory / "data"))
    done = run_command(*words, env=env, cwd=directory)
    return name, time.monotonic() - began, done


def test_every_command_gives_up_on_a_database_that_says_nothing(silent: str, tmp_path: Path):
    (tmp_path / "old.dump").write_bytes(b"PGDMP")
    names = commands()
    assert len(names) > 20
    with ThreadPoolExecutor(4) as crowd:
        for name, seconds, done in crowd.map(lambda name: run(name, tmp_path, silent), names):
            told = done.stdout + done.stderr
            assert done.returncode in {1, 4}, f"{name}: {done.returncode} {told}"
            assert "Traceback" not in told, f"{name}: {told}"
            assert "answer" in told or "timeout" in told or "cannot be reached" in told, f"{name}: {told}"
            assert seconds < MOST_SECONDS + LOADED, f"{name}: {seconds}"


FOLLOW = ["events", "tail", "--follow"]
STOP = ["pause", "--all", "--why", "a test"]
VERIFY = ["projections", "verify"]


@pytest.mark.release
@pytest.mark.parametrize("words", [FOLLOW, STOP, VERIFY])
def test_a_command_gives_up_when_the_database_has_stopped(server_factory: ServerFactory, words: list[str]):
    """Whatever it waits in: a question, a commit, or nothing at all. The one that follows has begun before."""
    server = server_factory.prepare()
    server.start()
    with ExitStack() as stack:
        if "--follow" not in words:
            stack.enter_context(stopped_database(server))
        begun = subprocess.Popen(
            [sys.executable, "-m", "service", *words],
            env=server.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if "--follow" in words:
            assert begun.stdout is not None
            assert "Database" in begun.stdout.readline()
            stack.enter_context(stopped_database(server))
        began = time.monotonic()
        told, _ = begun.communicate(timeout=30)
        assert time.monotonic() - began < MOST_SECONDS + LOADED
    assert begun.returncode == (4 if words[-1] == "verify" else 1), told
    assert "does not answer" in told
    assert "Traceback" not in told
