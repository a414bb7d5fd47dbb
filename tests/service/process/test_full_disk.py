"""A disk that is low, then full, then not: it is told in time, nothing is lost, and the service goes on by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from service.eventstore.connect.connection import QUIET_SECONDS
from tests.support.accounts import bearer, create_project, sign_in
from tests.support.server import ServerFactory, ServerHandle

DISK_MB = 640
BOUND_MB = 200
BALLAST_MB = 100
BLOCK = b"x" * 100_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=711", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root can mount a small disk; tests/service/eventstore/test_fulldisk.py has the rest")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def ready(server: ServerHandle) -> tuple[int, dict[str, bool]]:
    """Status of the readiness check, and what it looked at."""
    with server.client() as client:
        answer = client.get("/health/ready")
    body = answer.json()
    checks = body["checks"] if answer.is_success else body["error"]["details"]["checks"]
    return answer.status_code, {check["name"]: check["ok"] for check in checks}


def doctor(server: ServerHandle) -> dict[str, str]:
    """Results by check."""
    words = [sys.executable, "-m", "service", "doctor", "--json"]
    env = {**server.env, "SERVICE_TEST_CLOCK": "1"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    return {finding["check"]: finding["result"] for finding in json.loads(done.stdout)}


def lines(server: ServerHandle, event: str) -> list[dict[str, Any]]:
    """Log lines of the API process with this event."""
    found = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    return [line for line in found if line["event"] == event and line["process"] == "api"]


def until(look: Callable[[], bool], seconds: float) -> None:
    give_up = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < give_up
        time.sleep(0.2)


def fill(file: Path, megabytes: float | None = None) -> None:
    """Take so much of the disk, or all of it."""
    with file.open("ab", buffering=0) as out, suppress(OSError):
        while megabytes is None or out.tell() < megabytes * 1e6:
            out.write(BLOCK)


def log_event(client: httpx2.Client, dsn: str, number: int) -> httpx2.Response:
    return client.post(
        "/v1/logs/",
        json={"level": "error", "message": f"failed {number}", "extra": {"of": "x" * 50_000}},
        headers=bearer(dsn),
    )


def test_low_full_and_room_again(small_disk: Path, server_factory: ServerFactory) -> None:
    server = server_factory.prepare(data_dir=small_disk / "data", env={"SERVICE_MIN_FREE_MB": str(BOUND_MB)})
    server.start()
    with server.client() as client:
        key = sign_in(client, server.internal_token)
        project = create_project(client, key)
        assert ready(server) == (200, {**ready(server)[1], "disk": True, "writes": True})
        assert doctor(server)["disk"] == "warning", "below a gigabyte"

        filler = small_disk / "filler"
        fill(filler, free_mb(small_disk) - BOUND_MB / 2)
        status, checks = ready(server)
        assert (status, checks["disk"], checks["writes"], checks["database"]) == (503, False, True, True)
        assert doctor(server)["disk"] == "wrong"
        assert log_event(client, project["dsn"], 0).status_code == 202, "what there is room for is still taken"

        fill(filler)
        taken = 1
        refused: list[httpx2.Response] = []
        for number in range(1, 400):
            answer = log_event(client, project["dsn"], number)
            taken += answer.status_code == 202
            if answer.status_code != 202:
                refused.append(answer)
            if len(refused) == 4:
                break
        assert {answer.status_code for answer in refused} == {503}
        assert all(answer.headers["retry-after"] for answer in refused)
        status, checks = ready(server)
        assert (status, checks["database"], checks["writes"]) == (503, True, False)
        assert client.get(f"/v1/projects/{project['id']}/cases", headers=bearer(key)).status_code == 200, "reads go on"
        assert doctor(server)["writing"] == "wrong"

        filler.unlink()
        until(lambda: ready(server)[0] == 200, 60)
        until(lambda: log_event(client, project["dsn"], 1000).status_code == 202, 20)
        assert len(lines(server, "disk_full")) == len(lines(server, "disk_has_room")) == 1
        assert not lines(server, "record_failed")
        cases = client.get(f"/v1/projects/{project['id']}/cases", headers=bearer(key)).json()["cases"]
        assert sum(case["event_count"] for case in cases) >= taken + 1
    assert doctor(server)["disk"] == "warning"
    verified = subprocess.run(
        [sys.executable, "-m", "service", "events", "verify"], env=server.env, capture_output=True, check=False
    )
    assert verified.returncode == 0, verified.stdout


def supervised(server: ServerHandle, *events: str) -> list[str]:
    """Those events of the supervisor's log, in order."""
    found = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    return [line["event"] for line in found if line["process"] == "supervisor" and line["event"] in events]


CHANGES = ("ballast_given_up", "writes_stopped", "writes_resumed", "database_ended", "database_not_started")


