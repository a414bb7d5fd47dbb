"""Real servers for tests: `service serve` as a process, on a loopback port and a database of its own."""

from __future__ import annotations

import itertools
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.support import seen
from tests.support.cluster import TestCluster
from tests.support.loaded import Copied, loaded

START_SECONDS = 60.0
GONE_SECONDS = 5.0
ENCRYPTION_KEY = "11" * 32
SIGNING_KEY = "22" * 32
OPERATOR = "operator@example.com"
"""The mail address of the operator of every test server."""
USUAL_PROCESSES = {"SERVICE_WORKERS": ""}
"""The setting of a test server with as many API processes as an operator gets."""


_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_FIRST = 12_000 + _WORKER % 10 * 2_000
_PORTS = itertools.cycle(_FIRST + (os.getpid() * 61 + one) % 2_000 for one in range(2_000))
"""Ports below those that the system gives to connections, a range for each worker: none is taken before it is used.

Each process begins at a place of its own, because two runs of the suite on one machine have workers of the same names.
"""


def free_port() -> int:
    """A loopback port that nobody listens on now, and that neither the system nor another worker gives away."""
    for port in _PORTS:
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("the cycle never ends")


def clean_environment(**more: str) -> dict[str, str]:
    """The environment of this process without any setting of the service, and with `more`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SERVICE_")}
    return {**kept, "PYTHONUNBUFFERED": "1", **more}


class ServerHandle:
    """One `service serve` process and its children.

    `env` are settings that differ from a test server's usual ones: internal and test token and test clock on, one API
    process (`USUAL_PROCESSES` has as many as an operator gets), rate limits off, the plans with their caps,
    a provider at which nobody answers. With a `database_url` the server uses that database, else the embedded one in
    `data_dir`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        database_url: str | None = None,
        data_dir: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.port = free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.internal_token = secrets.token_hex(24)
        self.test_token = secrets.token_hex(24)
        self.database_url = database_url
        settings = {
            "SERVICE_DATA_DIR": str(data_dir or directory / "data"),
            "SERVICE_HOST": "127.0.0.1",
            "SERVICE_PORT": str(self.port),
            "SERVICE_INTERNAL_TOKEN": self.internal_token,
            "SERVICE_TEST_TOKEN": self.test_token,
            "SERVICE_TEST_CLOCK": "1",
            "SERVICE_OPERATORS": OPERATOR,
            "SERVICE_WORKERS": "1",
            "SERVICE_RATE_LIMITS": "0",
            "SERVICE_PLANS": "{}",
            "SERVICE_WEBHOOK_ALLOW_PRIVATE": "1",
            "SERVICE_PROVIDER_OAUTH_URL": "http://127.0.0.1:9",
            "SERVICE_LOG_LEVEL": "info",
            "SERVICE_BALLAST_MB": "0",
        }
        if database_url is not None:
            settings |= {
                "SERVICE_DATABASE_URL": database_url,
                "SERVICE_ENCRYPTION_KEY": ENCRYPTION_KEY,
                "SERVICE_SIGNING_KEY": SIGNING_KEY,
            }
        self.env = clean_environment(**{**settings, **(env or {})})
        self.log_path = directory / "server.log"
        self.process: subprocess.Popen[bytes] | Copied | None = None

    def begin(self) -> None:
        """Start the processes without waiting for them."""
        with self.log_path.open("ab") as log:
            if self.database_url is not None and (process := loaded()) is not None:
                self.process = process.start(["serve"], self.env, self.directory, log.fileno(), log.fileno())
                return
            self.process = subprocess.Popen(
                [sys.executable, "-m", "service", "serve"],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
            )

    def start(self) -> float:
        """Start, or start again, and wait until it answers; returns the seconds that took."""
        began = time.monotonic()
        self.begin()
        self.wait_until_ready()
        return time.monotonic() - began

    def wait_until_ready(self, seconds: float = START_SECONDS) -> None:
        """Wait for a 2xx of GET /health/ready. Fails the test with the log when there is none in time."""
        give_up = time.monotonic() + seconds
        with self.client() as client:
            while time.monotonic() < give_up:
                if self.process is None or self.process.poll() is not None:
                    break
                if self._listens():
                    with suppress(httpx2.HTTPError):
                        if client.get("/health/ready").is_success:
                            return
                time.sleep(0.02)
        pytest.fail(f"The server was not ready within {seconds:.0f} s:\n{self.log()}")

    def _listens(self) -> bool:
        """Whether its port is open. A request that finds it closed costs a hundred times as much as this."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def client(self, key: str | None = None) -> httpx2.Client:
        """A client of this server, with an API key or other bearer secret when given."""
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return seen.client(self.base_url, headers=headers, timeout=20)

    def advance(self, seconds: int) -> None:
        """Move the test clock forward."""
        with self.client(self.test_token) as client:
            client.post("/v1/test-clock/advance", json={"seconds": seconds}).raise_for_status()

    def log(self) -> str:
        """The log of the processes so far."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    @property
    def pid(self) -> int | None:
        """Process number of the supervisor, None while it does not run."""
        return None if self.process is None else self.process.pid

    def processes(self, module: str = "") -> list[psutil.Process]:
        """Descendants of the server whose command line holds `module` (service.process.serving or .worker)."""
        if self.process is None or self.process.poll() is not None:
            return []
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [child for child in children if _runs(child, module)]

    def kill(self) -> None:
        """End the supervisor with SIGKILL and wait until its API and worker are gone too."""
        assert self.process is not None
        left = [*self.processes("service.process.serving"), *self.processes("service.process.worker")]
        self.process.kill()
        self.process.wait()
        _wait_until_gone(left)

    def stop(self, seconds: float = 10.0) -> float:
        """End it with SIGTERM; returns the seconds that took. Fails when it does not end or leaves anything."""
        if self.process is None or self.process.poll() is not None:
            return 0.0
        left = self.processes()
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            pytest.fail(f"The server did not stop within {seconds} s:\n{self.log()}")
        taken = time.monotonic() - began
        _wait_until_gone(left)
        return taken


