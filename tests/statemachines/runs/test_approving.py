"""A runner asks a person, an owner decides: what waits, what stays rejected, what ends with its run (G-108)."""

from __future__ import annotations

from statemachines.contracts.documents import Document
from tests.support.loop.contracts import READY, make
from tests.support.loop.scene import Scene

REVIEW = make("review_required")


def scene(document: Document = REVIEW) -> Scene:
    return Scene(document, READY)


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


def test_the_answer_to_a_request_carries_the_token_of_the_next_command():
    at = scene().running()
    first = ask(at)
    second = at.act("request_approval", {"action": "escalate", "state_revision": first.body["state_revision"]})
    assert second.ok, "no read in between"
    stale = at.act("request_approval", {"action": "draft_pr", "state_revision": 1})
    assert stale.status == 200, "asking again changes nothing"
    assert stale.body["state_revision"] == second.body["state_revision"] == at.run()["state_revision"]


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
    assert decide(at, approval_id, "approve").code == "approval_cancelled"
    [shown] = at.must("approvals", who="owner")["approvals"]
    assert shown["status"] == "cancelled"


def test_a_rejected_escalation_leaves_failing_open():
    at = scene().running()
    assert decide(at, ask(at, "escalate").body["approval_id"], "reject").ok
    assert at.act("patch", {"status": "escalated", "reason": "r"}).code == "approval_rejected"
    assert at.act("patch", {"status": "failed", "reason": "r"}).ok
