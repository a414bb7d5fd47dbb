"""The self-healing loop over HTTP, from the first error to the closed case, with every principal at its place."""

from __future__ import annotations

import pytest

from tests.support.automation_world import closed
from tests.support.loop.bodies import HEAD, MERGED
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server


def test_the_whole_loop_to_a_verified_fix(at: HttpScene) -> None:
    """Error, receipt, claim, run, grant, pull request, deploy, verification, and the case is resolved."""
    at.prepare()
    at.error(2)
    issued = at.issue()
    [receipt] = issued["trigger_receipts"]
    assert receipt["case"]["title"]
    assert receipt["status"] == "issued"
    detail = at.must(at.call("GET", f"/v1/automation-trigger-receipts/{at.receipt_id}"))
    assert detail == receipt
    closed_case = at.call("GET", f"/v1/cases/{at.case_id}")
    assert closed_case.status_code == 403, "no case evidence before the claim"
    assert closed_case.json()["error"]["code"] == "claim_required"
    claim = at.must(at.claim(), 201)
    assert claim["lease_epoch"] == 1
    case = at.must(at.call("GET", f"/v1/cases/{at.case_id}"))
    assert (case["claimed"], case["claim"]["claim_id"]) == (True, at.claim_id)
    assert at.must(at.call("GET", f"/v1/cases/{at.case_id}/claims/active"))["claim_id"] == at.claim_id
    run = at.must(at.start(), 201)
    assert (run["phase"], run["status"], run["state_revision"]) == ("run_started", None, 1)
    again = at.start()
    assert (again.status_code, again.json()["run_id"], again.json()["idempotent_replay"]) == (200, at.run_id, True)
    assert again.headers["idempotent-replayed"] == "true"
    closed(at.start("other"), 409, "receipt_already_consumed")
    used = at.must(at.act("usage", {"turns": 3, "cost_usd": 0.1, "runtime_seconds": 60}), 200)
    assert used["charges"] == {"turns": 3, "cost_usd": 0.1, "runtime_seconds": 60}
    grant = at.must(at.authorize(), 201)
    assert at.must(at.authorize(), 200)["grant_id"] == grant["grant_id"]
    body = at.token() | {"grant_id": grant["grant_id"]}
    first = at.must(at.post(f"{at.path}/actions/draft-pr/consume", body, key="call"), 200)
    assert (first["call_authorized"], first["reconcile_only"]) == (True, False)
    second = at.must(at.post(f"{at.path}/actions/draft-pr/consume", body, key="call"), 200)
    assert (second["call_authorized"], second["reconcile_only"]) == (False, True)
    proof = at.must(at.prove(), 201)
    assert (proof["trusted"], proof["run"]["status"]) == (True, "draft_pr_opened")
    assert at.must(at.prove(), 200)["proof_id"] == proof["proof_id"]
    closed(at.verify(), 409, "deploy_not_bound")
    assert at.deploy(who="dsn") is None, "a deploy by DSN is no proof"
    assert at.deploy() == at.run_id
    pending = at.verify(key="verify")
    assert (pending.status_code, pending.json()["poll_after_seconds"]) == (202, 60)
    at.wait(60)
    at.traffic(2)
    at.wait(63)  # the window, and how far behind now counting stays
    done = at.verify(key="verify")
    assert (done.status_code, done.json()["verification"]["outcome"]) == (200, "no_recurrence")
    assert at.verify().json() == done.json()
    run = at.run()
    assert (run["phase"], run["status"]) == ("verified_or_reported", "succeeded")
    assert run["output"]["verification"]["passed"] is True
    assert run["output"]["pull_request"]["grant_id"] == grant["grant_id"]
    assert run["grants"][0]["status"] == "settled"
    case = at.must(at.call("GET", f"/v1/cases/{at.case_id}", who="member"))
    assert (case["status"], case["revision"], case["claimed"]) == ("resolved", 2, False)


def test_auto_merge_needs_readiness_a_grant_of_its_own_and_the_merge(server: ServerHandle) -> None:
    with open_scene(server, "auto_merge") as at:
        at.delivered()
        at.must(at.prove(), 201)
        merge = {"pr_number": 7, "head_sha": HEAD, "merge_method": "squash"}
        closed(at.act("actions/auto-merge/authorize", merge), 409, "pr_proof_required")
        at.must(at.prove("checks_passed"), 201)
        grant = at.must(at.act("actions/auto-merge/authorize", merge), 201)
        assert at.must(at.consume(grant["grant_id"], "auto-merge"), 200)["call_authorized"]
        assert not at.must(at.consume(grant["grant_id"], "auto-merge"), 200)["call_authorized"]
        at.must(at.prove("auto_merge_enabled"), 201)
        assert at.deploy() is None
        at.must(at.prove("merged"), 201)
        assert at.deploy(MERGED) == at.run_id
        assert at.run()["auto_merge_receipt"]["grant_id"] == grant["grant_id"]


def test_the_sweep_does_alone_what_time_decides(at: HttpScene) -> None:
    """Receipts come and runs end without anybody asking; a read says the same before and after."""
    at.running()
    at.wait(900)
    before = at.run()
    assert (before["phase"], before["status"]) == ("stopped", "failed")
    assert before["reason"] == "The lease of the run ended before its runner renewed it."
    at.wait(60)
    assert at.run()["status"] == "failed"
    shown = at.must(at.call("GET", f"{at.project}/automation-runs?status=failed"))
    assert [run["run_id"] for run in shown["runs"]] == [at.run_id]
