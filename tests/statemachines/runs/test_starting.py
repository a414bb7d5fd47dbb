"""Starting a run: what it needs and what it charges, every refusal by its code (G-106)."""

from __future__ import annotations

from statemachines.contracts.documents import Document
from tests.support.loop.contracts import READY, make
from tests.support.loop.scene import CASE_ID, RIVAL, RUNNER, STRANGER, Scene

REVIEW = make("review_required")


def scene(document: Document = REVIEW) -> Scene:
    return Scene(document, READY)


def issue(at: Scene, who: str = RUNNER):
    return at.must("issue", {"automation_id": "heal"}, who=who)


def test_a_start_consumes_the_receipt_and_charges_run_and_attempt_as_one():
    at = scene().begin()
    at.issue()
    claim = at.claim()
    run = at.start()
    assert (run["phase"], run["status"], run["state_revision"], run["lease_epoch"]) == ("run_started", None, 1, 1)
    assert run["deadline_at"] == run["started_at"] + run["limits"]["max_runtime_seconds"]
    assert run["claim_id"] == claim["claim_id"]
    [receipt] = at.must("receipts")["trigger_receipts"]
    assert (receipt["status"], receipt["consumed_run_id"]) == ("consumed", run["run_id"])
    topics = [entry.event.TOPIC for entry in at.store.entries[-5:]]
    assert sorted(topics) == [
        "claim.bound.v1", "lease.spent.v1", "ledger.run_charged.v1", "run.started.v1", "trigger_receipt.consumed.v1",
    ]  # fmt: skip
    again = at.send("start", {"trigger_receipt_id": at.receipt_id}, key="start")
    assert (again.status, again.body["run_id"]) == (200, run["run_id"])
    other = at.send("start", {"trigger_receipt_id": at.receipt_id}, key="other")
    assert (other.code, other.body) == ("receipt_already_consumed", {"run_id": run["run_id"], "allowed_next": []})
    assert sum(entry.event.TOPIC == "run.started.v1" for entry in at.store.entries) == 1


def test_every_refusal_of_a_start():
    at = scene().begin()
    at.issue()

    def refusal(**how):
        return at.send("start", {"trigger_receipt_id": at.receipt_id}, **how).code

    assert refusal() == "claim_required_for_run"
    at.claim()
    assert refusal(who=RIVAL) == "claim_required_for_run"
    assert refusal(who=STRANGER) == "automation_mismatch"
    assert at.send("start", {"trigger_receipt_id": "trc_missing"}).code == "trigger_receipt_not_found"
    at.pause()
    assert refusal() == "automation_paused"
    at.enable()
    assert refusal() == "receipt_policy_superseded"
    at.wait(900)
    at.issue()
    at.claim()
    at.wait(900)
    assert refusal() == "claim_required_for_run", "a lease that ended is no claim"
    at.issue()
    at.claim()
    at.must("suppress", who="telemetry", case_id=CASE_ID)
    assert refusal() == "case_revision_stale"


def test_a_case_that_no_longer_matters_ends_its_receipt():
    at = scene().begin()
    at.wait(86400)
    at.issue()
    at.claim()
    at.wait(1)
    assert at.send("start", {"trigger_receipt_id": at.receipt_id}).code == "materiality_not_met"
    [receipt] = at.must("receipts")["trigger_receipts"]
    assert receipt["status"] == "invalidated"
    assert at.send("start", {"trigger_receipt_id": at.receipt_id}).code == "receipt_not_claimable"


def test_the_daily_budget_of_runs_is_held():
    at = scene(make("review_required", max_runs_per_day=1)).begin()
    at.issue()
    at.claim()
    at.start()
    at.must("cancel", who="canceller", key="c", run_id=at.run_id)
    at.wait(60)
    at.issue()
    at.claim()
    reply = at.send("start", {"trigger_receipt_id": at.receipt_id})
    assert (reply.code, reply.body["budget"], reply.body["used"]) == ("budget_exhausted", "max_runs_per_day", 1)
    assert at.must("receipts")["trigger_receipts"][-1]["status"] in {"claimed", "consumed"}
