"""What verification counts has settled: an error received before the end of a count is in it, for ever (G-134)."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from typing import Any

import psycopg
import pytest
from msgspec import UNSET

from service.analytics import local
from service.analytics.blueprints.asking import ask_for, run_blueprint
from service.analytics.bounded import Table
from service.analytics.history import History
from service.analytics.local import LocalAnalytics
from service.eventstore.connect.facts import NOW, NOW_SECONDS
from service.eventstore.declare import names
from service.eventstore.store import EventStore
from service.runs import verifying
from statemachines.contracts.policy import VerificationTerms
from statemachines.runs.events import Terms
from statemachines.runs.run import Run, Status
from statemachines.runs.steps.results import Counts
from statemachines.runs.verdict import BoundDeploy
from tests.support.ingest import PROJECT
from tests.support.questions import asking

CASE = "case_of_the_run"
GATE = names.lock_number(names.gate(PROJECT))
TERMS = VerificationTerms(0, 86400, 1, "order_placed")


class Flushing:
    """A flush of another process: it holds the gate and has told its time of receipt, and has not committed."""

    def __init__(self, url: str, number: int) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute("begin")
        self.connection.execute("select pg_try_advisory_xact_lock_shared(%s)", (GATE,))
        [self.received_at] = self.row(
            f"with t as materialized (select {NOW} as moment) "
            "select floor(extract(epoch from moment))::bigint from t, lateral ingest_store(moment, %s, %s, %s, "
            "null, null, null, null, %s)",
            f"flusher_{number}",
            number,
            json.dumps([_error(number)]),
            json.dumps([_use()]),
        )

    def row(self, query: str, *values: Any) -> Any:
        return self.connection.execute(query.encode(), values).fetchone()

    def commit(self) -> None:
        with self.connection:
            self.connection.execute("commit")


def _error(number: int) -> dict[str, Any]:
    said = {"level": "error", "message": "m", "environment": "production", "tags": {}, "extra": {}}
    return said | {"project_id": PROJECT, "id": f"log_{number}", "case_id": CASE, "fingerprint": "f"}


def _use() -> dict[str, Any]:
    return {"project_id": PROJECT, "account_id": "usr_1", "errors": 1, "analytics": 0, "suppressed": 0, "scrubbed": 0}


class Local:
    """The adapter of a project without a connection."""

    def __init__(self, store: EventStore) -> None:
        self.store = store
        self.history = History(store)

    async def for_project(self, project_id: str) -> LocalAnalytics:
        return LocalAnalytics(self.store, project_id)


async def count(
    store: EventStore, deployed_at: int, environment: str | None = None, version: str = "v1", *, marked: bool = True
) -> Counts:
    deploy = BoundDeploy(
        deploy_id="dep_1",
        version=version,
        environment="production",
        sha="a" * 40,
        recorded_at=deployed_at,
        compared="version" if marked else UNSET,
    )
    run = Run(
        status=Status.VERIFYING,
        case_id=CASE,
        deploy=deploy,
        terms=Terms(verification=TERMS, environment=environment),
    )
    counted = await verifying.count(store, Local(store), PROJECT, run)  # type: ignore[arg-type]
    assert isinstance(counted, Counts), counted
    return counted


async def test_an_error_whose_commit_is_late_is_never_overlooked(database_url, sql, store):
    """However late: the end of the count stays before the flush under way, and reaches it only once it is there."""
    late = Flushing(database_url, 1)
    deployed_at = late.received_at - 100
    await asyncio.sleep(3.1)
    [now] = sql.execute(f"select {NOW_SECONDS}").fetchone()
    before = await count(store, deployed_at)
    assert now - verifying.LAG_SECONDS > late.received_at
    assert (before.recurrences, before.observed_to < late.received_at) == (0, True)
    late.commit()
    after = await count(store, deployed_at)
    assert (after.recurrences, after.observed_to >= late.received_at) == (1, True)
    assert (await count(store, deployed_at, "staging")).recurrences == 0, "counted where the run heals"


async def test_the_latest_seconds_are_never_counted(sql, store):
    """Also when nothing is under way: two seconds for second hands and clocks that are set back (G-134)."""
    ends = [int(await verifying.settled(store, PROJECT)) for _ in range(3)]
    [now] = sql.execute(f"select {NOW_SECONDS}").fetchone()
    assert max(ends) <= now - 2
    assert min(ends) >= now - 4


async def test_counts_stay_true_beside_flushes_that_commit_in_any_order(database_url, sql, store, monkeypatch):
    """With a lag that flushes outlast: whatever a count up to a moment said, it still says when all have committed."""
    monkeypatch.setattr(verifying, "LAG_SECONDS", 1)
    [deployed_at] = sql.execute(f"select {NOW_SECONDS} - 5").fetchone()
    ends = time.monotonic() + 3

    def keep_flushing(worker: int) -> None:
        chance, number = random.Random(worker), worker
        while time.monotonic() < ends:
            number += 10
            flush = Flushing(database_url, number)
            time.sleep(chance.choice([0, 0.05, 0.4, 1.3]))
            flush.commit()

    workers = [threading.Thread(target=keep_flushing, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    seen = []
    while any(worker.is_alive() for worker in workers):
        seen.append(await count(store, deployed_at))
        await asyncio.sleep(0.03)
    for counts in seen:
        query = "select count(*) from log_events where received_at > %s and received_at <= %s"
        assert sql.execute(query, (deployed_at, counts.observed_to)).fetchone() == (counts.recurrences,)
    assert seen[-1].recurrences > 0


async def test_a_session_of_which_nothing_is_known_is_waited_for(database_url, sql, store, cluster):
    """It holds the gate, and does not tell when its transaction began."""
    [deployed_at] = sql.execute(f"select {NOW_SECONDS} - 100").fetchone()
    with psycopg.connect(cluster.admin_url(database_url), autocommit=True) as other:
        other.execute("set track_activities = off")
        other.execute("begin")
        other.execute("select pg_advisory_xact_lock_shared(%s)", (GATE,))
        assert (await count(store, deployed_at)).observed_to == deployed_at
    assert (await count(store, deployed_at)).observed_to > deployed_at


def meet(sql: Any, at: int, release: str | None, times: int = 1, environment: str = "production") -> None:
    """Store errors of the case, received in a second."""
    sql.execute(
        "insert into log_events (project_id, received_at, id, level, message, environment, release, tags, extra, "
        "case_id) select %s, %s, gen_random_uuid(), 'error', 'm', %s, %s, '{}', '{}', %s from generate_series(1, %s)",
        (PROJECT, at, environment, release, CASE, times),
    )


def deploy(sql: Any, number: int, version: str, at: int, environment: str = "production") -> None:
    """Record a deploy."""
    sql.execute(
        "insert into deploys (project_id, id, revision, version, environment, source, trusted, recorded_at) "
        "values (%s, %s, 1, %s, %s, 'ci', true, %s)",
        (PROJECT, f"dep_{number}", version, environment, at),
    )


@pytest.mark.parametrize(
    ("release", "recurs"),
    [
        (None, True),
        ("1.4.0", True),
        ("shop@1.4.0", True),
        ("shop@1.4.0+77", True),
        ("v1.4", True),
        ("1.4.1-beta", True),
        ("shop@2.0.0", True),
        ("c0ffee1", True),  # deployed there after it
        ("1.4.0-rc.1", False),
        ("shop@1.3.9", False),  # deployed again after it, and older by version
        ("2026.11.28", False),  # of another kind, and deployed elsewhere
        ("d41d8cd", False),  # deployed before it
        ("nowhere", False),
    ],
)
async def test_a_release_recurs_in_any_form_or_when_it_is_later(database_url, sql, store, release, recurs):
    """For a deploy that was bound before releases were compared, equality decides as it did."""
    [now] = sql.execute(f"select {NOW_SECONDS}").fetchone()
    at = now - 1000
    deploy(sql, 0, "d41d8cd", at - 1)
    deploy(sql, 1, "1.4.0", at)
    deploy(sql, 2, "shop@c0ffee1", at)
    deploy(sql, 3, "1.3.9", at + 10)
    deploy(sql, 4, "2026.11.28", at + 10, "staging")
    meet(sql, at, "1.4.0", 3)
    meet(sql, at + 20, release)
    assert (await count(store, at, version="1.4.0")).recurrences == recurs
    before = await count(store, at, version="1.4.0", marked=False)
    assert before.recurrences == (release in {None, "1.4.0"})
    asked = ask_for("deploy-recurrence", {"case_id": CASE, "deploy_id": "dep_1"})
    async with asking(database_url) as questions:
        questions.open_case(CASE, at, project=PROJECT)
        found = await run_blueprint(questions.queries, PROJECT, "usr_1", asked)
    assert isinstance(found, Table)
    assert found.rows[0]["recurrence_count"] == recurs, "verification and the blueprint agree"


async def test_errors_that_do_not_count_hide_none_that_do(sql, store):
    """However many they are and of however many releases: a read looks at 2,000 errors."""
    [now] = sql.execute(f"select {NOW_SECONDS}").fetchone()
    at = now - 1000
    meet(sql, at + 1, "1.3.9", 4500)
    for number in range(300):
        meet(sql, at + 2, f"older-{number}", 8)
    assert (await count(store, at, version="1.4.0")).recurrences == 0
    meet(sql, at + 3, "shop@1.4.0")
    meet(sql, at + 4, "1.4.1", 2)
    assert (await count(store, at, version="1.4.0")).recurrences == 3
    meet(sql, at + 5, None, 1500)
    assert (await count(store, at, version="1.4.0")).recurrences == 1000, "of more than 1,000, so many"


async def test_releases_without_end_prove_nothing(sql, store, monkeypatch):
    """The count is no number then, so that the run waits and its deadline decides."""
    monkeypatch.setattr(local, "MOST_READS", 3)
    monkeypatch.setattr(local, "LOOKED", 20)
    [now] = sql.execute(f"select {NOW_SECONDS}").fetchone()
    at = now - 1000
    for number in range(100):
        meet(sql, at + 2, f"0.{number}")
    with pytest.raises(AssertionError, match="too_much"):
        await count(store, at, version="1.4.0")
