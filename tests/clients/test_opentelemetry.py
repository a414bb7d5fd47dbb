"""OpenTelemetry's own SDKs, in processes of their own, set up by the environment alone (G-142)."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.clients.test_generators import HERE, MODULES, SCRIPTS, pytestmark, run
from tests.support.server import ServerHandle

__all__ = ["pytestmark"]

RECORDS = 40


@pytest.fixture(scope="module")
def caller(server: ServerHandle) -> Iterator[httpx2.Client]:
    """A person with a key."""
    with server.client() as client:
        started = client.post("/v1/auth/device").raise_for_status().json()
        identity = {"provider": "email", "subject": "o@example.com", "email": "o@example.com"}
        client.post(
            "/v1/auth/device/authorize",
            json={"user_code": started["user_code"], "identity": identity},
            headers={"authorization": f"Bearer {server.internal_token}"},
        ).raise_for_status()
        key = client.post("/v1/auth/device/poll", json={"device_code": started["device_code"]}).json()["api_key"]
    with server.client(key) as client:
        yield client


def make_project(caller: httpx2.Client) -> dict[str, Any]:
    made: dict[str, Any] = caller.post("/v1/projects", json={"name": "Shop"}).raise_for_status().json()
    return made


def environment(server: ServerHandle, dsn: str, protocol: str, packing: str) -> dict[str, str]:
    """What a user sets; the resource by its variable, as programs have it."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": server.base_url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{dsn}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_COMPRESSION": packing,
        "OTEL_RESOURCE_ATTRIBUTES": "service.name=shop,service.version=1.2.3,deployment.environment.name=staging",
        "NODE_PATH": str(MODULES),
    }


def cases_of(caller: httpx2.Client, made: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = caller.get(f"/v1/projects/{made['id']}/cases").raise_for_status().json()["cases"]
    return found


@pytest.mark.parametrize("packing", ["none", "gzip"])
@pytest.mark.parametrize(
    ("program", "protocol", "file"),
    [
        ((SCRIPTS / "python", HERE / "src" / "otel_logs.py"), "http/protobuf", "otel_logs.py"),
        (("node", HERE / "src" / "otel_logs.cjs"), "http/protobuf", "otel_logs.cjs"),
        (("node", HERE / "src" / "otel_logs.cjs"), "http/json", "otel_logs.cjs"),
    ],
)
def test_what_an_sdk_logs_is_in_the_case_of_its_like(
    server: ServerHandle, caller: httpx2.Client, tmp_path: Path, program: Any, protocol: str, file: str, packing: str
) -> None:
    """Every record is stored; the exceptions are one case, which the same error natively reported is in too."""
    made = make_project(caller)
    said = run(tmp_path, *program, str(RECORDS), **environment(server, made["dsn"], protocol, packing))
    assert "fail" not in said.lower(), said
    [case] = cases_of(caller, made)
    assert (case["title"], case["event_count"]) == ("PaymentError: Payment 0 failed", RECORDS)
    assert (case["environment"], case["release"]) == ("staging", "1.2.3")
    native = {
        "message": "Payment 4711 failed",
        "extra": {
            "exception": {
                "type": "PaymentError",
                "frames": [{"file": file, "function": name, "in_app": True} for name in ("charge", "report")],
            }
        },
    }
    headers = {"x-service-dsn": made["dsn"], "authorization": ""}
    answer = httpx2.post(f"{server.base_url}/v1/logs/", json=native, headers=headers)
    assert answer.status_code == 202, answer.text
    assert answer.json()["case_id"] == case["id"]


@pytest.mark.parametrize("packing", ["none", "gzip"])
@pytest.mark.parametrize(
    ("program", "protocol", "minute"),
    [
        ((SCRIPTS / "python", HERE / "src" / "otel_logs.py"), "http/protobuf", "60"),
        (("node", HERE / "src" / "otel_logs.cjs"), "http/json", "60000"),
    ],
)
def test_a_restart_loses_and_doubles_nothing(
    server: ServerHandle, caller: httpx2.Client, program: Any, protocol: str, minute: str, packing: str
) -> None:
    """The exporter tries again while the service is away; for a minute, for by default it ends before the restart."""
    made = make_project(caller)
    variables = {**os.environ, **environment(server, made["dsn"], protocol, packing)}
    variables["OTEL_EXPORTER_OTLP_TIMEOUT"] = minute
    with subprocess.Popen(
        [str(part) for part in (*program, RECORDS, "wait")],
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "flushed\n"
        server.stop()
        process.stdin.write("\n")
        process.stdin.flush()
        time.sleep(1.5)
        server.start()
        _, errors = process.communicate(timeout=90)
        assert process.returncode == 0, errors
    [case] = cases_of(caller, made)
    assert case["event_count"] == 2 * RECORDS
