"""How runs end: by cancel, by time, and what is left to follow up outside (G-106, G-113, R-AUT-51)."""

from __future__ import annotations

import pytest

from projections.runs import CLAIMS
from statemachines.contracts.documents import Document
from tests.support.loop.contracts import READY, make
from tests.support.loop.scene import CASE_ID, Scene

REVIEW = make("review_required")


def scene(document: Document = REVIEW) -> Scene:
    return Scene(document, READY)


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
    [claim] = [row.state.status.value for row in at.store.all(CLAIMS)]
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


@pytest.mark.parametrize("end", ["lease", "deadline", "release"])
def test_a_run_that_nobody_ended_says_why_it_is_over(end: str):
    at = Scene(make("review_required"), READY).running()
    if end == "release":
        at.must("release", {"lease_epoch": 1}, case_id=CASE_ID, claim_id=at.claim_id)
        at.wait(1)
    elif end == "lease":
        at.wait(900)
    else:
        deadline = at.run()["deadline_at"]
        while at.now + 600 < deadline:
            at.wait(600)
            at.must("renew", {"lease_epoch": 1}, case_id=CASE_ID, claim_id=at.claim_id)
        at.wait(deadline - at.now)
    assert at.standing() == ("stopped", "failed")
    assert (
        at.run()["reason"]
        == {
            "lease": "The lease of the run ended before its runner renewed it.",
            "deadline": "The run reached its deadline.",
            "release": "The claim of the run was released.",
        }[end]
    )
