"""Refusals over HTTP speak to clients: operations instead of events, fields with both values, a way out (G-139)."""

from __future__ import annotations

import httpx2
import pytest

from schemas.kernel.errors import CATALOGUE
from statemachines.runs.claim import LEASE_SECONDS
from statemachines.runs.grant import GRANT_SECONDS
from tests.support import refusals
from tests.support.automation_world import closed
from tests.support.loop.bodies import HEAD
from tests.support.loop.contracts import contract_of
from tests.support.loop.http_scene import RIVAL, HttpScene, open_scene
from tests.support.server import ServerHandle

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


def told(answer: httpx2.Response, code: str) -> set[str]:
    """The operations that a refusal tells as left."""
    return {step["operation_id"] for step in closed(answer, 409, code)["details"]["allowed_next"]}


ALWAYS = {"record_automation_usage", "update_automation_run", "cancel_automation_run"}


def test_who_waits_for_a_person_or_was_refused_is_told_what_is_left(at: HttpScene) -> None:
    """What the run's state refuses tells its steps, without the one that was refused (G-178)."""
    at.running()
    asked = at.must(at.act("approvals", {"action": "draft_pr", "summary": "May I open it?"}), 201)
    assert told(at.authorize(), "approval_pending") == ALWAYS | {"request_automation_approval"}
    path = f"/v1/automation-approvals/{asked['approval_id']}/decide"
    at.must(at.post(path, {"decision": "reject"}, who="owner"), 200)
    assert told(at.authorize(), "approval_rejected") == ALWAYS | {"request_automation_approval"}
    assert told(at.post(path, {"decision": "approve"}, who="owner"), "approval_already_decided") == set()


def test_a_grant_is_told_while_it_can_be_used(at: HttpScene) -> None:
    at.running()
    asking = ALWAYS | {"request_automation_approval"}
    grant = at.must(at.authorize(), 201)
    assert told(at.authorize(head_sha="d" * 40), "grant_already_authorized") == asking | {"consume_draft_pr"}
    assert told(at.consume("grant_0123456789abcdefghjkmnpqrs"), "grant_not_available") == asking | {"consume_draft_pr"}
    at.wait(GRANT_SECONDS // 2)
    at.must(renew(at), 200)
    at.wait(GRANT_SECONDS // 2)
    assert told(at.consume(grant["grant_id"]), "grant_not_available") == asking | {"authorize_draft_pr"}


def renew(at: HttpScene) -> httpx2.Response:
    return at.post(f"/v1/cases/{at.case_id}/claims/{at.claim_id}/renew", {"lease_epoch": 1})


def test_nothing_is_left_for_a_runner_whose_lease_is_over(at: HttpScene) -> None:
    """Its pull request is outside and a CI may still prove it, but no step of the runner's own is told (G-178)."""
    at.delivered()
    reported = {"number": 7, "url": "https://code.example/acme/shop/pull/7", "head_sha": HEAD}
    opened = {"status": "draft_pr_opened", "pull_request": reported}
    assert told(at.patch({"status": "succeeded"}), "run_transition_not_allowed") == ALWAYS
    at.wait(LEASE_SECONDS)
    assert told(at.patch(opened), "lease_expired") == set()
    assert told(renew(at), "lease_expired") == set()
    assert at.run()["phase"] == "provider_proof_pending"
    at.must(at.post(f"{at.path}/cancel", {}, who="owner"), 200)
    assert told(at.verify(who="owner"), "run_terminal") == set()
    assert told(at.post(f"{at.path}/cancel", {}, who="owner"), "run_terminal") == set()


def test_a_ci_is_told_while_a_run_that_is_over_waits_for_its_proof(server: ServerHandle) -> None:
    """What it says may settle nothing; another proof still does (G-110, G-178)."""
    with open_scene(server, "auto_merge") as at:
        _late_proof(at.delivered())


def _late_proof(at: HttpScene) -> None:
    at.must(at.prove(), 201)
    at.must(at.post(f"{at.path}/cancel", {}, who="owner"), 200)
    assert told(at.prove("checks_passed"), "run_terminal") == {"record_pr_proof"}
    assert told(at.patch({"phase": "running"}), "run_terminal") == set()


def test_a_receipt_is_told_to_be_over_and_not_to_be_another_ones(at: HttpScene) -> None:
    """One that is over leaves nothing to do; one that names another case has its own answer (G-178)."""
    at.prepare()
    at.error(2)
    at.issue()
    mine = at.case_id
    at.error(2, message="Another thing broke")
    assert "details" not in closed(at.claim(), 409, "receipt_not_claimable")
    at.case_id = mine
    at.must(at.claim(), 201)
    at.must(at.start(), 201)
    assert told(at.start("other"), "receipt_already_consumed") == set()
    at.must(at.post(f"{at.path}/cancel", {}, who="owner"), 200)
    assert told(at.claim(who=RIVAL), "receipt_not_claimable") == set()


def test_every_409_says_whether_it_tells_what_is_left() -> None:
    """A new code is put in one of the groups; the clients of all tests hold every refusal to them (G-178)."""
    conflicts = {name for name, code in CATALOGUE.items() if code.status == 409}
    groups = (refusals.STATE_DECIDES, refusals.ANOTHER_DECIDES, refusals.EITHER)
    assert sum(map(len, groups)) == len(conflicts)
    assert frozenset().union(*groups) == conflicts


def test_a_refusal_that_tells_too_much_or_too_little_is_seen() -> None:
    """The judge of the tests' clients can fail."""
    for status, code, details in [
        (409, "run_terminal", {}),
        (409, "stale_state_revision", {"allowed_next": []}),
        (404, "run_not_found", {"allowed_next": []}),
    ]:
        with pytest.raises(AssertionError):
            refusals.judge(status, {"code": code, "details": details})
