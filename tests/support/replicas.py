"""Two PostgreSQL servers on loopback: a primary, and a synchronous standby to be stopped, started and promoted."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.embedded.layout import Layout
from service.embedded.programs import Programs, programs_for
from service.eventstore.schema import migrations
from service.settingvalues import database_url as read_url
from tests.support import toy
from tests.support.rounds import wait_until
from tests.support.server import free_port

ADMIN = "postgres"
ROLE = "service"
DATABASE = "service"
START_SECONDS = 30.0
OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "100",
    "max_locks_per_transaction": "256",
    "wal_keep_size": "512MB",
    "wal_log_hints": "on",
    "wal_receiver_status_interval": "1s",
    "wal_retrieve_retry_interval": "100ms",
}


class Server:
    """One of them. Its `name` is what the other one calls it as a standby."""

    def __init__(self, programs: Programs, directory: Path, name: str) -> None:
        self.name, self.port = name, free_port()
        self._programs = programs
        self._directory = directory / name
        self._log = directory / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def make(self) -> None:
        """Make a new cluster."""
        self._own()
        self._programs.run(
            "initdb", ["-D", str(self._directory), "-U", ADMIN, "--auth=trust", "--encoding=UTF8", "--locale=C"]
        )

    def copy(self, primary: Server) -> None:
        """Make a standby of another one."""
        self._own()
        given = ["-D", str(self._directory), "-h", "127.0.0.1", "-p", str(primary.port), "-U", ADMIN]
        self._programs.run("pg_basebackup", [*given, "-X", "stream", "-R", "-c", "fast"])

    def start(self) -> None:
        """Start, and wait until it takes connections."""
        options = {**OPTIONS, "port": str(self.port), "cluster_name": self.name}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            self._process = self._programs.start(
                "postgres", ["-D", str(self._directory), *words], output=log, bind=True
            )
        wait_until(self._answers, START_SECONDS)

    def _own(self) -> None:
        self._directory.mkdir(mode=0o700)
        os.chown(self._directory, self._programs.uid, self._programs.gid)

    def _answers(self) -> bool:
        with suppress(psycopg.OperationalError), self.admin():
            return True
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        return False

    def admin(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """A superuser's connection, autocommit."""
        return psycopg.connect(f"postgresql://{ADMIN}@{self.address}/{database}", autocommit=True, connect_timeout=2)

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement as superuser in the service's database."""
        with self.admin(DATABASE) as connection:
            cursor = connection.execute(statement)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop, by default at once as a crash."""
        if self._process is not None:
            process, self._process = self._process, None
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGCONT)
                os.kill(process.pid, how)
            process.wait(START_SECONDS)

    def freeze(self) -> None:
        """Stop all of its processes: connections stay, and nothing answers."""
        assert self._process is not None
        for pid in (self._process.pid, *_children(self._process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        assert self._process is not None
        for pid in (self._process.pid, *_children(self._process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def promote(self) -> None:
        """Make a primary of a standby, and wait until it is one."""
        self.run("select pg_promote(wait => true)")
        wait_until(lambda: self.run("select pg_is_in_recovery()") == [(False,)], START_SECONDS)


def _children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


class Replicas:
    """A primary `one`, its synchronous standby `two`, and the address of both."""

    def __init__(self, one: Server, two: Server) -> None:
        self.one, self.two = one, two
        self.url = read_url(f"postgresql://{ROLE}@{one.address},{two.address}/{DATABASE}")

    def waiting(self, application: str = "%") -> list[int]:
        """The sessions of the primary that wait for the standby at their commit."""
        found = self.one.run(
            "select pid from pg_stat_activity where wait_event = 'SyncRep' "
            f"and application_name like '{application}' and pid <> pg_backend_pid()"
        )
        return [pid for (pid,) in found]

    def cancel_wait(self, application: str = "%") -> int:
        """Wait until a session waits for the standby, and cancel that: its commit is answered with a warning."""
        wait_until(lambda: self.waiting(application), 10.0)
        pid = self.waiting(application)[0]
        assert self.one.run(f"select pg_cancel_backend({pid})") == [(True,)]
        return pid

    @contextmanager
    def without_standby(self) -> Iterator[None]:
        """Stop the standby for a block: every commit waits for it meanwhile."""
        self.two.stop()
        try:
            yield
        finally:
            self.two.start()

    def fail_over(self) -> None:
        """Kill the primary, and promote the standby."""
        self.one.stop(signal.SIGKILL)
        self.two.promote()


@contextmanager
def running_replicas(directory: Path) -> Iterator[Replicas]:
    """Make and start both for a block, with a migrated database and the toy's tables."""
    directory.chmod(0o755)
    programs = programs_for(Layout(directory))
    one, two = (Server(programs, directory, name) for name in ("one", "two"))
    try:
        one.make()
        one.start()
        with one.admin() as admin:
            admin.execute(f"create role {ROLE} login")
            admin.execute(f"grant pg_monitor, pg_signal_backend to {ROLE}")
            admin.execute(f"create database {DATABASE} owner {ROLE}")
        url = f"postgresql://{ROLE}@{one.address}/{DATABASE}"
        migrations.migrate(url)
        toy.create_tables(url)
        two.copy(one)
        two.start()
        with one.admin() as admin:
            admin.execute(f"alter system set synchronous_standby_names = '{two.name}'")
            admin.execute("select pg_reload_conf()")
            wait_until(
                lambda: admin.execute("select sync_state from pg_stat_replication").fetchall() == [("sync",)],
                START_SECONDS,
            )
        yield Replicas(one, two)
    finally:
        for server in (two, one):
            server.stop()


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    """A primary with a synchronous standby, for one test."""
    with running_replicas(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """The same for the tests of a file, each of which leaves both as they were."""
    with running_replicas(tmp_path_factory.mktemp("replicas")) as running:
        yield running