def test_the_ballast_goes_first_then_writes_stop_and_both_come_back(
    small_disk: Path, server_factory: ServerFactory
) -> None:
    """The server outlives a disk that fills, also over a restart. Each change is one line of the log."""
    env = {"SERVICE_MIN_FREE_MB": str(BOUND_MB), "SERVICE_BALLAST_MB": str(BALLAST_MB)}
    data = small_disk / "data"
    server = server_factory.prepare(data_dir=data, env=env)
    server.start()
    ballast = data / "ballast"
    until(ballast.exists, 10)
    assert ballast.stat().st_blocks * 512 >= BALLAST_MB * 1_000_000, "its blocks are there"
    with server.client() as client:
        key = sign_in(client, server.internal_token)
        project = create_project(client, key)
        cases = f"/v1/projects/{project['id']}/cases"

        filler = small_disk / "filler"
        fill(filler, free_mb(small_disk) - 50)
        until(lambda: not ballast.exists(), 10)
        assert log_event(client, project["dsn"], 1).status_code == 202, "the ballast made room"
        until(lambda: supervised(server, *CHANGES) == ["ballast_given_up"], 5)

        with filler.open("ab", buffering=0) as out:
            while free_mb(small_disk) > 55:
                out.write(BLOCK)
        until(lambda: log_event(client, project["dsn"], 2).status_code == 503, 10)
        answer = client.post("/v1/projects", json={"name": "No room"}, headers=bearer(key))
        assert (answer.status_code, answer.headers["retry-after"] != "") == (503, True)
        assert "takes no writes" in answer.json()["error"]["message"]
        assert client.get(cases, headers=bearer(key)).status_code == 200
        assert ready(server)[1]["writes"] is False
        fill(filler)  # Somebody else goes on to the last byte: reads do so, too.
        assert client.get(cases, headers=bearer(key)).status_code == 200
        assert supervised(server, *CHANGES) == ["ballast_given_up", "writes_stopped"]

        os.truncate(filler, filler.stat().st_size - 30_000_000)  # PostgreSQL itself starts with some room alone
        server.stop()
        server.begin()
        until(lambda: answers_reads(client, cases, key), 30)
        assert ready(server)[0] == 503
        assert log_event(client, project["dsn"], 3).status_code == 503
        assert supervised(server, *CHANGES) == ["ballast_given_up", "writes_stopped", "writes_stopped"]

        filler.unlink()
        until(lambda: log_event(client, project["dsn"], 4).status_code == 202, 20)
        until(ballast.exists, 10)
        until(lambda: ready(server)[0] == 200, 30)
    assert supervised(server, *CHANGES) == [*("ballast_given_up", "writes_stopped", "writes_stopped", "writes_resumed")]


def answers_reads(client: httpx2.Client, path: str, key: str) -> bool:
    with suppress(httpx2.HTTPError):
        return client.get(path, headers=bearer(key)).status_code == 200
    return False


def free_mb(place: Path) -> float:
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize / 1e6


REFUSE = """
create function no_room() returns trigger language plpgsql as
    $$ begin raise exception 'could not extend file' using errcode = '53100'; end $$;
create trigger no_room before insert on events for each row execute function no_room()"""


def test_writes_that_find_no_room_in_a_database_elsewhere(server_factory: ServerFactory, database_url: str) -> None:
    """Each is answered 503, readiness is red meanwhile and for a while, and the log has two lines for all of it.

    One of two processes meets it, and either says so: readiness is asked anew, on a connection of its own each time.
    """
    server = server_factory(database_url=database_url, env={"SERVICE_WORKERS": "2"})
    with server.client() as client, psycopg.connect(database_url, autocommit=True) as connection:
        key = sign_in(client, server.internal_token)
        assert "disk" not in ready(server)[1]
        connection.execute(REFUSE)
        for _ in range(12):
            answer = client.post("/v1/projects", json={"name": "No room"}, headers=bearer(key))
            assert answer.status_code == 503
            assert "disk is full. Nothing was stored" in answer.json()["error"]["message"]
        for _ in range(12):
            status, checks = ready(server)
            assert (status, checks["writes"]) == (503, False)
        connection.execute("drop trigger no_room on events")
        create_project(client, key)
        assert ready(server)[0] == 503, "the next one may fail again"
        until(lambda: ready(server)[0] == 200, QUIET_SECONDS + 5)
        # The process that met it says so when it is the one that is asked.
        until(lambda: ready(server)[0] == 200 and bool(lines(server, "disk_has_room")), 5)
    assert len(lines(server, "disk_full")) == len(lines(server, "disk_has_room")) == 1
    assert not lines(server, "command_failed")
    assert not lines(server, "request_not_served")
