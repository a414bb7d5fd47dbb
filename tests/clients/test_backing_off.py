"""SDKs that are told to wait do so, and send again what they keep (G-142): against refusals of the service itself."""

from __future__ import annotations

import os
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.eventstore.declare import names
from tests.clients.test_generators import HERE, MODULES, SCRIPTS, pytestmark, run
from tests.support import seen
from tests.support.accounts import create_project, sign_in
from tests.support.cluster import TestCluster
from tests.support.rounds import wait_until
from tests.support.server import ServerHandle

__all__ = ["pytestmark"]

FILLING = "record_analytics_event"  # by whom the limit is used up
SECONDS = 60  # At most, for what a program waits for.
A_MINUTE = 60  # records that a DSN may send: one a second
PYTHON = SCRIPTS / "python"
SENTRY: dict[str, list[str | Path]] = {
    "sentry-sdk": [PYTHON, HERE / "src" / "sentry_backing_off.py"],
    "@sentry/node 10": ["node", HERE / "src" / "sentry_backing_off.cjs", MODULES / "@sentry" / "node-10"],
    "@sentry/node 11": ["node", HERE / "src" / "sentry_backing_off.cjs", MODULES / "@sentry" / "node-11"],
}
KEEPING: dict[str, list[str | Path]] = {
    "posthog": [PYTHON, HERE / "src" / "posthog_backing_off.py"],
    "posthog-node": ["node", HERE / "src" / "posthog_backing_off.cjs"],
    "opentelemetry-sdk": [PYTHON, HERE / "src" / "otel_logs.py", "2"],
    "@opentelemetry/sdk-logs, protobuf": ["node", HERE / "src" / "otel_logs.cjs", "2"],
    "@opentelemetry/sdk-logs, JSON": ["node", HERE / "src" / "otel_logs.cjs", "2"],
}
"""Programs that keep what was refused; each sends two records or four."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> Iterator[ServerHandle]:
    """A server that lets a DSN send one record a second, after as many as fill a minute."""
    with cluster.database() as url:
        limits = {"SERVICE_RATE_LIMITS": f"ingest={A_MINUTE},key=off,internal=off,device_start=off,device_poll=off"}
        handle = ServerHandle(tmp_path_factory.mktemp("backing-off"), database_url=url, env=limits)
        try:
            handle.start()
            yield handle
        finally:
            handle.stop()


@pytest.fixture
def project(server: ServerHandle) -> dict[str, Any]:
    with server.client() as client:
        return create_project(client, sign_in(client, server.internal_token, f"sdk-{uuid.uuid4().hex[:8]}"))


@contextmanager
def exhausted(
    server: ServerHandle, project: dict[str, Any], enough: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Somebody else uses up what the DSN may send, until it is enough."""
    stop = threading.Event()
    began = threading.Event()

    def use_up() -> None:
        head, filler = {"authorization": f"Bearer {project['dsn']}"}, {"event": "$filler", "distinct_id": "x"}
        until = time.monotonic() + SECONDS
        with seen.client(server.base_url, headers=head) as client:
            while not stop.is_set() and not enough() and time.monotonic() < until:
                if client.post("/v1/analytics/", json=filler).status_code == 429:
                    began.set()

    thread = threading.Thread(target=use_up)
    thread.start()
    assert began.wait(20)
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def held(server: ServerHandle, project: dict[str, Any], enough: Callable[[], bool]) -> Iterator[None]:
    """Nothing of the project is stored until it is enough: what comes is answered 503 after a while."""
    holding = threading.Event()

    def hold() -> None:
        with psycopg.connect(server.database_url or "") as session:
            number = names.lock_number(names.gate(project["id"]))
            session.execute("select pg_advisory_xact_lock(%s::bigint)", (number,))
            holding.set()
            wait_until(enough, SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holding.wait(5)
    yield
    thread.join()


def told(server: ServerHandle, project: dict[str, Any], program: str) -> dict[str, str]:
    sdks = project["sdks"]
    return {
        "SENTRY_DSN": sdks["sentry_dsn"],
        "POSTHOG_HOST": sdks["posthog_host"],
        "POSTHOG_API_KEY": sdks["posthog_key"],
        "OTEL_EXPORTER_OTLP_ENDPOINT": server.base_url,
        "OTEL_EXPORTER_OTLP_HEADERS": sdks["otlp_headers"],
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json" if program.endswith("JSON") else "http/protobuf",
        "NODE_PATH": str(MODULES),
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }


def stored(server: ServerHandle, project: dict[str, Any]) -> list[str]:
    """Messages and names of what the program sent, in order."""
    with psycopg.connect(server.database_url or "") as sql:
        rows = sql.execute(
            "select message from log_events where project_id = %s union all "
            "select event from analytics_events where project_id = %s and event not like '$%%' order by 1",
            (project["id"], project["id"]),
        )
        return [message for (message,) in rows]


def refusals(server: ServerHandle, status: int) -> float:
    """How many requests to routes of SDKs were answered so, as each process tells every second."""
    with server.client() as client:
        lines = client.get("/metrics").text.splitlines()
    found = [line for line in lines if line.startswith("service_requests_total{") and f'status="{status}"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in found if FILLING not in line)


EXPECTED = {
    "posthog": ["order paid", "order placed"],
    "opentelemetry": ["Payment 0 failed", "Payment 1 failed", "order 0", "order 1"],
}


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("program", KEEPING)
def test_what_was_refused_comes_again_and_is_stored_once(
    server: ServerHandle, project: dict[str, Any], tmp_path: Path, program: str, status: int
) -> None:
    """PostHog's SDKs and OpenTelemetry's keep what they were told to send later."""
    time.sleep(1.2)  # What came before is told.
    before = refusals(server, status)
    refusing = exhausted if status == 429 else held
    with refusing(server, project, lambda: refusals(server, status) > before):
        run(tmp_path, *KEEPING[program], **told(server, project, program))
    wait_until(lambda: refusals(server, status) > before)
    family = next(name for name in EXPECTED if name in program)
    assert stored(server, project) == EXPECTED[family]


@pytest.mark.parametrize("program", SENTRY)
def test_sentry_holds_back_and_reports_what_it_dropped(
    server: ServerHandle, project: dict[str, Any], program: str
) -> None:
    """What was refused is given up, what comes while it holds back is dropped and told in a client report."""
    before = discarded(server)
    environment = {**os.environ, **told(server, project, program)}
    command = [str(part) for part in SENTRY[program]]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with exhausted(server, project):
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "refused\n"
        assert stored(server, project) == []
        time.sleep(3)  # The bucket has a few tokens again.
        process.communicate("\n", timeout=30)
        assert process.returncode == 0
    assert stored(server, project) == ["third"]
    assert discarded(server) > before


def discarded(server: ServerHandle) -> float:
    """What Sentry's SDKs say they dropped because they were told to hold back."""
    time.sleep(1.2)  # Each process tells its counts every second.
    with server.client() as client:
        lines = client.get("/metrics").text.splitlines()
    found = [line for line in lines if line.startswith("service_sdk_discarded_total{") and "ratelimit_backoff" in line]
    return sum(float(line.rpartition(" ")[2]) for line in found)
