"""A database of an earlier release, left with work in flight, is brought forward and goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import msgspec
import psycopg
import pytest

from projections.runs import DECISIONS, DecisionRow
from service.eventstore.schema import functions, migrations
from service.eventstore.schema.migrations import MigrationStanding
from service.history.as_of import check_snapshots
from service.history.audit import check_history, check_projection
from service.ingest.kept import COUNTERS, check_counters
from service.registry import machines, read_models
from tests.support.accounts import bearer, checked, identity
from tests.support.cluster import TestCluster
from tests.support.olddatabases import NAMES, bring_back, catalog, rebuilt_after_upgrade
from tests.support.rounds import wait_until
from tests.support.server import ServerFactory, ServerHandle

Sql = psycopg.Connection[Any]


def one(sql: Sql, query: str, *params: Any) -> Any:
    row = sql.execute(query.encode(), params).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_kept_database_ends_in_the_schema_of_a_fresh_one(any_cluster: TestCluster, name: str):
    """On every supported server; a second start finds nothing to do."""
    with any_cluster.database("template0") as url, any_cluster.database() as fresh:
        bring_back(url, name)
        done = migrations.migrate(url)
        assert done[-len(functions.discover()) :] == [function.path for function in functions.discover()]
        assert migrations.migrate(url) == []
        with psycopg.connect(url) as connection:
            assert {standing for _, standing in migrations.status(connection)} == {MigrationStanding.APPLIED}
        assert catalog(url) == catalog(fresh)


@pytest.mark.parametrize("name", NAMES)
def test_a_kept_database_takes_new_files_of_ours(empty_database_url: str, name: str):
    """Whatever number it has recorded for the job library's schema."""
    bring_back(empty_database_url, name)
    *ours, library = migrations.discover()
    number = int(ours[-1].name[:4]) + 1
    added = migrations.Migration(f"{number:04}_added", "create table added (id int)", "of the file")
    assert added.name in migrations.migrate(empty_database_url, [*ours, added, library])


@pytest.mark.parametrize("name", NAMES)
def test_the_decisions_behind_kept_receipts_are_still_listed(empty_database_url: str, name: str):
    """One for each issue and start that a receipt tells of, with who asked for it (G-137)."""
    bring_back(empty_database_url, name)
    migrations.migrate(empty_database_url)
    with psycopg.connect(empty_database_url) as connection:
        kept = connection.execute(
            "select id, state -> 'issued_materiality', state -> 'final_materiality' from trigger_receipts"
        ).fetchall()
        shown = connection.execute(
            f"select {', '.join(DECISIONS.columns)} from automation_decisions order by seq".encode()
        ).fetchall()
    rows = [msgspec.convert(dict(zip(DECISIONS.columns, row, strict=True)), DecisionRow) for row in shown]
    told = {
        (receipt, stage): d for receipt, *both in kept for stage, d in zip(("issue", "start"), both, strict=True) if d
    }
    assert {(row.receipt_id, row.stage): row.decided_at for row in rows} == {
        key: decision["decided_at"] for key, decision in told.items()
    }
    assert len(rows) == len(told) > 0
    assert {row.asked_by for row in rows if row.stage == "start"} <= {"runner"}


