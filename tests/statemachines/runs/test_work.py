"""A runner in its run: fencing tokens, charges, requests to people, handing over, cancel, and what time makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from statemachines.contracts.documents import Document
from tests.support.loop.contracts import READY, make
from tests.support.loop.scene import RIVAL, STRANGER, Scene

REVIEW = make("review_required")
USAGE = {"turns": 1, "cost_usd": "0.1", "runtime_seconds": 10}

COMMANDS: dict[str, dict[str, Any]] = {
    "patch": {"phase": "running"},
    "usage": USAGE,
    "request_approval": {"action": "draft_pr"},
    "authorize": {},
}


def scene(document: Document = REVIEW) -> Scene:
    return Scene(document, READY)


def send(at: Scene, operation: str, *, who: str = "heal/runner_1", **token: int):
    body = at.token(**token) | COMMANDS[operation]
    path = {"run_id": at.run_id}
    if operation == "authorize":
        body |= {"binding": at.binding()}
        path |= {"kind": "draft_pr"}
    return at.send(operation, body, who=who, **path)


@pytest.mark.parametrize("operation", COMMANDS)
def test_a_runner_command_needs_the_exact_revision_and_epoch(operation: str):
    at = scene().running()
    before = at.run()
    stale = send(at, operation, state_revision=2)
    assert (stale.code, stale.body["current_state_revision"]) == ("stale_state_revision", 1)
    assert send(at, operation, lease_epoch=2).code == "stale_lease_epoch"
    assert send(at, operation, who=RIVAL).code == "claim_required"
    assert send(at, operation, who=STRANGER).code == "automation_mismatch"
    assert at.run() == before
    assert send(at, operation).ok
    assert at.run()["state_revision"] == 2


@pytest.mark.parametrize("operation", COMMANDS)
def test_a_runner_command_needs_a_live_lease(operation: str):
    at = scene().running()
    at.wait(899)
    assert at.standing() == ("run_started", None)
    at.wait(1)
    for _ in range(2):
        assert send(at, operation).code == "lease_expired"
        assert at.standing() == ("stopped", "failed")
        at.must("sweep", who="sweep")  # The answer is the same before and after it was recorded.


@pytest.mark.parametrize("operation", COMMANDS)
def test_a_runner_command_comes_before_the_deadline(operation: str):
    at = scene(make("review_required", max_runtime_seconds=600)).running()
    at.wait(599)
    token = at.token()
    at.wait(1)
    for _ in range(2):
        assert send(at, operation, **token).code == "deadline_exceeded"
        assert at.standing() == ("stopped", "failed")
        at.must("sweep", who="sweep")


@pytest.mark.parametrize("operation", COMMANDS)
def test_a_stop_refuses_and_enabling_the_same_policy_lets_go_on(operation: str):
    at = scene().running()
    at.pause()
    assert send(at, operation).code == "automation_paused"
    at.enable()
    assert send(at, operation).ok


@pytest.mark.parametrize("operation", COMMANDS)
def test_a_run_does_not_outlive_the_policy_it_began_under(operation: str):
    at = scene().running()
    at.save(make("review_required", max_prs_per_day=2))
    assert send(at, operation).code == "automation_disabled"
    at.enable()
    assert send(at, operation).code == "automation_disabled"


def test_progress_said_twice_records_once():
    at = scene().running()
    assert at.act("patch", {"phase": "running"}).body["phase"] == "running"
    count = len(at.store.entries)
    assert at.act("patch", {"phase": "running"}).body["state_revision"] == 2
    assert len(at.store.entries) == count


def test_charges_add_up_and_stop_at_the_limit():
    at = scene(make("review_required", max_turns_per_run=5)).running()
    for _ in range(5):
        reply = at.act("usage", USAGE)
    assert reply.body["charges"] == {"turns": 5, "cost_usd": 0.5, "runtime_seconds": 50}
    assert reply.body["remaining"]["turns"] == 0
    refused = at.act("usage", USAGE)
    assert (refused.code, refused.body["budget"], refused.body["limit"]) == ("budget_exhausted", "max_turns_per_run", 5)
    assert at.run()["state_revision"] == 6


def test_the_same_charge_with_the_same_key_counts_once():
    at = scene().running()
    body = at.token() | USAGE
    first = at.send("usage", body, key="k", run_id=at.run_id)
    again = at.send("usage", body, key="k", run_id=at.run_id)
    assert first == again
    assert at.run()["charges"]["turns"] == 1
    assert at.send("usage", body | {"turns": 2}, key="k", run_id=at.run_id).code == "idempotency_key_reused"


# ---- people


def ask(at: Scene, action: str = "draft_pr"):
    return at.act("request_approval", {"action": action})


def decide(at: Scene, approval_id: str, decision: str):
    return at.send("decide", {"decision": decision}, who="owner", approval_id=approval_id)


def test_a_pending_request_holds_every_grant_call_until_the_last_is_decided():
    at = scene().running()
    grant_id = at.grant()
    first = ask(at)
    assert (first.status, first.body["status"]) == (201, "pending")
    assert ask(at).status == 200, "one pending request a run and action"
    second = ask(at, "escalate")
    assert at.standing() == ("human_review", None)
    assert at.authorize(head_branch="heal/2").code == "approval_pending"
    assert at.consume(grant_id).code == "approval_pending"
    assert decide(at, first.body["approval_id"], "approve").ok
    assert at.standing() == ("human_review", None)
    assert decide(at, second.body["approval_id"], "reject").ok
    assert at.standing() == ("running", None)
    assert at.consume(grant_id).ok


def test_a_rejected_action_stays_rejected_for_the_run():
    at = scene().running()
    approval_id = ask(at).body["approval_id"]
    assert decide(at, approval_id, "reject").body["status"] == "rejected"
    assert decide(at, approval_id, "reject").ok, "the same word again"
    assert decide(at, approval_id, "approve").code == "approval_already_decided"
    assert at.authorize().code == "approval_rejected"
    assert ask(at).code == "approval_rejected"


def test_an_approved_action_needs_no_second_request():
    at = scene().running()
    approval_id = ask(at).body["approval_id"]
    assert decide(at, approval_id, "approve").ok
    again = ask(at)
    assert (again.status, again.body["approval_id"]) == (200, approval_id)
    assert at.standing() == ("running", None)


def test_a_stop_cancels_what_is_pending_and_lets_the_run_ask_again():
    at = scene().running()
    approval_id = ask(at).body["approval_id"]
    at.pause()
    assert decide(at, approval_id, "approve").code == "approval_already_decided"
    at.enable()
    assert at.standing() == ("running", None), "the review lapsed with the authority it was asked under"
    assert at.run()["approvals"][0]["status"] == "cancelled"
    again = ask(at)
    assert again.status == 201
    assert again.body["approval_id"] != approval_id


def test_the_end_of_a_run_ends_its_requests():
    at = scene().running()
    approval_id = ask(at).body["approval_id"]
    at.must("cancel", who="canceller", key="c", run_id=at.run_id)
    assert decide(at, approval_id, "approve").code == "approval_already_decided"
    [shown] = at.must("approvals", who="owner")["approvals"]
    assert shown["status"] == "cancelled"


def test_a_rejected_escalation_leaves_failing_open():
    at = scene().running()
    assert decide(at, ask(at, "escalate").body["approval_id"], "reject").ok
    assert at.act("patch", {"status": "escalated", "reason": "r"}).code == "approval_rejected"
    assert at.act("patch", {"status": "failed", "reason": "r"}).ok


# ---- ends


@pytest.mark.parametrize("outcome", ["failed", "escalated"])
def test_a_runner_hands_over_even_while_paused(outcome: str):
    at = scene().running()
    at.pause()
    reply = at.act("patch", {"status": outcome, "reason": "Cannot reproduce it."})
    assert (reply.body["phase"], reply.body["status"]) == ("stopped", outcome)
    assert reply.body["reason"] == "Cannot reproduce it."
    assert at.act("usage", USAGE).code == "run_terminal"
    [claim] = [row.state.status.value for row in at.store.all(_claims())]
    assert claim == "completed"


def _claims():
    from projections.runs.claim import PROJECTION as CLAIMS

    return CLAIMS.table


@pytest.mark.parametrize("outcome", ["failed", "escalated"])
def test_handing_over_after_a_consume_leaves_something_to_follow_up(outcome: str):
    at = scene().delivered()
    reply = at.act("patch", {"status": outcome, "reason": "r"})
    assert (reply.body["phase"], reply.body["status"]) == ("external_follow_up_required", outcome)
    kinds = [item["kind"] for item in reply.body["external_follow_ups"]]
    assert kinds == ["inspect_pull_request", "inspect_ci"]
    assert reply.body["grants"][0]["status"] == "unresolved"


def test_a_cancel_with_nothing_outside_returns_nothing_to_follow_up():
    at = scene().running()
    grant_id = at.grant()
    body = at.must("cancel", who="canceller", key="c", run_id=at.run_id)
    assert (body["phase"], body["status"], body["external_follow_ups"]) == ("stopped", "cancelled", [])
    run = at.run()
    assert run["grants"][0]["status"] == "revoked"
    assert at.must("cancel", who="canceller", key="c", run_id=at.run_id) == body
    assert at.send("cancel", who="canceller", key="d", run_id=at.run_id).code == "run_terminal"
    assert at.consume(grant_id).code == "run_terminal"
    [claim] = [row.state.status.value for row in at.store.all(_claims())]
    assert claim == "revoked"


def test_a_cancel_gives_an_unspent_pull_request_back_at_once():
    at = scene(make("review_required", max_prs_per_day=1)).running()
    at.grant()
    at.must("cancel", who="canceller", key="c", run_id=at.run_id)
    at.wait(60)
    at.issue()
    at.claim()
    at.start(key="second")
    assert at.authorize().ok


def test_a_cancel_after_a_consume_says_what_to_inspect():
    at = scene().opened()
    body = at.must("cancel", who="canceller", key="c", run_id=at.run_id)
    assert (body["phase"], body["status"]) == ("external_follow_up_required", "cancelled")
    [pull_request, ci] = body["external_follow_ups"]
    assert pull_request["reference"] == "https://code.example/acme/shop/pull/7"
    assert ci["kind"] == "inspect_ci"


def test_a_run_without_a_deploy_is_given_up_after_thirty_days():
    at = scene().opened()
    at.wait(2592000 - 1)
    assert at.standing() == ("provider_proof_pending", "draft_pr_opened")
    at.wait(1)
    assert at.standing() == ("external_follow_up_required", "failed")
    at.must("sweep", who="sweep")
    assert at.standing() == ("external_follow_up_required", "failed")
    assert at.deploy() is None
