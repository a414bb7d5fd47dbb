"""Approvals over HTTP: a runner asks, only an owner decides, and what is pending holds the grants (G-108)."""

from __future__ import annotations

import httpx2
import pytest

from tests.support.automation_world import closed
from tests.support.loop.http_scene import HttpScene

pytestmark = pytest.mark.shares_server


def ask(at: HttpScene, **changes: object) -> httpx2.Response:
    return at.act("approvals", {"action": "draft_pr", "summary": "May I open it?"} | changes)


def decide(at: HttpScene, approval_id: str, decision: str = "approve", **how: str) -> httpx2.Response:
    return at.post(f"/v1/automation-approvals/{approval_id}/decide", {"decision": decision}, **({"who": "owner"} | how))


def test_a_request_holds_the_grants_until_an_owner_decides(at: HttpScene) -> None:
    at.running()
    asked = at.must(ask(at, evidence={"ratio": 0.1, "notes": ["a", None, True]}), 201)
    assert asked["evidence"] == {"ratio": 0.1, "notes": ["a", None, True]}
    assert asked["expires_at"] == asked["requested_at"] + 86400
    again = at.must(ask(at), 200)
    assert again["approval_id"] == asked["approval_id"]
    assert asked["state_revision"] == again["state_revision"] == at.run()["state_revision"]
    assert at.run()["phase"] == "human_review"
    closed(at.authorize(), 409, "approval_pending")
    for who in ("member", "heal", "ci", "stranger"):
        answer = decide(at, asked["approval_id"], who=who)
        assert answer.status_code in {403, 404}, who
    decided = at.must(decide(at, asked["approval_id"]), 200)
    assert (decided["status"], decided["decided_by"]) == ("approved", at.world.users["owner"])
    assert at.must(decide(at, asked["approval_id"]), 200)["status"] == "approved"
    closed(decide(at, asked["approval_id"], "reject"), 409, "approval_already_decided")
    grant = at.must(at.authorize(), 201)
    assert grant["approval_id"] == asked["approval_id"]
    shown = at.must(at.call("GET", f"{at.project}/automation-approvals?status=approved", who="member"), 200)
    assert [item["approval_id"] for item in shown["approvals"]] == [asked["approval_id"]]
    closed(at.call("GET", f"{at.project}/automation-approvals"), 403, "principal_not_allowed")


def test_a_rejection_stands_for_the_run(at: HttpScene) -> None:
    at.running()
    asked = at.must(ask(at), 201)
    at.must(decide(at, asked["approval_id"], "reject"), 200)
    closed(at.authorize(), 409, "approval_rejected")
    closed(ask(at), 409, "approval_rejected")


def test_what_is_pending_lapses_with_authority_and_with_the_run(at: HttpScene) -> None:
    """The list says so at once, and a decision comes too late."""
    at.running()
    asked = at.must(ask(at), 201)
    at.pause()
    path = f"{at.project}/automation-approvals"
    shown = at.must(at.call("GET", f"{path}?status=cancelled", who="owner"), 200)
    assert [item["approval_id"] for item in shown["approvals"]] == [asked["approval_id"]]
    assert at.must(at.call("GET", f"{path}?status=pending", who="owner"), 200)["approvals"] == []
    closed(decide(at, asked["approval_id"]), 409, "approval_already_decided")
    at.enable()
    fresh = at.must(ask(at), 201)
    assert fresh["approval_id"] != asked["approval_id"]
    at.must(at.post(f"{at.path}/cancel", {}, who="owner"), 200)
    closed(decide(at, fresh["approval_id"]), 409, "approval_already_decided")
    listed = at.must(at.call("GET", f"{path}?run_id={at.run_id}", who="owner"), 200)["approvals"]
    assert [item["status"] for item in listed] == ["cancelled", "cancelled"]


def test_the_bounds_of_a_request(at: HttpScene) -> None:
    at.running()
    closed(ask(at, evidence={"x": "y" * 16384}), 400, "invalid_payload")
    closed(ask(at, summary=""), 400, "invalid_payload")
    closed(ask(at, summary="s" * 2001), 400, "invalid_payload")
    closed(ask(at, action="merge"), 400, "invalid_payload")
    closed(ask(at, urgent=True), 400, "invalid_payload")
    at.must(ask(at, evidence={"x": "y" * (16384 - len('{"x":""}'))}), 201)
    closed(decide(at, "appr_" + "0" * 26), 404, "approval_not_found")
