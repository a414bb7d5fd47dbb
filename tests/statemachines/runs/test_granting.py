"""Grants and proof: one bounded pull request, spent once, proven by CI, deployed, verified (G-109 to G-111)."""

from __future__ import annotations

import pytest

from statemachines.contracts.documents import Document
from tests.support.loop.bodies import HEAD, MERGED
from tests.support.loop.contracts import READY, make
from tests.support.loop.scene import CASE_ID, Scene

REVIEW, AUTO = make("review_required"), make("auto_merge")


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


# ---- proof


@pytest.mark.parametrize(
    "change",
    [
        {"repository": "https://code.example/acme/other"}, {"head_branch": "heal/2"}, {"base_branch": "develop"},
        {"head_sha": "d" * 40}, {"draft": False},
    ],
)  # fmt: skip
def test_a_pull_request_that_is_not_the_granted_one_proves_nothing(change):
    at = scene().delivered()
    assert at.prove(at.observed(**change)).code == "pr_proof_mismatch"
    assert at.standing() == ("provider_proof_pending", None)


def test_proof_comes_in_order_and_repeats_to_the_same_answer():
    at = scene().running()
    assert at.prove(at.observed()).code == "pr_proof_required"
    at.consume(at.grant())
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED)).code == "pr_proof_required"
    first = at.prove(at.observed())
    assert first.status == 201
    again = at.prove(at.observed())
    assert (again.status, again.body["proof_id"]) == (200, first.body["proof_id"])
    assert at.prove(at.observed(pr_number=8)).code == "pr_proof_mismatch"
    assert at.prove(at.ready()).code == "delivery_mode_mismatch"
    assert at.run()["grants"][0]["status"] == "settled"
    assert at.standing() == ("provider_proof_pending", "draft_pr_opened")


def test_a_runner_reports_and_ci_has_the_last_word():
    at = scene().delivered()
    reported = {"number": 8, "url": "https://code.example/acme/shop/pull/8", "head_sha": HEAD}
    body = {"status": "draft_pr_opened", "pull_request": reported}
    assert at.act("patch", body | {"pull_request": reported | {"head_sha": "d" * 40}}).code == "pr_proof_mismatch"
    assert at.act("patch", body).body["status"] == "draft_pr_opened"
    assert at.act("patch", body).ok, "the same report again"
    assert at.act("patch", body | {"pull_request": reported | {"number": 9}}).code == "pr_proof_mismatch"
    assert at.deploy() is None, "a runner's word proves no commit"
    assert at.prove(at.observed()).ok
    assert at.run()["pull_request"]["number"] == 7


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"required_status_checks": [{"name": "build", "conclusion": "success"}]}, "pr_proof_mismatch"),
        ({"required_status_checks": [{"name": name, "conclusion": "success"} for name in ("build", "test", "more")]},
         "pr_proof_mismatch"),
        ({"required_status_checks": [{"name": "build", "conclusion": "success"},
                                     {"name": "test", "conclusion": "failure"}]}, "pr_proof_mismatch"),
        ({"branch_protection_enforced": False}, "pr_proof_mismatch"),
        ({"branch_protection_enforced": None}, "pr_proof_mismatch"),
        ({"bypass_used": True}, "pr_proof_mismatch"),
        ({"auto_merge_enabled": True}, "pr_proof_mismatch"),
        ({"draft": True}, "pr_proof_mismatch"),
        ({"head_sha": "d" * 40}, "pr_proof_mismatch"),
        ({"pr_number": 8}, "pr_proof_mismatch"),
    ],
)  # fmt: skip
def test_readiness_is_exact(change, code):
    at = scene(AUTO).opened()
    assert at.prove(at.ready(**change)).code == code
    assert at.act("authorize", {"binding": MERGE}, kind="auto_merge").code == "pr_proof_required"


MERGE = {"pr_number": 7, "head_sha": HEAD, "merge_method": "squash"}


def merge(at: Scene, **change):
    return at.act("authorize", {"binding": MERGE | change}, kind="auto_merge")


def test_auto_merge_goes_through_its_own_grant_and_receipt():
    at = scene(AUTO).opened()
    assert at.run()["pull_request"]["draft"] is False
    assert at.deploy() is None, "an unmerged head counts only where people merge"
    assert merge(at).code == "pr_proof_required"
    assert at.prove(at.ready()).ok
    assert merge(at, merge_method="rebase").code == "delivery_mode_mismatch"
    assert merge(at, head_sha="d" * 40).code == "pr_proof_mismatch"
    assert merge(at, pr_number=8).code == "pr_proof_mismatch"
    on = at.observed("auto_merge_enabled", auto_merge_enabled=True, merge_method="squash")
    assert at.prove(on).code == "pr_proof_required", "nobody was allowed to turn it on yet"
    granted = merge(at)
    assert granted.status == 201
    assert merge(at).status == 200
    assert at.consume(granted.body["grant_id"], "auto_merge").body["call_authorized"]
    assert not at.consume(granted.body["grant_id"], "auto_merge").body["call_authorized"]
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED)).code == "pr_proof_required"
    assert at.prove(on | {"merge_method": "rebase"}).code == "pr_proof_mismatch"
    assert at.prove(on).ok
    assert at.run()["auto_merge_receipt"]["merge_method"] == "squash"
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED, bypass_used=True)).code == "pr_proof_mismatch"
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED)).ok
    assert at.deploy(HEAD) is None
    assert at.deploy(MERGED) == at.run_id


