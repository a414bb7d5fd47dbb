"""`service serve` keeps the API, the worker and the database running, and takes all of it along when it ends."""

import http.client
import signal
import socket
import subprocess
import sys
import time

import httpx2
import psutil
import psycopg
import pytest

from tests.support import long_after
from tests.support.accounts import bearer, create_credential, create_project, sign_in
from tests.support.rounds import wait_until
from tests.support.server import ServerFactory, ServerHandle

STOP_SECONDS = 5.0


def cli(server: ServerHandle, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line with the server's settings."""
    return subprocess.run(
        [sys.executable, "-m", "service", *words], env=server.env, capture_output=True, text=True, check=False
    )


def postmaster(server: ServerHandle) -> psutil.Process | None:
    """The embedded server of a test server, whoever its parent is."""
    for process in psutil.process_iter(["name", "cmdline"]):
        line = process.info["cmdline"] or []
        if process.info["name"] == "postgres" and f"{server.env['SERVICE_DATA_DIR']}/postgres" in line:
            return process
    return None


def wait_until_answers(server: ServerHandle, seconds: float = 15.0) -> None:
    server.wait_until_ready(seconds)


def test_the_embedded_life_of_a_server(server_factory: ServerFactory):
    """Start, kill, adopt, work beside commands, refuse a second one, stop: with all data, and nothing left behind."""
    server = server_factory.prepare()
    server.start()
    with server.client() as client:
        key = sign_in(client, server.internal_token, "first")
        project = create_project(client, key)
    orphan = postmaster(server)
    assert orphan is not None

    server.kill()
    assert postmaster(server) == orphan, "the database outlives a killed supervisor"

    server.start()
    assert postmaster(server) == orphan, "and is adopted by the next one"
    with server.client(key) as client:
        assert [found["id"] for found in client.get("/v1/projects").json()["projects"]] == [project["id"]]

    beside = cli(server, "keys", "list", "--json")
    assert beside.returncode == 0, beside.stderr
    assert '"email":"first@example.com"' in beside.stdout
    assert postmaster(server) == orphan, "a command beside a server leaves the database alone"

    second = cli(server, "serve")
    assert second.returncode == 1
    assert "Another service runs on " in second.stderr

    assert server.stop() < STOP_SECONDS
    assert postmaster(server) is None


def test_what_dies_comes_back(server_factory: ServerFactory):
    """The worker, the process that serves, the one that watches over it, and the database: each killed in turn."""
    server = server_factory.prepare()
    server.start()
    for module, level in (
        ("service.process.worker", 0),
        ("service.process.serving", -1),
        ("service.process.serving", 0),
    ):
        before = server.processes(module)
        before[level].kill()
        psutil.wait_procs([before[level]], timeout=5)
        deadline = time.monotonic() + 20
        while len(server.processes(module)) < len(before) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(server.processes(module)) == len(before)
        wait_until_answers(server)
    database = postmaster(server)
    assert database is not None
    database.kill()
    deadline = time.monotonic() + 20
    while postmaster(server) in {None, database} and time.monotonic() < deadline:
        time.sleep(0.05)
    wait_until_answers(server)
    with server.client() as client:
        sign_in(client, server.internal_token)
    [worker], serving = server.processes("service.process.worker"), server.processes("service.process.serving")
    assert worker.nice() > max(process.nice() for process in serving), "it gives way to them"
    assert server.stop() < STOP_SECONDS


def test_a_killed_supervisor_takes_its_children_along(server_factory: ServerFactory):
    server = server_factory()
    assert len(server.processes("service.process.serving")) == 2
    assert len(server.processes("service.process.worker")) == 1, server.log()
    server.kill()
    with pytest.raises((httpx2.ConnectError, httpx2.ReadError)), server.client() as client:  # refused, or reset
        client.get("/health/live")


@pytest.mark.parametrize("delay", long_after(2, [0.0, 0.8, 0.3, 1.5]))
def test_a_signal_while_starting_stops_everything(server_factory: ServerFactory, delay: float):
    """However far the start has come, SIGTERM ends it, and the database with it."""
    server = server_factory.prepare()
    server.begin()
    time.sleep(delay)
    assert server.stop() < STOP_SECONDS + 3
    assert postmaster(server) is None


@pytest.mark.release
def test_ctrl_c_stops_in_order(server_factory: ServerFactory):
    server = server_factory.prepare()
    server.start()
    assert server.process is not None
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(STOP_SECONDS) == 0
    assert postmaster(server) is None


def test_requests_under_way_are_answered_when_it_stops(server_factory: ServerFactory):
    """A body that is still arriving when SIGTERM comes gets its answer, if it comes within two seconds."""
    server = server_factory()
    with server.client() as client:
        sign_in(client, server.internal_token)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.putrequest("POST", "/v1/auth/device")
    connection.putheader("content-type", "application/json")
    connection.putheader("content-length", "2")
    connection.endheaders(b"{")
    time.sleep(0.3)
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    connection.send(b"}")
    assert connection.getresponse().status == 200
    connection.close()


def test_two_servers_share_one_database(server_factory: ServerFactory, database_url: str):
    """What one writes the other reads, and both stop without the other."""
    one = server_factory(database_url=database_url)
    other = server_factory(database_url=database_url, env={"SERVICE_INTERNAL_TOKEN": one.internal_token})
    with one.client() as client:
        key = sign_in(client, one.internal_token)
        project = create_project(client, key)
    one.stop()
    with other.client(key) as client:
        assert [found["id"] for found in client.get("/v1/projects").json()["projects"]] == [project["id"]]
        credential = create_credential(client, key, project["id"])
        assert credential["env_var"] == "SERVICE_CI_API_KEY"


def test_two_servers_started_at_once_migrate_once(server_factory: ServerFactory, empty_database_url: str):
    """A line for each file at debug, and one for all of them."""
    env = {"SERVICE_LOG_LEVEL": "debug"}
    servers = [server_factory.prepare(database_url=empty_database_url, env=env) for _ in range(2)]
    for server in servers:
        server.begin()
    for server in servers:
        server.wait_until_ready()
    with psycopg.connect(empty_database_url) as connection:
        names = connection.execute(
            "select name from schema_migrations union all select name from schema_functions"
        ).fetchall()
    logs = [server.log() for server in servers]
    assert sum(log.count('"event": "applied"') for log in logs) == len(names)
    assert sorted(log.count('"event": "migrated"') for log in logs) == [0, 1]
    assert any(f'"files": {len(names)}' in log for log in logs)


def test_a_moved_clock_is_refused_without_the_setting(server_factory: ServerFactory, database_url: str):
    """G-120: a database that tests have moved in time never serves for real."""
    server = server_factory(database_url=database_url)
    server.advance(3600)
    server.stop()
    real = server_factory.prepare(database_url=database_url, env={"SERVICE_TEST_CLOCK": "0"})
    real.begin()
    assert real.process is not None
    assert real.process.wait(20) == 1
    assert "3600 seconds ahead" in real.log()


def test_a_port_in_use_is_told_in_a_sentence(server_factory: ServerFactory, database_url: str):
    """Rather than starting again for ever, or taking another program's answers for its own."""
    server = server_factory.prepare(database_url=database_url)
    with socket.create_server(("127.0.0.1", server.port)):
        server.begin()
        assert server.process is not None
        assert server.process.wait(20) == 1
    assert f"Port {server.port} of 127.0.0.1 is not free" in server.log()


def test_several_processes_serve_when_asked(server_factory: ServerFactory):
    server = server_factory(env={"SERVICE_WORKERS": "2"})
    assert len(server.processes("service.process.serving")) == 3
    with server.client() as client:
        key = sign_in(client, server.internal_token)
        create_project(client, key)
    for _ in range(20):
        with server.client(key) as client:
            assert client.get("/v1/projects").json()["count"] == 1


def test_bad_settings_end_it_with_a_sentence(server_factory: ServerFactory, database_url: str):
    server = server_factory.prepare(database_url=database_url, env={"SERVICE_ENCRYPTION_KEY": "", "SERVICE_PORT": "x"})
    server.begin()
    assert server.process is not None
    assert server.process.wait(20) == 1
    assert "SERVICE_PORT: must be" in server.log()
    assert "Traceback" not in server.log()


def test_no_secret_is_logged(server_factory: ServerFactory):
    """Nothing that lets somebody in stands in the logs or in the database's log."""
    server = server_factory.prepare(env={"SERVICE_LOG_LEVEL": "debug"})
    server.start()
    with server.client() as client:
        key = sign_in(client, server.internal_token)
        dsn = create_project(client, key)["dsn"]
        client.get("/v1/projects", headers=bearer(key + "x"))
    server.stop()
    said = server.log() + (server.directory / "data" / "postgres.log").read_text()
    for secret in (key, dsn, server.internal_token, server.test_token):
        assert secret not in said


@pytest.mark.release
def test_an_idle_server_is_small_and_starts_soon(server_factory: ServerFactory):
    """At most 140 MB for each API process, shared memory counted in proportion; a second start takes 3 s at most.

    The time is measured on the clock of the processes themselves (their CPU seconds), which other work on the
    machine does not lengthen.
    """
    server = server_factory.prepare()
    server.start()
    for process in server.processes("service.process.serving"):
        assert process.memory_full_info().pss < 140_000_000
    server.stop()
    server.start()
    assert server.process is not None
    family = [psutil.Process(server.process.pid), *server.processes("service.")]
    assert sum(sum(process.cpu_times()[:2]) for process in family) < 6.0
    wait_until(lambda: "Service ready after" in server.log())
