"""Claiming: exact revisions, epochs, every refusal by its code, rivals with one winner (G-105)."""

from __future__ import annotations

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


def test_a_claim_holds_the_exact_revision_and_repeats_to_its_runner():
    at = scene().begin()
    at.issue()
    claim = at.claim()
    assert (claim["lease_epoch"], claim["status"], claim["lease_expires_at"]) == (1, "active", at.now + 900)
    assert at.claim()["claim_id"] == claim["claim_id"]
    refused = at.send("claim", at.claim_body(), who=RIVAL, case_id=CASE_ID)
    assert refused.code in {"case_already_claimed", "receipt_not_claimable"}


def test_a_repeat_at_another_revision_is_not_the_held_claim():
    """The claim would answer for a case that the caller does not hold (G-138)."""
    at = scene().begin()
    at.issue()
    at.claim()
    refused = at.send("claim", at.claim_body(case_revision=2), case_id=CASE_ID)
    assert (refused.status, refused.code) == (409, "case_revision_stale")
    assert refused.body == {"field": "case_revision", "expected": 1, "actual": 2}


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
    at.issue()
    at.wait(86400)
    assert refusal() == "receipt_expired"
    at.error()
    at.issue()
    at.must("suppress", who="telemetry", case_id=CASE_ID)
    assert refusal() == "case_revision_stale"
    at.error()
    assert refusal() == "case_revision_stale"
    at.issue()
    at.claim_id = at.must("claim", at.claim_body(case_revision=3), case_id=CASE_ID)["claim_id"]
    at.must("release", {"lease_epoch": 1}, claim_id=at.claim_id)
    assert refusal(body={"case_revision": 3}) == "receipt_not_claimable", "a released claim closes its receipt"


def test_a_case_that_has_rested_is_judged_again_at_the_claim():
    """Its receipt ends, and the next error brings another one at once (G-188)."""
    at = scene(make("review_required", cooldown_seconds=604800)).begin()
    at.wait(86390)
    at.issue()
    at.wait(11)
    refused = at.send("claim", at.claim_body(), case_id=CASE_ID)
    assert (refused.status, refused.code) == (409, "materiality_not_met")
    assert {"check": "last_seen_age", "passed": False} in refused.body["checks"]
    [receipt] = at.must("receipts")["trigger_receipts"]
    assert receipt["status"] == "invalidated"
    assert at.send("claim", at.claim_body(), case_id=CASE_ID).code == "receipt_not_claimable"
    at.error()
    at.issue()
    assert at.claim()["status"] == "active"


def test_epochs_rise_by_one_for_every_claim_of_the_case():
    at = scene().begin()
    for epoch in (1, 2, 3):
        at.issue()
        assert at.claim()["lease_epoch"] == epoch
        at.wait(900)
        at.must("sweep", who="sweep")


def test_a_lease_that_was_offered_again_shuts_the_old_worker_out_even_if_the_clock_goes_back():
    """After a lease lapsed and the case was offered anew, nothing that rests on the old lease works again (P5)."""
    at = scene().begin()
    at.issue()
    at.claim()
    at.start()
    at.wait(960)
    at.issue()
    at.wait(-860)
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
