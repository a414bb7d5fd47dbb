"""A runner in its run: exact fencing tokens, progress, charges, handing over (G-106, G-107)."""

from __future__ import annotations

from typing import Any

import pytest

from projections.runs import CLAIMS
from statemachines.contracts.documents import Document
from tests.support.loop.contracts import READY, make
from tests.support.loop.scene import RIVAL, RUNNER, STRANGER, Scene

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
def test_a_sibling_goes_on_with_a_run(operation: str):
    """Credentials are rotated while runs go on: the automation is what a run belongs to (G-138)."""
    at = scene().running()
    assert send(at, operation, who=RIVAL).ok
    assert at.run()["runner_id"] == RUNNER.split("/")[1], "who began it stays on record"
    assert send(at, operation, who=RUNNER, state_revision=1).code in {"stale_state_revision", None}


@pytest.mark.parametrize("operation", COMMANDS)
def test_a_runner_command_needs_the_exact_revision_and_epoch(operation: str):
    at = scene().running()
    before = at.run()
    stale = send(at, operation, state_revision=2)
    assert (stale.code, stale.body["current_state_revision"]) == ("stale_state_revision", 1)
    assert send(at, operation, lease_epoch=2).code == "stale_lease_epoch"
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


@pytest.mark.parametrize("outcome", ["failed", "escalated"])
def test_a_runner_hands_over_even_while_paused(outcome: str):
    at = scene().running()
    at.pause()
    reply = at.act("patch", {"status": outcome, "reason": "Cannot reproduce it."})
    assert (reply.body["phase"], reply.body["status"]) == ("stopped", outcome)
    assert reply.body["reason"] == "Cannot reproduce it."
    assert at.act("usage", USAGE).code == "run_terminal"
    [claim] = [row.state.status.value for row in at.store.all(CLAIMS)]
    assert claim == "completed"


@pytest.mark.parametrize("outcome", ["failed", "escalated"])
def test_handing_over_after_a_consume_leaves_something_to_follow_up(outcome: str):
    at = scene().delivered()
    reply = at.act("patch", {"status": outcome, "reason": "r"})
    assert (reply.body["phase"], reply.body["status"]) == ("external_follow_up_required", outcome)
    kinds = [item["kind"] for item in reply.body["external_follow_ups"]]
    assert kinds == ["inspect_pull_request", "inspect_ci"]
    assert reply.body["grants"][0]["status"] == "unresolved"
