"""Health, metrics and the test clock of a real server."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import psycopg

from service.jobs import declared
from service.runs import sweep
from tests.support.server import ServerFactory, ServerHandle


def test_live_and_ready(server: ServerHandle) -> None:
    """A started server lives, is ready, and says what it looked at."""
    with server.client() as client:
        assert client.get("/health/live").json() == {"status": "live"}
        ready = client.get("/health/ready").json()
    assert ready["status"] == "ready"
    names = [check["name"] for check in ready["checks"]]
    assert names[:4] == ["database", "migrations", "writes", "sequencer"]
    assert names[-len(sweep.Turn) :] == [f"sweep {turn.value}" for turn in sweep.Turn]
    assert all(check["ok"] for check in ready["checks"])


def test_not_ready_when_a_migration_is_missing(server_factory: ServerFactory) -> None:
    """A database of another version is 503 with the name of what is missing."""
    server = server_factory()
    assert server.database_url is not None
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        connection.execute("update schema_migrations set checksum = 'other' where name = '0002_event_store'")
    with server.client() as client:
        answer = client.get("/health/ready")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["retryable"]) == (503, "service_unavailable", True)
    assert answer.headers["retry-after"]
    assert {"name": "migrations", "ok": False, "detail": "0002_event_store changed"} in error["details"]["checks"]


def test_metrics(server: ServerHandle) -> None:
    """Answers by operation and status, refusals by code, latencies and queues, in the text format."""
    with server.client() as client:
        client.get("/v1/projects")
        client.get("/v1/nowhere")
        answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'service_requests_total{operation="list_projects",status="401"} 1.0' in answer.text
    assert 'service_requests_total{operation="unrouted",status="404"} 1.0' in answer.text
    assert 'service_refusals_total{code="unauthenticated"} 1.0' in answer.text
    assert re.search(r'service_request_seconds_count\{operation="list_projects"\} 1\.0', answer.text)
    assert "service_commands_waiting 0.0" in answer.text
    for figure in ('sweep_longest_wait_seconds{step="issue"}', 'table_bytes{table="events"}', "sequencer_lag_seconds"):
        assert re.search(rf"^service_{re.escape(figure)} \d", answer.text, re.MULTILINE), figure


# A worker deletes the jobs that it has done, so each is noted as it is queued.
NOTE_JOBS = """
create table noted_jobs (name text);
create function note_job() returns trigger language plpgsql as
    $$ begin insert into noted_jobs values (new.task_name); return new; end $$;
create trigger note_job before insert on procrastinate_jobs for each row execute function note_job();
"""


def test_the_clock_moves(server_factory: ServerFactory) -> None:
    """Each advance adds up; a sweep is queued; the answer is the service's time (G-120)."""
    server = server_factory()
    assert server.database_url is not None
    with psycopg.connect(server.database_url) as connection:
        connection.execute(NOTE_JOBS)
    with server.client(server.test_token) as client:
        first = client.post("/v1/test-clock/advance", json={"seconds": 100}).json()
        second = client.post("/v1/test-clock/advance", json={"seconds": 31_622_400}).json()
        assert second["offset_seconds"] == 31_622_500
        assert 31_622_400 <= second["server_time"] - first["server_time"] < 31_622_430
        for seconds in (0, -1, 31_622_401, "1", 1.5, None):
            assert client.post("/v1/test-clock/advance", json={"seconds": seconds}).status_code == 400
        assert client.post("/v1/test-clock/advance", json={"seconds": 1, "more": 1}).status_code == 400
        assert client.get("/v1/test-clock/advance").status_code == 405
    by_the_minute = {task.name for task in declared()[0] if task.cron is not None}
    with psycopg.connect(server.database_url) as connection:
        queued = {name for (name,) in connection.execute("select name from noted_jobs")}
    assert by_the_minute <= queued
    with server.client("service_sk_wrong") as client:
        assert client.post("/v1/test-clock/advance", json={"seconds": 1}).status_code == 401


def test_no_clock_without_the_setting(server_factory: ServerFactory) -> None:
    """Without SERVICE_TEST_CLOCK=1 the route does not exist, whoever asks."""
    server = server_factory(env={"SERVICE_TEST_CLOCK": "0"})
    with server.client(server.test_token) as client:
        answer = client.post("/v1/test-clock/advance", json={"seconds": 1})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


def test_strangers_find_the_contact_and_the_page_of_passwords(server_factory: ServerFactory) -> None:
    """security.txt has what RFC 9116 requires, and the other address leads away, as the operator has set them."""
    server = server_factory(
        env={
            "SERVICE_SECURITY_CONTACT": "mailto:security@example.com, https://example.com/report",
            "SERVICE_CHANGE_PASSWORD_URL": "https://issuer.example/account/password",
        }
    )
    with server.client() as client:
        answer = client.get("/.well-known/security.txt")
        led = client.get("/.well-known/change-password", follow_redirects=False)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    fields = [tuple(line.split(": ", 1)) for line in answer.text.splitlines()]
    assert [value for name, value in fields if name == "Contact"] == [
        "mailto:security@example.com",
        "https://example.com/report",
    ]
    assert ("Canonical", f"{server.base_url}/.well-known/security.txt") in fields
    [stale] = [datetime.fromisoformat(value) for name, value in fields if name == "Expires"]
    assert timedelta(days=80) < stale - datetime.now(UTC) < timedelta(days=91)
    assert (led.status_code, led.headers["location"]) == (303, "https://issuer.example/account/password")


def test_without_a_contact_there_is_none(server: ServerHandle) -> None:
    """Neither address answers 200, nor does any other below .well-known: a client can rely on the status."""
    with server.client() as client:
        for name in (
            "security.txt",
            "change-password",
            "resource-that-should-not-exist-whose-status-code-should-not-be-200",
        ):
            assert client.get(f"/.well-known/{name}", follow_redirects=False).status_code == 404
