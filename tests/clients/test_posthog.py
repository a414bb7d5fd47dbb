"""PostHog's own SDKs, given nothing but a host and a key, report here (G-142), through a restart of the service."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.clients.test_generators import HERE, MODULES, SCRIPTS, pytestmark, run
from tests.support.accounts import create_project, sign_in
from tests.support.cluster import TestCluster
from tests.support.server import ServerHandle, running_server

__all__ = ["pytestmark"]

PROGRAMS: dict[str, list[str | Path]] = {
    "posthog": [SCRIPTS / "python", HERE / "src" / "posthog_python.py"],
    "posthog-node": ["node", HERE / "src" / "posthog_node.cjs"],
}
FILES = {"posthog": "posthog_python.py", "posthog-node": "posthog_node.cjs"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> Iterator[ServerHandle]:
    """A server of its own: it is started again on the way."""
    with running_server(tmp_path_factory.mktemp("posthog"), cluster) as handle:
        yield handle


def report(project: dict[str, Any], program: str, folder: Path, *, packed: bool) -> None:
    """Run a program of an SDK: it reports one exception and one event, and asks for flags."""
    told = {
        "POSTHOG_HOST": project["sdks"]["posthog_host"],
        "POSTHOG_API_KEY": project["sdks"]["posthog_key"],
        "NODE_PATH": str(MODULES),
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "PACKED": "1" if packed else "",
    }
    run(folder, *PROGRAMS[program], **told)


def asked(server: ServerHandle, query: str, project_id: str) -> list[tuple[Any, ...]]:
    """What the database says of a project."""
    assert server.database_url is not None
    with psycopg.connect(server.database_url) as connection:
        return connection.execute(query.encode(), (project_id,)).fetchall()


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_sdk_just_works_through_a_restart(server: ServerHandle, tmp_path: Path, program: str, packed: bool) -> None:
    """Its exception and its event are stored once; the same exception, later or natively reported, is in one case."""
    with server.client() as client:
        project = create_project(client, sign_in(client, server.internal_token, f"sdk-{uuid.uuid4().hex[:8]}"))
    report(project, program, tmp_path, packed=packed)
    server.stop()
    server.start()
    report(project, program, tmp_path, packed=packed)
    frame = {"file": FILES[program], "function": "charge", "in_app": True}
    native = {
        "message": "Card 17 refused",
        "user": {"id": "u1"},
        "release": "shop@1.2.3",
        "extra": {"exception": {"type": "PaymentError", "frames": [frame]}},
    }
    with server.client() as client:
        headers = {"x-service-dsn": project["dsn"]}
        case = client.post("/v1/logs/", json=native, headers=headers).raise_for_status().json()["case_id"]
    logs = "select level, message, release, user_id, case_id from log_events where project_id = %s"
    assert asked(server, logs, project["id"]) == [("error", "Card 17 refused", "shop@1.2.3", "u1", case)] * 3
    events = "select event, distinct_id, properties->'total' from analytics_events where project_id = %s"
    placed = [row for row in asked(server, events, project["id"]) if row[0] == "order placed"]
    assert placed == [("order placed", "u1", 12.5)] * 2
