"""Approvals over HTTP: a runner asks, only an owner decides, and what is pending holds the grants (G-108)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from tests.support.automation_world import closed
from tests.support.cluster import TestCluster
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.server import running_server

pytestmark = pytest.mark.shares_server

USAGE = {"turns": 1, "cost_usd": 0, "runtime_seconds": 1}


def ask(at: HttpScene, **changes: object) -> httpx2.Response:
    return at.act("approvals", {"action": "draft_pr", "summary": "May I open it?"} | changes)


def decide(at: HttpScene, approval_id: str, decision: str = "approve", **how: str) -> httpx2.Response:
    return at.post(f"/v1/automation-approvals/{approval_id}/decide", {"decision": decision}, **({"who": "owner"} | how))


def test_a_request_holds_the_grants_until_an_owner_decides(at: HttpScene) -> None:
    at.running()
    asked = at.must(ask(at, evidence={"ratio": 0.1, "notes": ["a", None, True]}), 201)
    assert asked["evidence"] == {"ratio": 0.1, "notes": ["a", None, True]}
    assert asked["expires_at"] == asked["requested_at"] + 86400
    again = at.must(ask(at), 200)
    assert again["approval_id"] == asked["approval_id"]
    assert asked["state_revision"] == again["state_revision"] == at.run()["state_revision"]
    assert at.run()["phase"] == "human_review"
    closed(at.authorize(), 409, "approval_pending")
    for who in ("member", "heal", "ci", "stranger"):
        answer = decide(at, asked["approval_id"], who=who)
        assert answer.status_code in {403, 404}, who
    decided = at.must(decide(at, asked["approval_id"]), 200)
    assert (decided["status"], decided["decided_by"]) == ("approved", at.world.users["owner"])
    assert at.must(decide(at, asked["approval_id"]), 200)["status"] == "approved"
    closed(decide(at, asked["approval_id"], "reject"), 409, "approval_already_decided")
    grant = at.must(at.authorize(), 201)
    assert grant["approval_id"] == asked["approval_id"]
    shown = at.must(at.call("GET", f"{at.project}/automation-approvals?status=approved", who="member"), 200)
    assert [item["approval_id"] for item in shown["approvals"]] == [asked["approval_id"]]
    closed(at.call("GET", f"{at.project}/automation-approvals"), 403, "principal_not_allowed")


def test_a_rejection_stands_for_the_run(at: HttpScene) -> None:
    at.running()
    asked = at.must(ask(at), 201)
    at.must(decide(at, asked["approval_id"], "reject"), 200)
    closed(at.authorize(), 409, "approval_rejected")
    closed(ask(at), 409, "approval_rejected")


def test_what_is_pending_lapses_with_authority_and_with_the_run(at: HttpScene) -> None:
    """The list says so at once, and a decision comes too late."""
    at.running()
    asked = at.must(ask(at), 201)
    at.pause()
    path = f"{at.project}/automation-approvals"
    shown = at.must(at.call("GET", f"{path}?status=cancelled", who="owner"), 200)
    assert [item["approval_id"] for item in shown["approvals"]] == [asked["approval_id"]]
    assert at.must(at.call("GET", f"{path}?status=pending", who="owner"), 200)["approvals"] == []
    closed(decide(at, asked["approval_id"]), 409, "approval_already_decided")
    at.enable()
    fresh = at.must(ask(at), 201)
    assert fresh["approval_id"] != asked["approval_id"]
    at.must(at.post(f"{at.path}/cancel", {}, who="owner"), 200)
    closed(decide(at, fresh["approval_id"]), 409, "approval_cancelled")
    listed = at.must(at.call("GET", f"{path}?run_id={at.run_id}", who="owner"), 200)["approvals"]
    assert [item["status"] for item in listed] == ["cancelled", "cancelled"]


def swept(at: HttpScene, seconds: int) -> None:
    """Move the clock, and let sweeps pass."""
    at.wait(seconds - 120)
    at.wait(60)
    at.wait(60)


def claim_of(at: HttpScene) -> dict[str, Any]:
    return at.must(at.call("GET", f"/v1/cases/{at.case_id}/claims/active"), 200)


def renew(at: HttpScene) -> httpx2.Response:
    return at.post(f"/v1/cases/{at.case_id}/claims/{at.claim_id}/renew", {"lease_epoch": 1})


def resumed(at: HttpScene) -> list[Any]:
    """The rests that ended, in seconds."""
    with psycopg.connect(at.world.url, autocommit=True) as sql:
        query = "select payload from events where stream_id = %s and topic = 'run.resumed.v1'"
        return [payload["rested_seconds"] for [payload] in sql.execute(query, (at.run_id,))]


def test_a_reviewer_may_take_longer_than_the_lease(at: HttpScene) -> None:
    """Record and claim show until when, sweeps leave both alone, and the runner goes on where it was (G-185)."""
    run = at.running().run()
    left = run["deadline_at"] - run["started_at"]
    asked = at.must(ask(at), 201)
    assert "rests" in asked["next_action"]
    run = at.run()
    assert (run["phase"], run["resting"]) == ("human_review", True)
    assert asked["requested_at"] + 172800 + left - 10 <= run["deadline_at"] <= asked["requested_at"] + 172800 + left
    assert claim_of(at)["lease_expires_at"] == run["lease_expires_at"]
    swept(at, 3600)
    assert at.run()["phase"] == "human_review"
    assert at.must(renew(at), 200)["lease_expires_at"] == run["lease_expires_at"], "it never gets shorter"
    at.must(at.act("usage", {"turns": 1, "cost_usd": 0, "runtime_seconds": 1}), 200)
    closed(at.authorize(), 409, "approval_pending")
    decided = at.must(decide(at, asked["approval_id"]), 200)
    run = at.run()
    assert (run["phase"], run["resting"]) == ("running", True)
    latest = decided["decided_at"] + 86400
    assert latest + left - 10 <= run["deadline_at"] <= latest + left
    assert claim_of(at)["lease_expires_at"] == run["lease_expires_at"]
    swept(at, 80000)
    grant = at.must(at.authorize(), 201)
    run = at.run()
    assert (run["resting"], run["deadline_at"] < grant["authorized_at"] + left + 1) == (False, True)
    assert at.must(at.consume(grant["grant_id"]), 200)["call_authorized"]


def test_a_runner_that_stays_away_for_a_day_loses_the_run(at: HttpScene) -> None:
    at.running()
    at.must(decide(at, at.must(ask(at), 201)["approval_id"]), 200)
    swept(at, 86400)
    assert (at.run()["status"], at.run()["resting"]) == (None, False)
    swept(at, 900)
    run = at.run()
    assert (run["status"], run["resting"]) == ("failed", False)
    closed(renew(at), 409, "lease_expired")


@pytest.mark.parametrize("stop", ["pause", "cancel", "fence"])
def test_a_stop_ends_a_rest(at: HttpScene, stop: str) -> None:
    """A pause as of its moment, whatever a sweep has recorded. A cancel and a fence end the run."""
    asked = at.must(ask(at.running()), 201)
    at.wait(3000)
    if stop == "pause":
        at.pause()
        run = at.run()
        assert (run["resting"], run["status"]) == (False, None)
        swept(at, 901)
        assert at.run()["status"] == "failed"
        closed(decide(at, asked["approval_id"]), 409, "approval_cancelled")
    elif stop == "cancel":
        at.must(at.post(f"{at.path}/cancel", {}, who="owner"), 200)
        run = at.run()
        assert (run["resting"], run["status"]) == (False, "cancelled")
        closed(decide(at, asked["approval_id"]), 409, "approval_cancelled")
        closed(decide(at, asked["approval_id"], "reject"), 409, "approval_cancelled")
    else:
        at.world.fence()
        closed(decide(at, asked["approval_id"]), 409, "project_deletion_in_progress")


def test_of_many_who_come_back_one_ends_the_rest(at: HttpScene) -> None:
    """Renewals and steps at once, in any order: what the review took is counted once."""
    asked = at.must(ask(at.running()), 201)
    at.wait(2000)
    at.must(decide(at, asked["approval_id"]), 200)
    token = at.token()
    with ThreadPoolExecutor(8) as pool:
        beats = [pool.submit(renew, at) for _ in range(6)]
        steps = [pool.submit(at.post, f"{at.path}/usage", token | USAGE) for _ in range(2)]
        assert {one.result().status_code for one in beats} == {200}
        assert sorted(one.result().status_code for one in steps) == [200, 409]
    [seconds] = resumed(at)
    run = at.run()
    assert 2000 <= seconds < 2100
    assert (run["resting"], run["state_revision"]) == (False, token["state_revision"] + 1)
    assert claim_of(at)["lease_expires_at"] == run["lease_expires_at"] <= run["deadline_at"]


def test_a_rest_outlives_a_restart(tmp_path: Path, cluster: TestCluster) -> None:
    with running_server(tmp_path, cluster) as server, open_scene(server) as at:
        asked = at.must(ask(at.running()), 201)
        before = at.run()
        server.kill()
        server.start()
        assert at.run() == before
        at.wait(5000)
        at.must(decide(at, asked["approval_id"]), 200)
        server.kill()
        server.start()
        at.wait(5000)
        at.must(at.authorize(), 201)


def test_a_decision_beside_a_cancel_has_one_winner(at: HttpScene) -> None:
    asked = at.must(ask(at.running()), 201)
    at.wait(1200)
    with ThreadPoolExecutor(2) as pool:
        decision = pool.submit(decide, at, asked["approval_id"])
        cancel = pool.submit(at.post, f"{at.path}/cancel", {}, who="owner")
    assert cancel.result().status_code == 200
    if decision.result().status_code != 200:
        closed(decision.result(), 409, "approval_cancelled")
    assert (at.run()["status"], at.run()["resting"]) == ("cancelled", False)


def test_the_bounds_of_a_request(at: HttpScene) -> None:
    at.running()
    closed(ask(at, evidence={"x": "y" * 16384}), 400, "invalid_payload")
    closed(ask(at, summary=""), 400, "invalid_payload")
    closed(ask(at, summary="s" * 2001), 400, "invalid_payload")
    closed(ask(at, action="merge"), 400, "invalid_payload")
    closed(ask(at, urgent=True), 400, "invalid_payload")
    at.must(ask(at, evidence={"x": "y" * (16384 - len('{"x":""}'))}), 201)
    closed(decide(at, "appr_" + "0" * 26), 404, "approval_not_found")
