"""The systemd unit is one that systemd takes, and the service tells it what it waits for; compose takes its file."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import psycopg

from service.embedded.programs import wheel_programs
from service.eventstore.schema import roles
from service.eventstore.schema.guards import check_guards
from tests.deploy.programs import check_unit, composed
from tests.support.cluster import TestCluster
from tests.support.server import ServerFactory

DEPLOY = Path(__file__).parents[2] / "deploy"
CONSOLE_SCRIPT = Path(sys.executable).with_name("service")


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to say, once the program is where it is here."""
    text = (DEPLOY / "service.service").read_text()
    unit = tmp_path / "service.service"
    unit.write_text(text.replace("/opt/service/.venv/bin/service", str(CONSOLE_SCRIPT)).replace("/opt/service", "/"))
    check_unit(unit)
    assert f"ExecStart={CONSOLE_SCRIPT} serve" in unit.read_text()


def test_the_service_manager_is_told(server_factory: ServerFactory, tmp_path: Path) -> None:
    """READY=1 comes when the API answers, not before; STOPPING=1 when the end begins."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        server = server_factory.prepare(env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        server.begin()
        assert manager.recv(4096).startswith(b"READY=1\nSTATUS=Serving on http://")
        with server.client() as client:
            assert client.get("/health/live").is_success
        server.stop()
        assert manager.recv(4096) == b"STOPPING=1"


def test_compose_accepts_its_file() -> None:
    """The file holds to the schema of compose, and the service waits for a database that is healthy."""
    made = composed(DEPLOY / "compose.yaml")
    assert "condition: service_healthy" in made
    assert "/docker-entrypoint-initdb.d/roles.sql" in made
    assert "SERVICE_BASE_URL: https://service.example.com" in made


def test_the_roles_of_the_database_are_made_and_serve(cluster: TestCluster, tmp_path: Path) -> None:
    """By psql on every word of the file, but for the names: a test server has a role and a database of the same."""
    text = (DEPLOY / "roles.sql").read_text()
    text = re.sub(r"\b(role|to|owner|database|grant) (service\w*)", r"\1 made_\2", text)
    (tmp_path / "roles.sql").write_text(text)
    for name in ("owner", "serving"):
        (tmp_path / name).write_text(f"it's the {name}'s \\ password\n")
    admin = cluster.attachment.layout.admin_url
    try:
        done = subprocess.run(
            [str(wheel_programs() / "psql"), "--no-psqlrc", admin, "--file", str(tmp_path / "roles.sql")],
            env={
                **os.environ,
                "OWNER_PASSWORD_FILE": str(tmp_path / "owner"),
                "SERVING_PASSWORD_FILE": str(tmp_path / "serving"),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        owner, serving = cluster.url("made_service", "made_service_owner"), cluster.url("made_service", "made_service")
        roles.bring_forward(serving, owner)
        with psycopg.connect(serving) as connection:
            assert list(check_guards(connection, parted=True)) == []
            connection.execute("set role made_service_queries")
            assert connection.execute("select count(*) from queried_events").fetchone() == (0,)
    finally:
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute("drop database if exists made_service with (force)")
            connection.execute("drop role if exists made_service, made_service_owner, made_service_queries")
