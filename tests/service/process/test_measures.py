"""Several processes count as one service: whichever answers a scrape, it shows the sum, also after one was killed."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from service.process import measures
from tests.support.accounts import create_project, sign_in
from tests.support.cluster import TestCluster
from tests.support.rounds import wait_until
from tests.support.server import ServerFactory, ServerHandle

ASKED = 40
SCRAPES = 12


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> Iterator[ServerHandle]:
    """A server with three API processes."""
    with ExitStack() as stack:
        factory = ServerFactory(tmp_path_factory.mktemp("several"), cluster, stack)
        yield factory(env={"SERVICE_WORKERS": "3"})


def scrape(server: ServerHandle) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """All samples, by name and labels, on a connection of its own."""
    with server.client() as client:
        text = client.get("/metrics").raise_for_status().text
    return {(s.name, frozenset(s.labels.items())): s.value for f in parsed(text) for s in f.samples}


def value(samples: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str, **labels: str) -> float:
    """One sample; 0 where there is none yet."""
    return samples.get((name, frozenset(labels.items())), 0.0)


def ask(server: ServerHandle, _: int) -> None:
    with server.client() as client:
        assert client.get("/v1/projects").status_code == 401


def refused(samples: dict[tuple[str, frozenset[tuple[str, str]]], float]) -> tuple[float, ...]:
    """What every scrape has to agree on."""
    return (
        value(samples, "service_requests_total", operation="list_projects", status="401"),
        value(samples, "service_request_seconds_count", operation="list_projects"),
        value(samples, "service_refusals_total", code="unauthenticated"),
    )


def serving(server: ServerHandle) -> list[psutil.Process]:
    """The processes that serve: the children of the one that holds the socket."""
    found = server.processes("service.process.serving")
    return [process for process in found if process.ppid() in {other.pid for other in found}]


def test_every_scrape_shows_the_sum(several: ServerHandle) -> None:
    """Requests that several processes answered; a killed one takes nothing of it along and leaves no gauge."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, [several] * ASKED, range(ASKED)))
    assert {refused(scrape(several)) for _ in range(SCRAPES)} == {(ASKED, ASKED, ASKED)}
    directory = Path(psutil.Process(several.pid).children()[0].environ()[measures.DIRECTORY])
    busy = {name.stem.split("_")[-1] for name in directory.glob("counter_*.db")}
    assert len(busy & {str(process.pid) for process in serving(several)}) > 1, "one process answered everything"

    victim = serving(several)[0]
    gauges = directory / f"gauge_livesum_{victim.pid}.db"
    assert gauges.exists()
    victim.kill()
    give_up = time.monotonic() + 10
    while gauges.exists() or len(serving(several)) < 3:
        assert time.monotonic() < give_up
        time.sleep(0.05)
    assert refused(scrape(several)) == (ASKED, ASKED, ASKED)


def test_parts_and_worker_are_counted(several: ServerHandle) -> None:
    """Commands, scrubbed and adjusted telemetry of any process, jobs of the worker, and the database's own figures."""
    with several.client() as client:
        key = sign_in(client, several.internal_token)
        project = create_project(client, key)
        event = {"level": "error", "message": "failed", "extra": {"password": "hunter2 hunter2"}}
        sent = json.dumps({**event, "tags": {"of": "half a pair: \ud800"}})
        answer = client.post(
            "/v1/logs/",
            content=sent,
            headers={"authorization": f"Bearer {project['dsn']}", "content-type": "application/json"},
        )
        assert answer.status_code == 202, answer.text
    several.advance(60)
    give_up = time.monotonic() + 20
    while True:
        shown = scrape(several)
        if (
            value(shown, "service_job_runs_total", task="automation.sweep", outcome="done")
            and value(shown, "service_scrubbed_values_total", kind="name")
            and ("service_task_age_seconds", frozenset({("task", "automation.sweep")})) in shown
            and value(shown, "service_log_events") >= 4
            and value(shown, "service_table_rows", table="projects") == 1  # the database counts with a delay
        ):
            break
        assert time.monotonic() < give_up, shown
        time.sleep(0.3)
    assert value(shown, "service_commands_total") >= 2
    assert value(shown, "service_adjusted_values_total") == 1
    assert value(shown, "service_ingest_records_total", kind="logs", outcome="accepted") == 1
    assert value(shown, "service_workers") == 1
    assert value(shown, "service_figures_readable") == 1
    assert value(shown, "service_new_cases_most") == 1
    assert value(shown, "service_deletions_open") == value(shown, "service_deletions_oldest_seconds") == 0
    assert value(shown, "service_new_cases_limit") == 500
    assert value(shown, "service_table_bytes", table="procrastinate_jobs") > 0
    assert value(shown, "service_task_age_seconds", task="automation.sweep") < 60
    assert ("service_jobs", frozenset({("status", "failed")})) in shown
    assert value(shown, "service_reader_lag_seconds", reader="reactor") < 30


