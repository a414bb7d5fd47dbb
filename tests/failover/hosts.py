"""Three hosts with a PostgreSQL and a Patroni each, and three etcd, all of them processes of this machine.

What hosts say to each other goes over links that can be cut: a host's Patroni reaches etcd over three of its own, and
its PostgreSQL and Patroni are reached by the others over one each. Clients reach a PostgreSQL directly, so that one
which is cut off from the others goes on talking to them.
"""

from __future__ import annotations

import json
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import psycopg

from service.embedded import launch
from service.embedded.programs import wheel_programs
from tests.failover.links import Link
from tests.support.server import free_port

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / ".failover"
PATRONI = INSTALLED / "venv" / "bin" / "patroni"
LIBRARIES = INSTALLED / "venv" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
PYTHONS = (INSTALLED / "venv" / "bin" / "python", Path("/usr/bin/python3"), Path("/usr/local/bin/python3"))
ETCD = (Path("/usr/bin/etcd"), INSTALLED / "etcd" / "usr" / "bin" / "etcd")
CONFIGURATION: dict[str, Any] = {
    "ttl": 20,
    "loop_wait": 5,
    "retry_timeout": 5,
    "primary_start_timeout": 0,
    "maximum_lag_on_failover": 1048576,
    "synchronous_mode": "quorum",
    "synchronous_mode_strict": True,
    "synchronous_node_count": 1,
    "postgresql": {
        "use_pg_rewind": True,
        "use_slots": True,
        "parameters": {"max_connections": 200, "wal_keep_size": "256MB", "synchronous_commit": "on"},
    },
}
"""What the cluster is told; deploy/ha tells it the same (a test compares them)."""
WHOLE_SECONDS = 120.0
LOOK_SECONDS = 0.1


def etcd_program() -> Path | None:
    """The etcd of the system, or the one that `make failover` unpacked."""
    return next((path for path in ETCD if path.is_file()), None)


@cache
def patroni_command() -> tuple[str, ...] | None:
    """How the servers' user runs Patroni; None when each Python of this version is in a folder closed to that user."""
    user = _server_user()
    asking = [sys.executable, "-I", "-S", launch.__file__, str(user.pw_uid), str(user.pw_gid), "reach"]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    told = "import sys; print('{}.{}'.format(*sys.version_info))"
    for python in filter(Path.exists, PYTHONS):
        reached = subprocess.run([*asking, str(python), str(python.resolve())], capture_output=True, check=False)
        if reached.returncode == 0:
            said = subprocess.run([str(python), "-I", "-c", told], capture_output=True, text=True, check=False)
            if said.stdout.strip() == version:
                return str(python), "-m", "patroni"
    return None


def missing() -> str | None:
    """Why no drill can be made here; None when everything is there."""
    if not (INSTALLED / ".installed").exists() or not PATRONI.is_file():
        return "`make failover` installs Patroni"
    if etcd_program() is None:
        return "there is no etcd (Debian package etcd-server)"
    if os.geteuid() == 0 and not any(user.pw_name == "postgres" for user in pwd.getpwall()):
        return "started as root, PostgreSQL needs a user named postgres"
    if patroni_command() is None:
        return "no Python of this version is open to the user of the servers, such as Debian's"
    return None


def _server_user() -> pwd.struct_passwd:
    """The user of the servers: PostgreSQL never runs as root."""
    return pwd.getpwnam("postgres") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())


def _start(log: Path, *command: str | Path, bound: bool = True) -> subprocess.Popen[bytes]:
    """Start a program as the servers' user. `bound`: it ends with this process."""
    user = _server_user()
    become = [sys.executable, "-I", "-S", launch.__file__, str(user.pw_uid), str(user.pw_gid), "run", str(int(bound))]
    with log.open("ab") as output:
        return subprocess.Popen(
            [*become, *map(str, command)],
            env={
                "PATH": "/usr/bin:/bin",
                "LC_ALL": "C",
                "TZ": "UTC",
                "HOME": str(log.parent),
                "PYTHONPATH": str(LIBRARIES),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
        )


def _fetch(url: str, body: bytes | None = None) -> Any:
    """JSON of a Patroni or an etcd. Raises OSError or ValueError."""
    with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=2) as answer:  # noqa: S310
        return json.loads(answer.read())


