"""Issuing receipts: which cases get one, every reason to pass one over, and nothing while stopped (G-104)."""

from __future__ import annotations

import pytest

from statemachines.contracts.documents import Document
from statemachines.runs import lease as leases
from tests.support.loop.contracts import READY, make
from tests.support.loop.scene import CASE_ID, RUNNER, Scene

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
    assert receipt["expires_at"] == receipt["issued_at"] + 86400
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


def test_a_runner_that_comes_once_a_night_finds_one_receipt():
    """It stays claimable for 24 hours, and no second one is issued for the same revision meanwhile (G-188)."""
    at = scene().begin()
    at.issue()
    for _ in range(23):
        at.wait(3600)
        at.must("sweep", who="sweep")
        assert issue(at) == {"receipt_ids": [], "skipped": [(CASE_ID, "receipt_open")]}
    at.wait(3599)
    at.error()
    assert at.claim()["status"] == "active"
    assert at.start()["phase"] == "run_started"


def test_an_unclaimed_receipt_costs_no_cooldown():
    """Neither when it expires nor when a stop ends it (G-188)."""
    at = scene(make("review_required", cooldown_seconds=604800)).begin()
    at.issue()
    at.wait(86400)
    at.error()
    at.issue()
    at.pause()
    at.enable()
    at.issue()
    at.claim()
    at.must("release", {"lease_epoch": 1}, claim_id=at.claim_id)
    at.error()
    assert issue(at)["skipped"] == [(CASE_ID, "cooldown")]


def test_the_cooldown_counts_from_the_last_claim_or_the_end_of_its_run():
    """Whichever is later, recorded or not, and whatever receipts came after it (G-188)."""
    at = scene(make("review_required", cooldown_seconds=600)).begin()
    at.issue()
    at.claim()
    at.wait(300)
    at.start()
    at.wait(300)
    at.must("patch", at.token() | {"status": "failed", "reason": "No."}, run_id=at.run_id)
    at.wait(599)
    assert issue(at)["skipped"] == [(CASE_ID, "cooldown")]
    at.wait(1)
    at.issue()
    at.pause()
    at.enable()
    at.issue()
    at.claim()
    at.start(key="second")
    at.wait(1499)  # the lease ended 599 seconds ago, and nobody has recorded the end of the run
    assert issue(at)["skipped"] == [(CASE_ID, "cooldown")]
    at.wait(1)
    assert issue(at)["receipt_ids"]


def test_offers_of_before_keep_the_cooldown_of_before():
    """An older offer does not tell when the run before it ended: its own time is the bound."""
    state = leases.Lease()
    for event in (
        leases.LeaseOffered("case_1", 1, "heal", "trc_1", 1, 10),
        leases.LeaseTaken("claim_1", 1, 20),
        leases.LeaseSpent("run_1", "heal", 1, 30),
        leases.LeaseOffered("case_1", 1, "heal", "trc_2", 2, 40),
        leases.LeaseOffered("case_1", 1, "heal", "trc_3", 3, 50),
    ):
        state = leases.evolve(state, event)
    assert (state.claimed_at, state.run_ended_at) == (20, 40)


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
