"""Grants: one for one exact change, spent once, gone with a stop (G-109)."""

from __future__ import annotations

import pytest

from statemachines.contracts.documents import Document
from tests.support.loop.contracts import READY, make
from tests.support.loop.scene import Scene

REVIEW = make("review_required")


def scene(document: Document = REVIEW) -> Scene:
    return Scene(document, READY)


def test_the_same_change_names_the_same_grant_and_another_is_refused():
    at = scene().running()
    grant_id = at.grant()
    assert at.authorize().status == 200
    assert at.grant() == grant_id
    assert at.authorize(head_sha="d" * 40).code == "grant_already_authorized"
    at.wait(899)
    assert at.grant() == grant_id


def test_an_expired_grant_makes_room_for_a_new_one():
    at = scene(make("review_required", max_prs_per_day=1)).running()
    first = at.grant()
    at.must("renew", {"lease_epoch": 1}, claim_id=at.claim_id)
    at.wait(450)
    at.must("renew", {"lease_epoch": 1}, claim_id=at.claim_id)
    at.wait(450)
    assert at.consume(first).code == "grant_not_available"
    second = at.grant()
    assert second != first
    assert at.consume(second).body["call_authorized"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"delivery_mode": "auto_merge"}, "delivery_mode_mismatch"),
        ({"repository": "https://code.example/acme/other"}, "scope_violation"),
        ({"base_branch": "develop"}, "scope_violation"),
        ({"head_branch": "main"}, "scope_violation"),
        ({"files_changed": ["src/x", "/etc/passwd"]}, "scope_violation"),
        ({"files_changed": ["src/AGENTS.md"]}, "scope_violation"),
        ({"changed_lines": 401}, "scope_violation"),
        ({"tests": [{"command": "make test", "passed": False}]}, "scope_violation"),
    ],
)
def test_a_change_outside_the_policy_gets_no_grant_and_costs_nothing(change, code):
    at = scene(make("review_required", max_prs_per_day=1)).running()
    reply = at.authorize(**change)
    assert reply.code == code
    if code == "scope_violation":
        assert reply.body["violations"]
    assert at.grant(), "nothing was charged for the refusal"


def test_the_daily_budget_of_pull_requests_is_held_and_given_back():
    at = scene(make("review_required", max_prs_per_day=1)).delivered()
    at.act("patch", {"status": "failed", "reason": "r"})
    at.wait(60)
    at.issue()
    at.claim()
    at.start(key="second")
    reply = at.authorize()
    assert (reply.code, reply.body["budget"], reply.body["limit"]) == ("budget_exhausted", "max_prs_per_day", 1)
    at.wait(86400 - 60)
    at.must("sweep", who="sweep")
    at.error()
    at.issue()
    at.claim()
    at.start(key="third")
    assert at.authorize().ok, "a day later the budget is free again"


def test_only_the_first_consume_may_call_the_provider():
    at = scene().running()
    grant_id = at.grant()
    body = at.token() | {"grant_id": grant_id}
    first = at.send("consume", body, key="k", run_id=at.run_id, kind="draft_pr")
    assert (first.body["call_authorized"], first.body["reconcile_only"]) == (True, False)
    assert first.body["state_revision"] == body["state_revision"] + 1
    for key in ("k", "other"):
        again = at.send("consume", body, key=key, run_id=at.run_id, kind="draft_pr")
        assert (again.status, again.body["call_authorized"], again.body["reconcile_only"]) == (200, False, True)
    at.pause()
    assert at.consume(grant_id).body["reconcile_only"], "reconciling stays open while everything is stopped"
    at.must("cancel", who="canceller", key="c", run_id=at.run_id)
    assert at.consume(grant_id).body["reconcile_only"]


def test_a_stop_voids_a_grant_for_good():
    at = scene().running()
    grant_id = at.grant()
    at.pause()
    assert at.consume(grant_id).code == "automation_paused"
    at.enable()
    assert at.consume(grant_id).code == "grant_not_available"
    assert at.run()["grants"][0]["status"] == "revoked"
    fresh = at.grant()
    assert fresh != grant_id
    assert at.consume(fresh).ok


def test_a_grant_of_another_run_is_not_available():
    at = scene().running()
    at.grant()
    assert at.consume("grant_00000000000000000000000000").code == "grant_not_available"