class Etcd:
    """Three members of etcd."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.ports = [free_port() for _ in range(3)]
        self._peers = [free_port() for _ in range(3)]
        self._members: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start all members and wait until they have a leader."""
        self._members = [self._run(number) for number in range(3)]
        give_up = time.monotonic() + WHOLE_SECONDS
        while self.leader() is None:
            assert time.monotonic() < give_up, "etcd has no leader"
            time.sleep(LOOK_SECONDS)

    def _run(self, number: int) -> subprocess.Popen[bytes]:
        program = etcd_program()
        assert program is not None
        client, peer = (f"http://127.0.0.1:{ports[number]}" for ports in (self.ports, self._peers))
        members = ",".join(f"e{one}=http://127.0.0.1:{port}" for one, port in enumerate(self._peers))
        return _start(
            self._directory / f"etcd{number}.log",
            program,
            *("--name", f"e{number}", "--data-dir", self._directory / f"etcd{number}"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", members, "--initial-cluster-state", "new", "--logger", "zap"),
        )

    def leader(self) -> int | None:
        """The number of the leader; None while there is none."""
        for number, port in enumerate(self.ports):
            with suppress(OSError, ValueError):
                status = _fetch(f"http://127.0.0.1:{port}/v3/maintenance/status", b"{}")
                if status.get("leader") == status["header"]["member_id"]:
                    return number
        return None

    def kill_leader(self) -> int:
        """Kill the leader (SIGKILL); returns its number."""
        number = self.leader()
        assert number is not None, "etcd has no leader to kill"
        self._members[number].kill()
        self._members[number].wait()
        return number

    def revive(self, number: int) -> None:
        """Start a member again that was killed."""
        self._members[number] = self._run(number)

    def stop(self) -> None:
        for member in self._members:
            member.kill()
            member.wait()


class Host:
    """One host: its PostgreSQL, its Patroni, and its links to the others."""

    def __init__(self, name: str, directory: Path, programs: Path, etcd: Etcd) -> None:
        self.name = name
        self.port, self._rest = free_port(), free_port()
        self.sql_link, self._rest_link = Link(self.port), Link(self._rest)
        self._etcd_links = [Link(port) for port in etcd.ports]
        self._programs = programs
        self._directory = directory / name
        self._directory.mkdir(mode=0o700)
        user = _server_user()
        if os.geteuid() == 0:
            os.chown(self._directory, user.pw_uid, user.pw_gid)
        self._patroni: subprocess.Popen[bytes] | None = None
        self._restarted: list[subprocess.Popen[bytes]] = []

    @property
    def data(self) -> Path:
        return self._directory / "data"

    @property
    def log(self) -> Path:
        return self._directory.parent / f"{self.name}.log"

    def admin_url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}?connect_timeout=2"

    def start(self) -> None:
        """Start Patroni, which makes and starts the PostgreSQL."""
        configuration = self._directory.parent / f"{self.name}.json"
        configuration.write_text(json.dumps(self._configuration()))
        configuration.chmod(0o644)
        command = patroni_command()
        assert command is not None
        self._patroni = _start(self.log, *command, configuration)

    def _configuration(self) -> dict[str, Any]:
        at = "127.0.0.1"
        trusted = ["local all all trust", f"host all all {at}/32 trust", f"host replication all {at}/32 trust"]
        return {
            "scope": "drill",
            "name": self.name,
            "restapi": {"listen": f"{at}:{self._rest}", "connect_address": f"{at}:{self._rest_link.port}"},
            # With use_proxies, Patroni does not ask etcd for addresses that lead past the links.
            "etcd3": {"hosts": [f"{at}:{link.port}" for link in self._etcd_links], "use_proxies": True},
            "bootstrap": {"dcs": CONFIGURATION, "initdb": [{"encoding": "UTF8"}, {"auth": "trust"}, "data-checksums"]},
            "postgresql": {
                "listen": f"{at}:{self.port}",
                "connect_address": f"{at}:{self.sql_link.port}",
                "data_dir": str(self.data),
                "bin_dir": str(self._programs),
                "pgpass": str(self._directory / "pgpass"),
                "authentication": {"superuser": {"username": "postgres"}, "replication": {"username": "replicator"}},
                "pg_hba": trusted,
                "parameters": {"unix_socket_directories": str(self._directory), "shared_buffers": "64MB"},
            },
        }

    # -- what is done to it ------------------------------------------------------------------------------------

    def postmaster(self) -> psutil.Process | None:
        """The first process of its PostgreSQL; None when it does not run."""
        with suppress(OSError, ValueError, IndexError, psutil.Error):
            process = psutil.Process(int((self.data / "postmaster.pid").read_text().splitlines()[0]))
            if process.status() != psutil.STATUS_ZOMBIE and process.name().startswith("postgres"):
                return process
        return None

    def kill_postmaster(self) -> None:
        """Kill it (SIGKILL) and wait until its sessions are gone too."""
        process = self.postmaster()
        assert process is not None, f"the PostgreSQL of {self.name} does not run"
        sessions = process.children(recursive=True)
        process.kill()
        psutil.wait_procs([process, *sessions], timeout=10)

    def _processes(self) -> list[psutil.Process]:
        process = self.postmaster()
        found = [] if process is None else [process, *process.children(recursive=True)]
        return found if self._patroni is None else [psutil.Process(self._patroni.pid), *found]

    def pause(self, *, patroni_alone: bool = False) -> None:
        """Stop all of its processes (SIGSTOP), as a machine that hangs; or its Patroni alone."""
        for process in self._processes()[: 1 if patroni_alone else None]:
            with suppress(psutil.Error):
                process.suspend()

    def resume(self) -> None:
        """Continue all of its processes."""
        for process in self._processes():
            with suppress(psutil.Error):
                process.resume()

    def restart_postgres(self) -> None:
        """Start the PostgreSQL as it was started before, past Patroni: what a machine does that comes back at once."""
        words = shlex.split((self.data / "postmaster.opts").read_text())
        self._restarted.append(_start(self.log, *words, bound=False))
        give_up = time.monotonic() + WHOLE_SECONDS
        while self.sql("select pg_is_in_recovery()") != [(False,)]:
            assert time.monotonic() < give_up, f"{self.name} does not come back"
            time.sleep(LOOK_SECONDS)

    def cut_off(self) -> None:
        """Cut every link between this host and the others, etcd included."""
        for link in self._links():
            link.cut()

    def mend(self) -> None:
        """Mend every link of it."""
        for link in self._links():
            link.mend()

    def _links(self) -> Iterator[Link]:
        yield from (self.sql_link, self._rest_link, *self._etcd_links)

    def stop(self) -> None:
        """End its processes, at once."""
        self.resume()
        if self._patroni is not None:
            self._patroni.kill()
            self._patroni.wait()
        if (process := self.postmaster()) is not None:
            process.send_signal(signal.SIGQUIT)
            if psutil.wait_procs([process], timeout=10)[1]:
                self.kill_postmaster()
        for restarted in self._restarted:
            restarted.wait()
        for link in self._links():
            link.close()

    # -- what it says ------------------------------------------------------------------------------------------

    def sql(self, query: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Ask its PostgreSQL; nothing when it does not answer."""
        with suppress(psycopg.Error), psycopg.connect(self.admin_url(database), autocommit=True) as connection:
            connection.execute("set statement_timeout = 2000")
            return connection.execute(query.encode()).fetchall()
        return []

    def roles(self) -> list[str]:
        """The roles of all members, as its Patroni sees them."""
        with suppress(OSError, ValueError, KeyError):
            members = _fetch(f"http://127.0.0.1:{self._rest}/cluster")["members"]
            return sorted(member["role"] for member in members if member["state"] in {"running", "streaming"})
        return []


class Hosts:
    """The three hosts and their etcd."""

    def __init__(self, directory: Path, programs: Path | None = None) -> None:
        self.etcd = Etcd(directory)
        user = _server_user()
        if os.geteuid() == 0:
            os.chown(directory, user.pw_uid, user.pw_gid)
        self.all = [Host(name, directory, programs or wheel_programs(), self.etcd) for name in ("a", "b", "c")]
        self._ended = threading.Event()

    def url(self, role: str = "service", database: str = "service") -> str:
        """The list of hosts, as the service is given it."""
        listed = ",".join(f"127.0.0.1:{host.port}" for host in self.all)
        return f"postgresql://{role}@{listed}/{database}?target_session_attrs=read-write"

    def start(self) -> None:
        """Start everything, wait until it is whole, and make the service's role and database."""
        self.etcd.start()
        for host in self.all:
            host.start()
        self.wait_until_whole()
        with psycopg.connect(self.primary().admin_url(), autocommit=True) as connection:
            for statement in ("create role service login", "create role service_queries"):
                connection.execute(statement)
            connection.execute("grant service_queries to service")
            connection.execute("create database service owner service")

    def primary(self) -> Host:
        """The host that takes writes. Fails when there is none, or more than one."""
        found = [host for host in self.all if host.sql("select pg_is_in_recovery()") == [(False,)]]
        assert len(found) == 1, f"{len(found)} hosts take writes"
        return found[0]

    def is_whole(self) -> bool:
        """Whether one host leads, and the two others are synchronous standbys that Patroni may promote."""
        streaming = "select count(*) from pg_stat_replication where state = 'streaming' and sync_state = 'quorum'"
        leading = [host for host in self.all if host.sql("select pg_is_in_recovery()") == [(False,)]]
        return (
            len(leading) == 1
            and leading[0].sql(streaming) == [(2,)]
            and all(host.roles() == ["leader", "quorum_standby", "quorum_standby"] for host in self.all)
        )

    def wait_until_whole(self) -> None:
        """Wait for that. Fails when it takes too long, and when they are ended meanwhile."""
        give_up = time.monotonic() + WHOLE_SECONDS
        while not self.is_whole():
            assert time.monotonic() < give_up, f"the hosts are not whole again: {[host.roles() for host in self.all]}"
            assert not self._ended.wait(LOOK_SECONDS), "the hosts were ended"

    def stop(self) -> None:
        self._ended.set()
        for host in self.all:
            host.stop()
        self.etcd.stop()


@contextmanager
def running_hosts(directory: Path, programs: Path | None = None) -> Iterator[Hosts]:
    """The three hosts for a block. What they leave is small afterwards: their data is removed, the logs stay."""
    hosts = Hosts(directory, programs)
    try:
        hosts.start()
        yield hosts
    finally:
        hosts.stop()
        for host in hosts.all:
            shutil.rmtree(host.data, ignore_errors=True)
