"""Runs over HTTP: one start, a token for each step, exact charges, cancel, and what every kill switch leaves."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import msgspec
import pytest

from schemas.contracts.playbook import SelfHealingOutput
from service.history.rebuild import rebuild
from service.registry import read_models
from tests.support.automation_world import closed
from tests.support.loop.http_scene import RIVAL, HttpScene

pytestmark = pytest.mark.shares_server

USAGE = {"turns": 1, "cost_usd": 0.1, "runtime_seconds": 1}


def test_of_many_starts_one_begins_the_run(at: HttpScene) -> None:
    """Same key, same run; another key is told which run it is (R-AUT-28, R-AUT-29)."""
    at.prepare()
    at.error(2)
    at.issue()
    at.must(at.claim(), 201)
    body = {"trigger_receipt_id": at.receipt_id}

    def start(number: int) -> httpx2.Response:
        with at.server.client() as client:
            key = "same" if number % 2 else f"other-{number}"
            return at.world.call("POST", f"{at.project}/automation-runs", body, who="heal", key=key, client=client)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(start, range(32)))
    runs = {answer.json()["run_id"] for answer in answers if answer.is_success}
    told = [answer.json()["error"] for answer in answers if answer.status_code == 409]
    runs |= {error["details"]["run_id"] for error in told if error["code"] == "receipt_already_consumed"}
    assert len(runs) == 1
    assert sum(answer.status_code == 201 for answer in answers) == 1
    listed = at.must(at.call("GET", f"{at.project}/automation-runs"), 200)["runs"]
    assert [run["run_id"] for run in listed] == list(runs)


def test_a_start_refuses_who_has_no_claim(at: HttpScene) -> None:
    at.prepare()
    at.error(2)
    at.issue()
    closed(at.start("a"), 409, "claim_required_for_run")
    at.must(at.claim(), 201)
    closed(at.start("a", who=RIVAL), 409, "claim_required_for_run")
    closed(at.start("a", who="owner"), 403, "principal_not_allowed")
    at.save(max_runs_per_day=9)
    closed(at.start("a"), 409, "automation_disabled")
    at.enable()
    closed(at.start("a"), 409, "receipt_policy_superseded")


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        ({"status": "failed"}, "reason"),
        ({"status": "escalated"}, "reason"),
        ({"status": "draft_pr_opened"}, "pull_request"),
    ],
)
def test_a_status_names_what_it_lacks(at: HttpScene, body: dict[str, Any], missing: str) -> None:
    at.running()
    answer = at.patch(body)
    closed(answer, 400, "invalid_payload")
    details = answer.json()["error"]["details"]
    assert (details["missing_fields"], details["request_body_schema"] is not None) == ([missing], True)


def test_only_the_steps_of_a_run_are_taken(at: HttpScene) -> None:
    at.running()
    for body in (
        {},
        {"phase": "stopped"},
        {"status": "succeeded"},
        {"status": "verifying"},
        {"status": "cancelled"},
        {"phase": "running", "status": "failed", "reason": "r"},
        {"phase": "running", "reason": "r"},
    ):
        closed(at.patch(body), 409, "run_transition_not_allowed")
    reported = {"number": 1, "url": "https://code.example/acme/shop/pull/1", "head_sha": "a" * 40}
    closed(at.patch({"status": "draft_pr_opened", "pull_request": reported}), 409, "run_transition_not_allowed")
    for url in ("http://code.example/1", "https://user:pw@code.example/1", "javascript:1", "https:///x"):
        closed(at.patch({"status": "draft_pr_opened", "pull_request": reported | {"url": url}}), 400, "invalid_payload")
    assert at.run()["state_revision"] == 1
    assert at.must(at.patch({"phase": "running"}), 200)["phase"] == "running"
    ended = at.must(at.patch({"status": "escalated", "reason": "Needs a person.", "summary_md": "# Why"}), 200)
    assert (ended["status"], ended["reason"]) == ("escalated", "Needs a person.")
    closed(at.patch({"phase": "running"}), 409, "run_terminal")


def test_a_fencing_token_is_exact(at: HttpScene) -> None:
    at.running()

    def usage(**token: int) -> httpx2.Response:
        return at.post(f"{at.path}/usage", {"state_revision": 1, "lease_epoch": 1} | USAGE | token)

    stale = usage(state_revision=2)
    closed(stale, 409, "stale_state_revision")
    assert stale.json()["error"]["details"] == {"current_state_revision": 1}
    closed(usage(lease_epoch=2), 409, "stale_lease_epoch")
    closed(usage(state_revision=0), 400, "invalid_payload")
    closed(
        at.post(f"{at.path}/usage", {"state_revision": 1, "lease_epoch": 1} | USAGE, who="ci"),
        403,
        "principal_not_allowed",
    )
    at.must(usage(), 200)
    closed(usage(), 409, "stale_state_revision")


def test_a_rotated_credential_carries_a_run_to_its_end(at: HttpScene) -> None:
    """Another credential of the automation reads the case, renews, charges, delivers and releases (G-138).

    It cannot cancel.
    """
    at.running()
    assert at.must(at.call("GET", f"/v1/cases/{at.case_id}", who=RIVAL), 200)["case_id"] == at.case_id
    claim = f"/v1/cases/{at.case_id}/claims/{at.claim_id}"
    at.must(at.post(f"{claim}/renew", {"lease_epoch": 1}, who=RIVAL), 200)
    at.must(at.act("usage", USAGE, who=RIVAL), 200)
    closed(at.post(f"{at.path}/cancel", {}, who=RIVAL), 403, "claim_required")
    grant_id = at.must(at.act("actions/draft-pr/authorize", at.binding(), who=RIVAL), 201)["grant_id"]
    assert at.must(at.act("actions/draft-pr/consume", {"grant_id": grant_id}, who=RIVAL), 200)["call_authorized"]
    closed(at.post(f"{at.path}/verify", {}, who=RIVAL), 409, "deploy_not_bound")
    assert at.must(at.post(f"{claim}/release", {"lease_epoch": 1}, who=RIVAL), 200)["status"] == "released"
    refused = at.call("GET", f"/v1/cases/{at.case_id}", who=RIVAL)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "claim_required")


def test_charges_are_exact_and_atomic(at: HttpScene) -> None:
    """A tenth ten times is one; the eleventh is refused with the whole story; a twin key charges once (P11)."""
    at.running(max_cost_usd_per_run=1.0, max_turns_per_run=20)
    for _ in range(10):
        body = at.must(at.act("usage", USAGE), 200)
    assert (body["charges"]["cost_usd"], body["remaining"]["cost_usd"]) == (1.0, 0.0)
    refused = at.act("usage", {"cost_usd": 0.000001})
    closed(refused, 409, "budget_exhausted")
    assert refused.json()["error"]["details"] == {
        "budget": "max_cost_usd_per_run", "limit": 1.0, "used": 1.0, "requested": 1e-06, "resets_at": None,
    }  # fmt: skip
    closed(at.act("usage", {"cost_usd": 0.0000001}), 400, "invalid_payload")
    closed(at.act("usage", {}), 400, "invalid_payload")
    closed(at.act("usage", {"turns": -1}), 400, "invalid_payload")
    closed(at.act("usage", {"cost_usd": "0.1"}), 400, "invalid_payload")
    token = at.token()
    once = at.post(f"{at.path}/usage", token | {"turns": 1}, key="twin")
    twice = at.post(f"{at.path}/usage", token | {"turns": 1}, key="twin")
    assert at.must(twice, 200) == at.must(once, 200) | {"idempotent_replay": True}
    closed(at.post(f"{at.path}/usage", token | {"turns": 2}, key="twin"), 422, "idempotency_key_reused")
    closed(at.call("POST", f"{at.path}/usage", token | {"turns": 1}), 400, "idempotency_key_required")


def test_parallel_charges_never_pass_the_limit(at: HttpScene) -> None:
    at.running(max_turns_per_run=5)

    def charge(number: int) -> int:
        with at.server.client() as client:
            while True:
                run = at.world.call("GET", at.path, who="heal", client=client).json()
                body = {"state_revision": run["state_revision"], "lease_epoch": 1, "turns": 1}
                answer = at.world.call("POST", f"{at.path}/usage", body, who="heal", key=f"c{number}", client=client)
                if answer.is_success:
                    return 1
                if answer.json()["error"]["code"] == "budget_exhausted":
                    return 0

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(charge, range(16))) == 5
    assert at.run()["charges"]["turns"] == 5


def test_cancel_closes_service_authority_and_says_what_is_left(at: HttpScene) -> None:
    at.delivered()
    closed(at.post(f"{at.path}/cancel", {}, who="member"), 403, "owner_required")
    closed(at.post(f"{at.path}/cancel", {}, who=RIVAL), 403, "claim_required")
    closed(at.call("POST", f"{at.path}/cancel", {}, who="owner"), 400, "idempotency_key_required")
    first = at.must(at.post(f"{at.path}/cancel", {"reason": "Wrong case."}, key="stop", who="owner"), 200)
    assert (first["phase"], first["status"]) == ("external_follow_up_required", "cancelled")
    assert [item["kind"] for item in first["external_follow_ups"]] == ["inspect_pull_request", "inspect_ci"]
    again = at.must(at.post(f"{at.path}/cancel", {"reason": "Wrong case."}, key="stop", who="owner"), 200)
    assert again == first
    by_body = at.must(at.call("POST", f"{at.path}/cancel", {"command_key": "stop"}, who="heal"), 200)
    assert by_body == first
    closed(at.post(f"{at.path}/cancel", {"command_key": "x"}, key="y", who="owner"), 400, "invalid_payload")
    closed(at.post(f"{at.path}/cancel", {}, key="other", who="owner"), 409, "run_terminal")
    at.must(at.prove(), 201)
    run = at.run()
    assert (run["phase"], run["status"], run["external_follow_ups"]) == ("stopped", "cancelled", [])
    assert at.deploy() is None


def test_a_stop_blocks_authority_and_leaves_settlement_open(at: HttpScene) -> None:
    """The whole list of G-114 around one run past its consume."""
    at.delivered()
    grant_id = at.run()["grants"][0]["grant_id"]
    token = at.token()
    at.pause()
    closed(at.post(f"{at.project}/automation-triggers/issue", {"automation_id": "heal"}), 409, "automation_paused")
    closed(at.start("late"), 409, "receipt_already_consumed")
    renew = f"/v1/cases/{at.case_id}/claims/{at.claim_id}/renew"
    closed(at.post(renew, {"lease_epoch": 1}), 409, "automation_paused")
    for path, body in (
        ("usage", USAGE),
        ("approvals", {"action": "draft_pr", "summary": "s"}),
        ("actions/draft-pr/authorize", at.binding(head_sha="d" * 40)),
        ("actions/auto-merge/authorize", {"pr_number": 7, "head_sha": "d" * 40, "merge_method": "squash"}),
    ):
        closed(at.post(f"{at.path}/{path}", token | body), 409, "automation_paused")
    assert at.must(at.consume(grant_id), 200)["reconcile_only"], "reconciling stays open"
    at.must(at.prove(), 201)
    assert at.deploy() == at.run_id
    assert at.verify().status_code == 202
    at.must(at.call("GET", f"{at.project}/automation-trigger-receipts"), 200)
    at.must(at.post(f"{at.path}/cancel", {}, who="owner"), 200)


def test_handing_over_is_open_while_paused(at: HttpScene) -> None:
    at.running()
    at.pause()
    closed(at.patch({"phase": "running"}), 409, "automation_paused")
    assert at.must(at.patch({"status": "failed", "reason": "Stopped."}), 200)["status"] == "failed"


def test_a_deadline_ends_every_command(at: HttpScene) -> None:
    at.running(max_runtime_seconds=60)
    token = at.token()
    at.wait(60)
    for path, body in (("usage", USAGE), ("approvals", {"action": "draft_pr", "summary": "s"})):
        closed(at.post(f"{at.path}/{path}", token | body), 409, "deadline_exceeded")
    assert at.run()["status"] == "failed"


@pytest.mark.parametrize("end", ["failed", "escalated", "cancelled"])
def test_an_ended_run_shows_which_parts_of_its_output_came_to_be(at: HttpScene, end: str) -> None:
    """Every key of R-AUT-46, null where a part never came to be. A rebuild shows the same, and so does the list."""
    at.delivered()
    at.must(at.prove(), 201)
    if end == "cancelled":
        assert at.deploy() == at.run_id
        at.must(at.post(f"{at.path}/cancel", {}, who="owner"), 200)
    else:
        at.must(at.patch({"status": end, "reason": "Not ours."}), 200)
    run = at.run()
    [grant] = run["grants"]
    parts = run["output_parts"]
    assert (run["status"], run["output"]) == (end, None)
    assert parts.keys() == {field.encode_name for field in msgspec.structs.fields(SelfHealingOutput)}
    assert (parts["run_id"], parts["status"]) == (at.run_id, end)
    assert parts["code_delivery"] == {"mode": "review_required"}
    assert parts["pull_request"] == {
        "grant_id": grant["grant_id"],
        "delivery_mode": "review_required",
        "draft": True,
        "head_branch": "heal/1",
        "head_sha": "b" * 40,
    }
    assert parts["provider_proof"]["proof_id"] == run["provider_proof"]["proof_id"]
    assert parts["auto_merge_receipt"] is None
    pending = {"outcome": "pending", "sample": None, "passed": False}
    deploy = {name: run["deploy"][name] for name in ("deploy_id", "sha", "environment")} if run["deploy"] else None
    assert (parts["deploy"] is None) == (end != "cancelled")
    assert (parts["deploy"], parts["verification"]) == (deploy, pending if deploy else None)
    rebuild(at.world.url, read_models()["automation_runs"])
    [listed] = at.must(at.call("GET", f"{at.project}/automation-runs?status={end}"))["runs"]
    assert (at.run(), listed) == (run, run)


def test_a_run_that_did_nothing_has_no_part_of_its_output(at: HttpScene) -> None:
    parts = at.running().run()["output_parts"]
    assert {name for name, part in parts.items() if part is not None} == {"run_id", "code_delivery"}


def test_runs_are_seen_by_their_own_automation_and_project(at: HttpScene) -> None:
    at.running()
    closed(at.call("GET", at.path, who="stranger"), 404, "run_not_found")
    closed(at.call("GET", "/v1/automation-runs/run_" + "0" * 26), 404, "run_not_found")
    at.world.mint("automation_runner", "review-funnel")
    closed(at.call("GET", at.path, who="review-funnel"), 403, "automation_mismatch")
    assert at.must(at.call("GET", f"{at.project}/automation-runs", who="review-funnel"), 200)["runs"] == []
    mine = f"{at.project}/automation-runs?automation_id=heal"
    closed(at.call("GET", mine, who="review-funnel"), 403, "automation_mismatch")
    assert at.must(at.call("GET", mine, who="member"), 200)["count"] == 1
    for query, count in (
        (f"case_id={at.case_id}", 1),
        (f"case_id={at.case_id}&status=failed", 0),
        (f"case_id=case_{0:026}", 0),
    ):
        assert at.must(at.call("GET", f"{at.project}/automation-runs?{query}"), 200)["count"] == count
