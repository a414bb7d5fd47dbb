"""A deletion that cannot move on is seen: in its answers, in the metrics, and once a minute in the log (G-130)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from service.deletion import advancing
from tests.support.accounts import bearer, create_project, sign_in
from tests.support.rounds import wait_until
from tests.support.server import ServerFactory, ServerHandle


def figure(client: httpx2.Client, name: str) -> float:
    [found] = [
        s.value for f in parsed(client.get("/metrics").raise_for_status().text) for s in f.samples if s.name == name
    ]
    return float(found)


def lines(server: ServerHandle, process: str) -> list[dict[str, str]]:
    found = [json.loads(line) for line in server.log().splitlines() if "deletion_not_moved_on" in line]
    return [line for line in found if line["process"] == process]


def _taken(way: Path) -> bool:
    """Put a file where a directory was. The worker may be making that again, for the last checkpoint of the log."""
    shutil.rmtree(way, ignore_errors=True)
    try:
        way.write_text("no directory")
    except IsADirectoryError:
        return False
    return True


def test_a_ledger_that_cannot_be_written_is_named(server_factory: ServerFactory, tmp_path: Path) -> None:
    """The deletion waits behind its fence and says what is left; once the ledger can be written, it goes on."""
    way = tmp_path / "way"
    server = server_factory(env={"SERVICE_ERASURE_LEDGER": str(way / "ledger"), "SERVICE_TEST_CLOCK": "1"})
    wait_until(lambda: _taken(way), timeout=10)
    with server.client() as client:
        key = sign_in(client, server.internal_token)
        project = create_project(client, key)
        for number in range(3):
            sent = client.post(
                "/v1/logs/", json={"level": "error", "message": f"m {number}"}, headers=bearer(project["dsn"])
            )
            sent.raise_for_status()
        assert figure(client, "service_deletions_open") == 0
        path, headers = f"/v1/projects/{project['id']}", {**bearer(key), "idempotency-key": "k"}
        assert "progress" not in client.request("DELETE", path, headers=headers).json(), (
            "nothing is counted in the fence"
        )
        for _ in range(20):
            answer = client.request("DELETE", path, headers=headers)
            assert (answer.status_code, answer.json()["phase"]) == (202, "fenced")
            assert answer.json()["progress"] == {"projects_left": 0, "open_left": 0, "telemetry_left": 3}
        wait_until(lambda: lines(server, "worker"), timeout=20)
        for process in ("api", "worker"):
            [line] = lines(server, process)
            assert (line["path"], line["deletion"]) == (str(way / "ledger"), answer.json()["deletion_id"])
            assert line["reason"]
        server.advance(4000)
        wait_until(lambda: figure(client, "service_deletions_oldest_seconds") >= 4000, timeout=10)
        assert figure(client, "service_deletions_open") == 1
        way.unlink()
        wait_until(lambda: client.request("DELETE", path, headers=headers).status_code == 200, timeout=20)
        wait_until(lambda: figure(client, "service_deletions_open") == 0, timeout=10)


def test_each_deletion_is_told_of_once_a_minute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """However often it is tried, and however many there are."""
    now, told = 100.0, []
    monkeypatch.setattr(advancing.time, "monotonic", lambda: now)
    monkeypatch.setattr(advancing.log, "warning", lambda *_, **about: told.append(about))
    monkeypatch.setattr(advancing, "_told", {})

    class Row:
        id, phase = "del_1", "fenced"

    for _ in range(3):
        for second in range(0, 60, 10):
            now += second and 10
            advancing.tell_not_moved_on(Row, PermissionError(13, "Permission denied"), tmp_path)  # type: ignore[arg-type]
        now += 10
    assert len(told) == 3
    advancing.tell_not_moved_on(Row, ZeroDivisionError(), tmp_path)  # type: ignore[arg-type]
    assert {about["path"] for about in told[:3]} == {str(tmp_path)}
    assert "path" not in told[3]
