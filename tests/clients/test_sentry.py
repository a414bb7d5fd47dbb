"""Sentry's own SDKs, given nothing but a DSN, report here (G-142): one exception is one case, whoever reports it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.packing import unpack
from tests.clients.test_generators import HERE, INSTALLED, MODULES, SCRIPTS, run
from tests.support.accounts import create_project, sign_in
from tests.support.cluster import TestCluster
from tests.support.server import ServerHandle, running_server

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(not (INSTALLED / ".installed").exists(), reason="`make clients` installs the SDKs"),
]

PROGRAMS: dict[str, list[str | Path]] = {
    "sentry-sdk": [SCRIPTS / "python", HERE / "src" / "sentry_python.py"],
    "@sentry/node 10": ["node", HERE / "src" / "sentry_node.cjs", MODULES / "@sentry" / "node-10"],
    "@sentry/node 11": ["node", HERE / "src" / "sentry_node.cjs", MODULES / "@sentry" / "node-11"],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> Iterator[ServerHandle]:
    """A server of its own: it is started again on the way."""
    with running_server(tmp_path_factory.mktemp("sentry"), cluster) as handle:
        yield handle


def report(project: dict[str, Any], program: str, folder: Path, *, packed: bool) -> None:
    """Run a program of an SDK: it reports one exception and one message."""
    dsn = project["sdks"]["sentry_dsn"]
    said = {"SENTRY_DSN": dsn, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "PACKED": "1" if packed else ""}
    run(folder, *PROGRAMS[program], **said)


def stored(server: ServerHandle, project_id: str) -> list[tuple[Any, ...]]:
    """Level, message, release, case, type and SDK of each record, by level: the first need not come first."""
    assert server.database_url is not None
    with psycopg.connect(server.database_url) as connection:
        rows = connection.execute(
            "select level, message, release, case_id, extra, packed from log_events where project_id = %s "
            "order by level, id",
            (project_id,),
        ).fetchall()
    said = [extra if packed is None else unpack(packed) for *_, extra, packed in rows]
    return [
        (*row[:4], extra.get("exception", {}).get("type"), extra["sdk"]["name"])
        for row, extra in zip(rows, said, strict=True)
    ]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_sdk_just_works_through_a_restart(server: ServerHandle, tmp_path: Path, program: str, packed: bool) -> None:
    """Its exception and its message are stored, and after a restart the same exception is in the same case."""
    with server.client() as client:
        project = create_project(client, sign_in(client, server.internal_token, f"sdk-{uuid.uuid4().hex[:8]}"))
    report(project, program, tmp_path, packed=packed)
    first = stored(server, project["id"])
    assert [(level, message, release) for level, message, release, *_ in first] == [
        ("error", "Card 17 refused", "shop@1.2.3"),
        ("info", "An order was placed", "shop@1.2.3"),
    ]
    server.stop()
    server.start()
    report(project, program, tmp_path, packed=packed)
    rows = stored(server, project["id"])
    assert len(rows) == 4
    errors = [row for row in rows if row[0] == "error"]
    assert {(case, kind) for *_, case, kind, _ in errors} == {(first[0][3], "PaymentError")}
    assert first[0][3] is not None