class Old:
    """A kept database on which the present release runs."""

    def __init__(self, server: ServerHandle, left: dict[str, Any], sql: Sql) -> None:
        self.server, self.left, self.sql = server, left, sql

    def call(self, method: str, path: str, body: Any, secret: str | None, **headers: str) -> dict[str, Any]:
        """Send a request; returns the body of its 2xx answer."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if secret is not None:
            sent |= bearer(secret)
        # A stored answer has the form of the release that gave it, so the served schema does not judge here.
        with httpx2.Client(base_url=self.server.base_url, timeout=20) as client:
            return checked(client.request(method, path, json=body, headers=sent))


@pytest.fixture(params=NAMES)
def old(request: pytest.FixtureRequest, cluster: TestCluster, server_factory: ServerFactory) -> Iterator[Old]:
    """Brought back, migrated by the start of a server, and served."""
    with cluster.database("template0") as url:
        left = bring_back(url, request.param)
        with psycopg.connect(url, autocommit=True) as sql:
            assert one(sql, "select count(*) from unsequenced") == left["unnumbered"] > 0
            server = server_factory(database_url=url)
            yield Old(server, left, sql)
            server.stop()


def test_what_was_left_in_flight_goes_on(old: Old):
    """Positions, the waiting job, the open sign-in, the run and its lease, the cases; and all of it verifies."""
    sql, left, project = old.sql, old.left, f"/v1/projects/{old.left['project_id']}"

    # The sequencer numbers what was committed without a position, and a worker takes the job.
    wait_until(lambda: one(sql, "select count(*) from unsequenced") == 0)
    assert one(sql, "select size from log_state") == one(sql, "select count(*) from events")
    waiting = "select count(*) from procrastinate_jobs where task_name = %s and args = '{\"timestamp\": 0}'"
    wait_until(lambda: one(sql, waiting, left["waiting_task"]) == 0, timeout=20)

    # The sign-in that was open is authorised, and gives its one key.
    grant = {"user_code": left["sign_in"]["user_code"], "identity": identity("who began before the upgrade")}
    old.call("POST", "/v1/auth/device/authorize", grant, old.server.internal_token)
    polled = old.call("POST", "/v1/auth/device/poll", {"device_code": left["sign_in"]["device_code"]}, None)
    assert polled["api_key"].startswith("service_sk_")

    # The runner still holds its run, at the revision that it knows; a repeat of what it asked before is one.
    run = left["run"]
    issue = {"automation_id": "heal"}
    issued = old.call("POST", f"{project}/automation-triggers/issue", issue, left["runner"], idempotency_key="issue")
    assert left["cases"][0] in {receipt["case"]["case_id"] for receipt in issued["trigger_receipts"]}
    fence = {"state_revision": run["state_revision"], "lease_epoch": run["lease_epoch"]}
    usage = {"turns": 3, "cost_usd": 0.05, "runtime_seconds": 30}
    path = f"/v1/automation-runs/{run['run_id']}"
    used = old.call("POST", f"{path}/usage", fence | usage, left["runner"], idempotency_key="after")
    assert used["state_revision"] > run["state_revision"]

    # An error goes into the case that it opened before, whose opening had no position then.
    exception = {"type": "Declined", "frames": [{"file": "app.py", "function": "pay", "in_app": True}]}
    error = {"level": "error", "message": "The order was lost.", "extra": {"exception": exception}}
    dsn = httpx2.URL(left["dsn"]).username
    assert old.call("POST", "/v1/logs/", error, dsn)["case_id"] == left["cases"][1]
    assert one(sql, "select event_count from case_stats where id = %s", left["cases"][1]) == 2

    # The contract is still enabled, and can be paused: a fence. A project that was just begun is there.
    contract = old.call("GET", f"{project}/automation-contract", None, left["owner"])
    assert contract["enabled"] is True
    paused = old.call("POST", f"{project}/automation-contract/pause", {"reason": "lunch"}, left["owner"])
    assert paused["contract"]["etag"] != contract["etag"]
    listed = old.call("GET", "/v1/projects", None, left["owner"])["projects"]
    assert {project["id"] for project in listed} == {left["project_id"], left["unnumbered_project_id"]}

    # What the page on upgrades says to rebuild is rebuilt, while it runs.
    for name in rebuilt_after_upgrade():
        command = [sys.executable, "-m", "service", "projections", "rebuild", name]
        subprocess.run(command, env=old.server.env, check=True)

    wait_until(lambda: one(sql, "select count(*) from unsequenced") == 0)
    assert list(check_history(sql)) == []
    assert {name: list(check_projection(sql, model)) for name, model in read_models().items()} == {
        name: [] for name in read_models()
    }
    assert list(check_snapshots(sql, machines())) == []
    assert [found for table in COUNTERS for found in check_counters(sql, table)] == []
