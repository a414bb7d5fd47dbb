"""Issue, claim and start: what each needs, every refusal by its code, rivals with one winner (G-104 to G-106)."""

from __future__ import annotations

import pytest

from statemachines.contracts.documents import Document
from statemachines.runs import lease as leases
from tests.support.loop.contracts import READY, make
from tests.support.loop.memory_port import PROJECT
from tests.support.loop.scene import CASE_ID, RIVAL, RUNNER, STRANGER, Scene

REVIEW = make("review_required")


def scene(document: Document = REVIEW) -> Scene:
    return Scene(document, READY)


def issue(at: Scene, who: str = RUNNER):
    return at.must("issue", {"automation_id": "heal"}, who=who)


def test_a_case_that_matters_gets_one_receipt_and_its_detail_says_why():
    at = scene().begin()
    receipt_id = at.issue()
    [receipt] = at.must("receipts")["trigger_receipts"]
    assert receipt["receipt_id"] == receipt_id
    assert (receipt["status"], receipt["kind"], receipt["case"]["event_count"]) == ("issued", "unhandled_case", 2)
    assert receipt["materiality"] == {
        "minimum_event_count": 2, "maximum_last_seen_age_seconds": 86400, "age_seconds": 0, "passed": True,
    }  # fmt: skip
    assert receipt["expires_at"] == receipt["issued_at"] + 3600
    assert issue(at) == {"receipt_ids": [], "skipped": [(CASE_ID, "receipt_open")]}


def test_each_reason_to_pass_a_case_over_has_its_code():
    at = scene()
    at.save()
    at.enable()
    at.error()
    assert issue(at)["skipped"] == [(CASE_ID, "materiality_not_met")]
    at.error()
    at.issue()
    at.claim()
    assert issue(at)["skipped"] == [(CASE_ID, "case_already_claimed")]
    at.start()
    assert issue(at)["skipped"] == [(CASE_ID, "run_live")]
    at.must("cancel", who="canceller", key="c", run_id=at.run_id)
    assert issue(at)["skipped"] == [(CASE_ID, "cooldown")]
    at.wait(59)
    assert issue(at)["skipped"] == [(CASE_ID, "cooldown")]
    at.wait(1)
    assert issue(at)["receipt_ids"]


def test_attempts_at_one_revision_end_and_begin_again_with_the_next():
    at = scene(make("review_required", max_attempts_per_case_revision=2)).begin()
    for _ in range(2):
        at.issue()
        at.claim()
        at.start(key=f"start-{at.now}")
        at.must("cancel", who="canceller", key="c", run_id=at.run_id)
        at.wait(60)
    assert issue(at)["skipped"] == [(CASE_ID, "budget_exhausted")]
    at.must("suppress", who="telemetry", case_id=CASE_ID)
    at.error()
    assert issue(at)["receipt_ids"], "a regressed case is another revision"


def test_the_most_frequent_cases_come_first_and_no_more_than_the_policy_says():
    at = scene().begin()
    for letter, times in (("c", 4), ("d", 3)):
        for _ in range(times):
            at.must("error", {"fingerprint": letter * 32}, who="telemetry")
    first = issue(at)
    assert len(first["receipt_ids"]) == 2
    shown = {item["receipt_id"]: item["case"]["event_count"] for item in at.must("receipts")["trigger_receipts"]}
    assert [shown[receipt_id] for receipt_id in first["receipt_ids"]] == [4, 3]


@pytest.mark.parametrize("stop", ["pause", "save"])
def test_nothing_is_issued_while_stopped(stop: str):
    at = scene().begin()
    getattr(at, stop)()
    code = {"pause": "automation_paused", "save": "automation_disabled"}[stop]
    assert at.send("issue", {"automation_id": "heal"}).code == code
    assert at.send("issue", {"automation_id": "missing"}).code in {"automation_not_found", "automation_paused"}


def test_a_claim_holds_the_exact_revision_and_repeats_to_its_runner():
    at = scene().begin()
    at.issue()
    claim = at.claim()
    assert (claim["lease_epoch"], claim["status"], claim["lease_expires_at"]) == (1, "active", at.now + 900)
    assert at.claim()["claim_id"] == claim["claim_id"]
    refused = at.send("claim", at.claim_body(), who=RIVAL, case_id=CASE_ID)
    assert refused.code in {"case_already_claimed", "receipt_not_claimable"}


def test_every_refusal_of_a_claim():
    at = scene().begin()
    at.issue()

    def refusal(**how):
        body = at.claim_body(**how.pop("body", {}))
        return at.send("claim", body, **({"case_id": CASE_ID} | how)).code

    assert refusal(body={"trigger_receipt_id": "trc_missing"}) == "trigger_receipt_not_found"
    assert refusal(who=STRANGER) == "automation_mismatch"
    assert refusal(body={"case_revision": 2}) == "case_revision_stale"
    assert refusal(case_id="case_other") == "receipt_not_claimable"
    at.pause()
    assert refusal() == "automation_paused"
    at.enable()
    assert refusal() == "receipt_policy_superseded", "a pause ends what was issued before it"
    at.wait(60)
    at.issue()
    at.wait(3600)
    assert refusal() == "receipt_expired"
    at.issue()
    at.must("suppress", who="telemetry", case_id=CASE_ID)
    assert refusal() == "case_revision_stale"
    at.error()
    assert refusal() == "case_revision_stale"
    at.wait(60)
    at.issue()
    at.claim_id = at.must("claim", at.claim_body(case_revision=3), case_id=CASE_ID)["claim_id"]
    at.must("release", {"lease_epoch": 1}, claim_id=at.claim_id)
    assert refusal(body={"case_revision": 3}) == "receipt_not_claimable", "a released claim closes its receipt"


def test_epochs_rise_by_one_for_every_claim_of_the_case():
    at = scene().begin()
    for epoch in (1, 2, 3):
        at.issue()
        assert at.claim()["lease_epoch"] == epoch
        at.wait(900)
        at.must("sweep", who="sweep")


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
    assert (other.code, other.body) == ("receipt_already_consumed", {"run_id": run["run_id"]})
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


def test_a_lane_that_was_offered_again_shuts_the_old_worker_out_even_if_the_clock_goes_back():
    """After a lease lapsed and the case was offered anew, nothing that rests on the old lease works again (P5)."""
    at = scene().begin()
    at.issue()
    at.claim()
    at.start()
    at.wait(900)
    issue(at)
    at.wait(-800)
    for reply in (
        at.send("renew", {"lease_epoch": 1}, claim_id=at.claim_id),
        at.send("release", {"lease_epoch": 1}, claim_id=at.claim_id),
        at.send("patch", {"state_revision": 1, "lease_epoch": 1, "phase": "running"}, run_id=at.run_id),
        at.send("usage", {"state_revision": 1, "lease_epoch": 1, "turns": 1, "cost_usd": "0", "runtime_seconds": 0},
                run_id=at.run_id),
    ):  # fmt: skip
        assert reply.code == "lease_expired"
    lease = next(w.state for w in at.store.streams.values() if w.stream.machine is leases.MACHINE)
    assert lease.epoch == 1
    assert at.standing() == ("stopped", "failed")


def test_rivals_for_one_receipt_and_one_case_get_one_claim():
    at = scene().begin()
    at.issue()
    replies = [at.send("claim", at.claim_body(), who=f"heal/runner_{n}", case_id=CASE_ID) for n in range(8)]
    assert sum(reply.ok for reply in replies) == 1
    assert PROJECT in {name[0] for name in at.store.streams}
