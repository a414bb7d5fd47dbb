"""Databases for tests: one PostgreSQL a session, and a fresh migrated database a test (about 30 ms)."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from service.embedded.attach import Attachment
from service.embedded.layout import ADMIN, ROLE, Layout
from service.eventstore.schema import migrations

RECOVERY_SECONDS = 30.0
POSTGRES_15 = Path("/usr/lib/postgresql/15/bin")
_numbers = itertools.count(1)


class TestCluster:
    """A running server with a migrated template, from which databases are cloned."""

    __test__ = False

    def __init__(self, data_dir: Path, programs: Path | None = None) -> None:
        self.attachment = Attachment(Layout(data_dir), programs)
        self._admin = psycopg.connect(self.attachment.layout.admin_url, autocommit=True)
        self._left: list[str] = []
        self._create("template_service", "template0")
        migrations.migrate(self.url("template_service"))

    def url(self, database: str, role: str = ROLE) -> str:
        return self.attachment.layout.address(role, database)

    def admin_url(self, url: str) -> str:
        """The same database as superuser."""
        return url.replace(f"//{ROLE}@", f"//{ADMIN}@")

    @contextmanager
    def database(self, template: str = "template_service") -> Iterator[str]:
        """A database for a block; `template0` makes an empty one. Remaining connections are terminated.

        It is dropped after the next one: PostgreSQL would wait 100 ms for a session that has not quite ended.
        """
        name = f"test_{next(_numbers)}"
        self._create(name, template)
        try:
            yield self.url(name)
        finally:
            self._admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
            while self._left:
                self._admin.execute(f'drop database "{self._left.pop()}" with (force)')
            self._left.append(name)

    def crash(self) -> None:
        """Kill a session's process: the server ends every session, recovers, and is there again."""
        victim = psycopg.connect(self.attachment.layout.admin_url, autocommit=True)
        os.kill(victim.info.backend_pid, signal.SIGKILL)
        give_up = time.monotonic() + RECOVERY_SECONDS
        with suppress(psycopg.OperationalError):
            while time.monotonic() < give_up:
                self._admin.execute("select")
                time.sleep(0.01)
        victim.close()
        self._admin.close()
        while self._admin.closed:
            with suppress(psycopg.OperationalError):
                self._admin = psycopg.connect(self.attachment.layout.admin_url, autocommit=True)
            assert time.monotonic() < give_up
            time.sleep(0.05)

    def close(self) -> None:
        self._admin.close()
        self.attachment.release()

    def _create(self, name: str, template: str) -> None:
        """Create a database. Its files are copied in three quarters of the time that their log takes."""
        self._admin.execute(f'create database "{name}" owner {ROLE} template {template} strategy file_copy')


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    """The session's PostgreSQL, from the wheel."""
    running = TestCluster(tmp_path_factory.mktemp("pg"))
    yield running
    running.close()


@pytest.fixture(scope="session")
def programs_15() -> Path:
    """The programs of the oldest PostgreSQL that is supported, when it is installed; in CI it has to be."""
    if not POSTGRES_15.is_dir():
        reason = f"PostgreSQL 15 is not installed in {POSTGRES_15}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return POSTGRES_15


@pytest.fixture(scope="session")
def cluster_15(programs_15: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    """A server of that release."""
    running = TestCluster(tmp_path_factory.mktemp("pg15"), programs_15)
    yield running
    running.close()


@pytest.fixture(params=["wheel", "15"])
def any_cluster(request: pytest.FixtureRequest) -> TestCluster:
    """Both servers in turn, for what depends on the server's version."""
    found: TestCluster = request.getfixturevalue("cluster" if request.param == "wheel" else "cluster_15")
    return found


@pytest.fixture
def database_url(cluster: TestCluster) -> Iterator[str]:
    """A fresh, migrated database."""
    with cluster.database() as url:
        yield url


@pytest.fixture
def empty_database_url(cluster: TestCluster) -> Iterator[str]:
    """A fresh database without any table."""
    with cluster.database("template0") as url:
        yield url


@pytest.fixture
def any_database_url(any_cluster: TestCluster) -> Iterator[str]:
    """A fresh, migrated database on each supported server in turn."""
    with any_cluster.database() as url:
        yield url