def _wait_until_gone(processes: list[psutil.Process]) -> None:
    """Give processes that were killed the moment that it takes a busy machine. Fails with those that outlive it."""
    give_up = time.monotonic() + GONE_SECONDS
    while left := [process for process in processes if not _gone(process)]:
        assert time.monotonic() < give_up, f"left behind: {left}"
        time.sleep(0.01)


def _gone(process: psutil.Process) -> bool:
    """Whether a process has ended, also before its exit code was collected."""
    with suppress(psutil.Error):
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    return True


def _runs(process: psutil.Process, module: str) -> bool:
    with suppress(psutil.Error):
        return module in " ".join(process.cmdline())
    return False


class ServerFactory:
    """Starts servers for one test, and ends them after it."""

    def __init__(self, directory: Path, cluster: TestCluster, stack: ExitStack) -> None:
        self._directory = directory
        self._cluster = cluster
        self._stack = stack
        self.started: list[ServerHandle] = []

    def __call__(self, *, database_url: str | None = None, env: dict[str, str] | None = None) -> ServerHandle:
        """Start a server on `database_url`, on a fresh database without one."""
        server = self.prepare(database_url=database_url or self._stack.enter_context(self._cluster.database()), env=env)
        server.start()
        return server

    def prepare(
        self, *, database_url: str | None = None, data_dir: Path | None = None, env: dict[str, str] | None = None
    ) -> ServerHandle:
        """A server that is not started; without `database_url` it is an embedded one."""
        directory = self._directory / f"server{len(self.started)}"
        directory.mkdir()
        server = ServerHandle(directory, database_url=database_url, data_dir=data_dir, env=env)
        self.started.append(server)
        self._stack.callback(server.stop)
        return server


@contextmanager
def running_server(directory: Path, cluster: TestCluster, env: dict[str, str] | None = None) -> Iterator[ServerHandle]:
    """A running server on a database of its own, with settings as ServerHandle has them."""
    with cluster.database() as url, _running(ServerHandle(directory, database_url=url, env=env)) as handle:
        yield handle


@contextmanager
def running_beside(server: ServerHandle, directory: Path, env: dict[str, str] | None = None) -> Iterator[ServerHandle]:
    """A second running server, on the database of another one."""
    with _running(ServerHandle(directory, database_url=server.database_url, env=env)) as handle:
        yield handle


@contextmanager
def _running(handle: ServerHandle) -> Iterator[ServerHandle]:
    try:
        handle.start()
        yield handle
    finally:
        handle.stop()


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> Iterator[ServerHandle]:
    """The running server of all files that are marked with `shares_server`.

    Its clock is ahead by what other tests moved it, never back, and their people and projects are there: a test makes
    its own, takes the time from the service and counts nothing but what is its own. No test ends one of its processes.
    """
    with running_server(tmp_path_factory.mktemp("shared"), cluster) as handle:
        yield handle


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster
) -> Iterator[ServerHandle]:
    """A running server that the tests of a module share; with other modules, where it is marked so."""
    if request.node.get_closest_marker("shares_server"):
        yield request.getfixturevalue("shared_server")
    else:
        with running_server(tmp_path_factory.mktemp("server"), cluster) as handle:
            yield handle


@pytest.fixture
def server_factory(tmp_path: Path, cluster: TestCluster) -> Iterator[ServerFactory]:
    """Servers for one test: several on one database, killed ones, ones with other settings."""
    with ExitStack() as stack:
        yield ServerFactory(tmp_path, cluster, stack)