def access_lines(server: ServerHandle) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == "request"]


def test_each_request_is_a_line_without_secrets(several: ServerHandle) -> None:
    """With the template, not the path; the caller's kind, not the caller; and nothing that the caller sent."""
    before = len(access_lines(several))
    with several.client("service_sk_not_a_real_key_of_anybody") as client:
        client.get("/v1/projects/proj_secretlyinthepath/cases?cursor=alsosecret")
        client.request("BREW", "/v1/projects")
        client.get("/nowhere/secretlyinthepath")
        client.options("/v1/logs/")
        client.get("/health/live", headers={"x-service-request-id": "req-of-mine-1"})
    # A line may be written after its answer has been read.
    wait_until(lambda: len(access_lines(several)) >= before + 5)
    lines = access_lines(several)[before:]
    told = [(line["method"], line["route"], line["status"], line["principal"]) for line in lines]
    assert told[:2] == [
        ("GET", "/v1/projects/{project_id}/cases", 401, "unknown"),
        ("other", "/v1/projects", 405, "unknown"),
    ]
    assert told[2:] == [
        ("GET", "unrouted", 404, "unknown"),
        ("OPTIONS", "/v1/logs/", 204, "unknown"),
        ("GET", "/health/live", 200, "anonymous"),
    ]
    assert lines[-1]["request_id"] == "req-of-mine-1"
    assert all(line["level"] == "info" and isinstance(line["ms"], float) for line in lines)
    assert not [word for word in ("secretly", "alsosecret", "not_a_real_key", "hunter2") if word in several.log()]
    assert any(line["principal"] == "key" for line in access_lines(several)[:before])


def test_the_directory_goes_with_its_service(several: ServerHandle, tmp_path: Path) -> None:
    """What a killed one left is removed by the next start, unless somebody holds it or it is young."""
    held, left, young = (tmp_path / f"{measures.PREFIX}{name}" for name in ("held", "left", "young"))
    with ExitStack() as stack:
        for directory in (held, left, young):
            directory.mkdir()
            (directory / "lock").touch()
        for directory in (held, left):
            os.utime(directory, (0, 0))
        lock = stack.enter_context((held / "lock").open("rb+"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        measures._remove_abandoned(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([held.name, young.name])
    directory = Path(psutil.Process(several.pid).children()[0].environ()[measures.DIRECTORY])
    assert directory.is_dir()
    several.stop()
    assert not directory.exists()


def test_the_access_log_can_be_off(server_factory: ServerFactory) -> None:
    """SERVICE_ACCESS_LOG=0 leaves the other lines. The log is read when nobody writes to it any more."""
    server = server_factory(env={"SERVICE_ACCESS_LOG": "0"})
    with server.client() as client:
        assert client.get("/health/live").status_code == 200
    server.stop()
    assert access_lines(server) == []
    assert '"serving"' in server.log()
