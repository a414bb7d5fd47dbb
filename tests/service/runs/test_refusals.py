"""Refusals over HTTP speak to clients: operations instead of events, fields with both values, a way out (G-139)."""

from __future__ import annotations

import pytest

from tests.support.automation_world import closed
from tests.support.loop.contracts import contract_of
from tests.support.loop.http_scene import HttpScene

pytestmark = pytest.mark.shares_server


def test_a_step_out_of_turn_is_told_the_operations_that_are_left(at: HttpScene) -> None:
    at.running()
    details = closed(at.patch({"status": "succeeded"}), 409, "run_transition_not_allowed")["details"]
    assert (details["phase"], details["status"]) == ("run_started", None)
    assert {(step["operation_id"], step["method"], step["path"]) for step in details["allowed_next"]} == {
        ("authorize_draft_pr", "POST", f"{at.path}/actions/draft-pr/authorize"),
        ("cancel_automation_run", "POST", f"{at.path}/cancel"),
        ("record_automation_usage", "POST", f"{at.path}/usage"),
        ("request_automation_approval", "POST", f"{at.path}/approvals"),
        ("update_automation_run", "PATCH", at.path),
    }


def test_a_protected_path_says_how_it_is_allowed(at: HttpScene) -> None:
    at.running()
    details = closed(at.authorize(files_changed=["src/AGENTS.md"]), 409, "scope_violation")["details"]
    [violation] = details["violations"]
    assert (violation["rule"], violation["file_index"]) == ("path_protected", 0)
    assert "exact path in scope.allowed_paths" in violation["allowed_by"]


def test_another_delivery_mode_is_named_with_the_policys(at: HttpScene) -> None:
    at.running()
    details = closed(at.authorize(delivery_mode="auto_merge"), 409, "delivery_mode_mismatch")["details"]
    assert details == {"field": "delivery_mode", "expected": "review_required", "actual": "auto_merge"}


def test_a_runner_whose_automation_was_dropped_is_told_that_it_is_off(at: HttpScene) -> None:
    """Not that there is no such automation: there was, and the runner belongs to it (G-114)."""
    at.running()
    world = at.world
    etag = at.must(world.call("GET", world.contract), 200)["etag"]
    at.must(world.call("PUT", world.contract, contract_of(at.mode, "another"), etag=etag), 200)
    renew = at.post(f"/v1/cases/{at.case_id}/claims/{at.claim_id}/renew", {"lease_epoch": 1})
    closed(renew, 409, "automation_disabled")
    closed(at.act("usage", {"turns": 1}), 409, "automation_disabled")
    closed(at.post(f"{at.project}/automation-triggers/issue", {"automation_id": "heal"}), 409, "automation_disabled")
    owner = at.post(f"{at.project}/automation-triggers/issue", {"automation_id": "heal"}, who="owner")
    closed(owner, 404, "automation_not_found")
