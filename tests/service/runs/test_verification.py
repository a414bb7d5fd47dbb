"""Verification over HTTP: recurrence by case, environment and version; silence fails at the deadline (G-111)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from service.auth.secrets import digest
from tests.support.automation_world import closed
from tests.support.ingest import holding_gate
from tests.support.loop.bodies import HEAD
from tests.support.loop.http_scene import HttpScene

pytestmark = pytest.mark.shares_server


@pytest.mark.parametrize(
    ("changes", "recurs"),
    [
        ({}, True),
        ({"release": "1.0.1"}, True),
        ({"release": "0.9.0"}, False),
        ({"environment": "staging"}, False),
        ({"message": "Something else entirely"}, False),
    ],
)
def test_recurrence_is_this_error_in_this_environment_and_version(
    at: HttpScene, changes: dict[str, str], recurs: bool
) -> None:
    at.delivered()
    at.must(at.prove(), 201)
    at.deploy()
    at.wait(2)
    at.error(**changes)
    at.wait(3)
    answer = at.verify()
    assert answer.status_code == (200 if recurs else 202)
    assert answer.json()["verification"]["outcome"] == ("recurred" if recurs else "pending")
    assert at.run()["status"] == ("failed" if recurs else "verifying")


def capture(at: HttpScene, times: int = 1, **properties: Any) -> None:
    """Traffic of the product, with what its SDK says of it."""
    body = {"event": "checkout_completed", "distinct_id": "u1", "properties": properties}
    for _ in range(times):
        at.must(at.call("POST", "/v1/analytics/", body, who="dsn"), 202)


@pytest.mark.parametrize("name", ["environment", "$environment", "deployment.environment.name"])
def test_traffic_of_another_environment_verifies_nothing(at: HttpScene, name: str) -> None:
    """Elsewhere is elsewhere, also for a product whose events usually name no environment (G-190)."""
    at.delivered()
    at.must(at.prove(), 201)
    at.deploy()
    at.wait(60)
    capture(at, 5, **{name: "staging"})
    at.wait(63)
    pending = at.verify()
    assert (pending.status_code, pending.json()["verification"]["sample"]["count"]) == (202, 0)
    assert at.run()["counted_in"] is None, "there is no result yet"
    capture(at, 1, **{name: "production"})
    at.traffic(1)
    at.wait(3)
    done = at.must(at.verify(), 200)
    assert (done["verification"]["outcome"], done["verification"]["sample"]["count"]) == ("no_recurrence", 2)
    found = done["run"]["counted_in"]
    assert found == {"environment": "production", "unnamed": True, "looked_at": found["looked_at"], "named": 0}
    assert found["looked_at"] >= 1
    assert at.run()["counted_in"] == found


@pytest.mark.parametrize(("named", "unnamed", "count"), [(1, 1, 0), (1, 2, 2), (3, 2, 0), (0, 0, 2)])
def test_traffic_without_an_environment_counts_where_that_is_usual(
    at: HttpScene, named: int, unnamed: int, count: int
) -> None:
    """Less than half of the newest events before the deploy name one, wherever those came from (G-190)."""
    at.delivered()
    at.must(at.prove(), 201)
    with psycopg.connect(at.world.url, autocommit=True) as sql:
        sql.execute("delete from analytics_events where project_id = %s", (at.world.project_id,))
    capture(at, named, environment="staging")
    capture(at, unnamed)
    at.wait(1)
    at.deploy()
    at.wait(60)
    capture(at, 2)
    at.wait(900)
    done = at.must(at.verify(), 200)
    assert done["verification"]["sample"]["count"] == count
    assert done["verification"]["passed"] is bool(count)
    found = at.run()["counted_in"]
    assert (found["unnamed"], found["looked_at"], found["named"]) == (bool(count), named + unnamed, named)


def test_the_usual_is_told_by_the_newest_two_hundred(at: HttpScene) -> None:
    at.delivered()
    at.must(at.prove(), 201)
    with psycopg.connect(at.world.url, autocommit=True) as sql:
        sql.execute(
            "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties) "
            "select %s, 1000 + n, 'old_' || n, 'checkout_completed', 'u1', "
            "case when n > 300 then '{\"environment\": \"production\"}' else '{}' end::jsonb "
            "from generate_series(1, 401) n",
            (at.world.project_id,),
        )
    at.deploy()
    at.wait(60)
    capture(at, 2)
    at.wait(900)
    at.must(at.verify(), 200)
    found = at.run()["counted_in"]
    assert (found["unnamed"], found["looked_at"]) == (False, 200)


def test_silence_fails_at_the_deadline_and_never_verifies(at: HttpScene) -> None:
    at.delivered()
    at.must(at.prove(), 201)
    at.deploy()
    at.wait(890)
    assert at.verify().status_code == 202
    at.wait(15)
    done = at.verify(who="owner")
    assert (done.status_code, done.json()["verification"]["outcome"]) == (200, "insufficient_traffic")
    run = at.run()
    assert (run["phase"], run["status"], run["output"]["verification"]["passed"]) == ("stopped", "failed", False)
    closed(at.post(f"{at.path}/verify", {"passed": True}), 400, "invalid_payload")
    closed(at.verify(who="member"), 403, "owner_required")


def test_only_a_deploy_to_the_environment_of_the_run_binds(at: HttpScene) -> None:
    """That is the signal map's where the contract names none; elsewhere the answer says what is awaited (G-134)."""
    at.delivered()
    at.must(at.prove(), 201)
    body = {"version": "1.0.1", "environment": "staging", "sha": HEAD}
    elsewhere = at.must(at.post("/v1/deploys/", body, who="ci"), 202)
    assert (elsewhere["automation_run_id"], elsewhere["awaited_environment"]) == (None, "production")
    assert "awaited_environment" in elsewhere["next_action"]
    untold = at.must(at.post("/v1/deploys/", body, who="dsn"), 202)
    assert untold["awaited_environment"] is None, "a product is told nothing of runs"
    here = at.must(at.post("/v1/deploys/", body | {"environment": "production"}, who="ci"), 202)
    assert (here["automation_run_id"], here["awaited_environment"]) == (at.run_id, None)


def test_a_finished_run_is_verified_again_under_the_authority_of_now(at: HttpScene) -> None:
    at.delivered()
    at.must(at.prove(), 201)
    at.deploy()
    at.wait(905)
    done = at.must(at.verify(who="owner"), 200)
    assert at.must(at.verify(who="owner"), 200) == done
    at.world.fence()
    refused = closed(at.verify(who="owner"), 409, "project_deletion_in_progress")
    assert "verification" not in refused


def test_a_finished_run_is_not_shown_to_a_key_that_ended_while_it_waited(at: HttpScene) -> None:
    """The second check is under the gate of the project, behind which the repeat waits like every other command."""
    at.delivered()
    at.must(at.prove(), 201)
    at.deploy()
    at.wait(905)
    at.must(at.verify(who="owner"), 200)
    key = (digest(at.world.secrets["owner"]),)
    with ThreadPoolExecutor() as pool, psycopg.connect(at.world.url, autocommit=True) as sql:
        with holding_gate(at.world.url, at.world.project_id):
            repeat = pool.submit(at.verify, who="owner")
            with pytest.raises(TimeoutError):
                repeat.result(0.3)
            sql.execute("update api_keys set revoked_at = 1 where key_hash = %s", key)
        closed(repeat.result(), 401, "unauthenticated")
        sql.execute("update api_keys set revoked_at = null where key_hash = %s", key)