def test_review_required_never_merges_by_itself():
    at = scene().opened()
    assert merge(at).code == "delivery_mode_mismatch"
    assert at.prove(at.observed("auto_merge_enabled", auto_merge_enabled=True)).code == "delivery_mode_mismatch"


@pytest.mark.parametrize("outcome", ["failed", "escalated", "cancelled"])
def test_late_proof_settles_but_revives_nothing(outcome: str):
    at = scene().delivered()
    if outcome == "cancelled":
        at.must("cancel", who="canceller", key="c", run_id=at.run_id)
    else:
        at.act("patch", {"status": outcome, "reason": "r"})
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED)).code == "pr_proof_required"
    assert at.prove(at.observed()).status == 201
    assert at.standing() == ("stopped", outcome)
    assert at.run()["grants"][0]["status"] == "settled"
    assert at.run()["external_follow_ups"] == []
    assert at.deploy() is None
    assert at.verify().code == "run_terminal"
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED)).code == "run_terminal"
    assert at.prove(at.observed()).status == 200, "an exact repeat is answered still"


def test_what_was_opened_before_a_cancel_is_closed_by_the_proof_of_its_merge():
    at = scene(AUTO).opened()
    at.prove(at.ready())
    at.consume(merge(at).body["grant_id"], "auto_merge")
    at.must("cancel", who="canceller", key="c", run_id=at.run_id)
    kinds = [item["kind"] for item in at.run()["external_follow_ups"]]
    assert kinds == ["inspect_pull_request", "inspect_ci", "inspect_auto_merge"]
    assert at.prove(at.observed("auto_merge_enabled", auto_merge_enabled=True, merge_method="squash")).ok
    assert at.standing() == ("external_follow_up_required", "cancelled")
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED)).ok
    assert at.standing() == ("stopped", "cancelled")


def test_proof_that_comes_after_the_thirty_days_settles_the_run_as_it_is_by_then():
    at = scene().delivered()
    at.wait(2592000)
    assert at.prove(at.observed()).status == 201
    assert at.standing() == ("stopped", "failed")


# ---- deploy and verification


@pytest.mark.parametrize(("sha", "bound"), [(HEAD, True), (HEAD[:12], False), ("d" * 40, False), (MERGED, False)])
def test_only_the_proven_commit_in_full_binds(sha, bound):
    at = scene().opened()
    assert (at.deploy(sha) is not None) is bound


def test_after_a_merge_only_the_merge_commit_counts():
    at = scene().opened()
    at.prove(at.observed("merged", merge_commit_sha=MERGED))
    assert at.deploy(HEAD) is None
    assert at.deploy(MERGED) == at.run_id


def test_a_deploy_binds_while_everything_is_stopped():
    at = scene().opened()
    at.pause()
    assert at.deploy() == at.run_id


def test_traffic_without_recurrence_succeeds_and_closes_the_case():
    at = scene().opened()
    assert at.verify().code == "deploy_not_bound"
    assert at.deploy() == at.run_id
    assert at.verify().status == 202
    at.wait(60)
    at.must("traffic", {"count": 2}, who="telemetry")
    assert at.verify().status == 202, "the window is not over"
    at.wait(60)
    done = at.verify()
    assert (done.status, done.body["verification"]["outcome"]) == (200, "no_recurrence")
    assert at.standing() == ("verified_or_reported", "succeeded")
    output = at.run()["output"]
    assert output["deploy"]["sha"] == HEAD
    assert output["verification"] == {
        "outcome": "no_recurrence", "passed": True, "sample": {"event": "checkout_completed", "count": 2, "minimum": 2},
    }  # fmt: skip
    again = at.verify()
    assert (again.status, again.body) == (200, done.body)
    case = next(w.state for w in at.store.streams.values() if w.stream.id == CASE_ID)
    assert (case.status.value, case.revision) == ("resolved", 2)


@pytest.mark.parametrize(
    ("errors", "traffic", "wait", "outcome"),
    [
        (1, 9, 0, "recurred"),
        (1, 9, 120, "recurred"),
        (0, 0, 900, "insufficient_traffic"),
        (0, 1, 900, "insufficient_traffic"),
    ],
)
def test_recurrence_and_silence_fail(errors, traffic, wait, outcome):
    at = scene().deployed()
    at.wait(1)
    if traffic:
        at.must("traffic", {"count": traffic}, who="telemetry")
    at.error(errors)
    at.wait(wait)
    assert at.verify().body["verification"]["outcome"] == outcome
    assert at.standing() == ("stopped", "failed")
    assert at.run()["output"]["verification"]["passed"] is False


def test_silence_is_pending_to_the_last_second_and_the_sweep_ends_it():
    at = scene().deployed()
    at.wait(899)
    assert at.verify().status == 202
    at.wait(1)
    at.must("sweep", who="sweep")
    assert at.standing() == ("stopped", "failed")


def test_traffic_after_the_deadline_comes_too_late():
    at = scene().deployed()
    at.wait(901)
    at.must("traffic", {"count": 9}, who="telemetry")
    assert at.verify().body["verification"]["outcome"] == "insufficient_traffic"
