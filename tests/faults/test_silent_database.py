"""A database that hangs: everybody hears of it in time, the log tells it once, and nothing needs a restart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import httpx2
import psutil

from tests.support.accounts import bearer, create_project, sign_in
from tests.support.server import ServerFactory, ServerHandle


@contextmanager
def stopped_database(server: ServerHandle) -> Iterator[None]:
    """All processes of the embedded PostgreSQL, stopped for a block."""
    cluster = f"{server.env['SERVICE_DATA_DIR']}/postgres"
    named = {
        found.pid: found
        for found in psutil.process_iter(["name", "cmdline", "ppid"])
        if found.info["name"] == "postgres" and cluster in (found.info["cmdline"] or [])
    }
    # One that it has just begun still has its command line.
    [postmaster] = [found for found in named.values() if found.info["ppid"] not in named]
    os.kill(postmaster.pid, signal.SIGSTOP)  # first: it begins no more of them
    family = [postmaster, *postmaster.children(recursive=True)]
    _signal_all(family, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal_all(family, signal.SIGCONT)


def _signal_all(family: list[psutil.Process], what: signal.Signals) -> None:
    for process in family:
        with suppress(psutil.NoSuchProcess):  # one whose work was done has ended by itself
            process.send_signal(what)


def timed(client: httpx2.Client, method: str, path: str, **more: object) -> tuple[float, httpx2.Response]:
    began = time.monotonic()
    answer = client.request(method, path, timeout=30, **more)  # type: ignore[arg-type]
    return time.monotonic() - began, answer


def lines(server: ServerHandle, event: str, process: str) -> list[dict[str, object]]:
    found = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    return [line for line in found if line["event"] == event and line["process"] == process]


def test_a_stopped_database_is_told_in_time_and_once(server_factory: ServerFactory):
    server = server_factory.prepare(env={"SERVICE_LOG_LEVEL": "info"})
    server.start()
    with server.client() as client, ThreadPoolExecutor(8) as crowd:
        key = sign_in(client, server.internal_token)
        dsn = create_project(client, key)["dsn"]
        record = {"level": "error", "message": "Out of stock"}
        client.post("/v1/logs/", json=record, headers=bearer(dsn)).raise_for_status()
        with stopped_database(server):
            doctor = crowd.submit(
                subprocess.run,
                [sys.executable, "-m", "service", "doctor", "--json"],
                env=server.env,
                capture_output=True,
                check=False,
            )
            began = time.monotonic()
            calls = [
                crowd.submit(timed, client, "GET", "/v1/projects", headers=bearer(key)),
                crowd.submit(timed, client, "POST", "/v1/projects", headers=bearer(key), json={"name": "Late"}),
                crowd.submit(timed, client, "POST", "/v1/logs/", headers=bearer(dsn), json=record),
                *(crowd.submit(timed, client, "GET", "/health/ready") for _ in range(3)),
            ]
            answers = [call.result() for call in calls]
            for seconds, answer in answers:
                assert answer.status_code == 503, answer.text
                assert answer.headers["retry-after"]
                assert seconds < 8
            for seconds, answer in answers[3:]:
                assert seconds < 3
                [check] = answer.json()["error"]["details"]["checks"]
                assert (check["name"], check["ok"]) == ("database", False)
                assert check["detail"].startswith(("no answer within", "no connection to it"))
            told = doctor.result()
            assert time.monotonic() - began < 10
            assert told.returncode == 1
            assert {f["check"]: f["result"] for f in json.loads(told.stdout)}["database"] == "wrong"
        server.wait_until_ready(8)
        assert create_project(client, key)["id"]
    for process in ("api", "worker"):
        assert len(lines(server, "database_gone", process)) <= 1
        assert len(lines(server, "database_back", process)) == len(lines(server, "database_gone", process))
    assert len(lines(server, "database_gone", "api")) == 1
    # But for those whose time was over before the silence was certain, no request has a line of its own.
    assert len(lines(server, "request_not_served", "api")) <= len(calls)
    assert "interrupted" not in server.log()
