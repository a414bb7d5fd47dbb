"""Verification over HTTP: recurrence by case, environment and version; silence fails at the deadline (G-111)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

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
