"""Proof and deploys over HTTP: trusted CI alone, exact commits (G-110)."""

from __future__ import annotations

import pytest

from tests.support.automation_world import closed
from tests.support.loop.bodies import HEAD, MERGED
from tests.support.loop.http_scene import HttpScene

pytestmark = pytest.mark.shares_server


def test_only_ci_proves(at: HttpScene) -> None:
    """No owner, member, runner or DSN can; a CI credential of another project sees nothing (R-AUT-43)."""
    at.delivered()
    for who in ("owner", "member", "heal"):
        closed(at.prove(who=who), 403, "principal_not_allowed")
    assert at.prove(who="stranger").status_code == 403
    extra = at.prove(observed_at=1)
    closed(extra, 400, "invalid_payload")
    closed(at.prove("approved"), 400, "invalid_payload")
    closed(at.prove("merged"), 409, "pr_proof_required")
    closed(at.prove(head_sha="d" * 40), 409, "pr_proof_mismatch")
    closed(at.prove(draft=False), 409, "pr_proof_mismatch")
    first = at.must(at.prove(), 201)
    assert at.must(at.prove(), 200)["proof_id"] == first["proof_id"]
    closed(at.prove(pr_number=8), 409, "pr_proof_mismatch")
    closed(at.prove("checks_passed"), 409, "delivery_mode_mismatch")


def test_a_deploy_binds_by_the_whole_proven_commit(at: HttpScene) -> None:
    at.delivered()
    assert at.deploy() is None, "nothing is proven yet"
    at.must(at.prove(), 201)
    assert at.deploy(HEAD[:12]) is None
    assert at.deploy(who="dsn") is None
    assert at.deploy() == at.run_id
    assert at.deploy() is None, "a run has one deploy"
    run = at.run()
    assert (run["status"], run["deploy"]["sha"], run["verification"]["outcome"]) == ("verifying", HEAD, "pending")
    [newest, *_] = at.must(at.call("GET", f"{at.project}/deploys", who="owner"), 200)["deploys"]
    assert newest["automation_run_id"] is None


def test_after_a_merge_the_merge_commit_counts(at: HttpScene) -> None:
    at.delivered()
    at.must(at.prove(), 201)
    at.must(at.prove("merged"), 201)
    assert at.deploy(HEAD) is None
    assert at.deploy(MERGED) == at.run_id


def test_the_files_that_ci_saw_are_held_to_the_scope(at: HttpScene) -> None:
    """Whatever the runner had listed; without a list the proof stands, and the run says so (G-147)."""
    at.delivered()
    refused = closed(at.prove(files_changed=["src/cart.py", ".github/workflows/ci.yml"]), 409, "pr_proof_mismatch")
    assert refused["details"]["field"] == "files_changed"
    assert refused["details"]["violations"] == [{"rule": "path_outside_scope", "file_index": 1}]
    closed(at.prove(files_changed=[]), 400, "invalid_payload")
    closed(at.prove(files_changed=["src/a"] * 1001), 400, "invalid_payload")
    many = closed(at.prove(files_changed=[f"lib/{n}" for n in range(1000)]), 409, "pr_proof_mismatch")["details"]
    assert (len(many["violations"]), many["violation_count"]) == (100, 1001)
    assert at.run()["scope_checked"] is False
    listed = ["src/cart.py", "tests/test_cart.py"]
    assert at.must(at.prove(files_changed=listed), 201)["run"]["scope_checked"] is True
    at.must(at.prove(files_changed=listed), 200)
    for other in ({}, {"files_changed": listed[:1]}):
        assert closed(at.prove(**other), 409, "pr_proof_mismatch")["details"] == {"field": "files_changed"}
    assert at.run()["scope_checked"] is True


def test_a_proof_without_a_list_of_files_stands(at: HttpScene) -> None:
    at.delivered()
    proven = at.must(at.prove(), 201)
    assert (proven["run"]["scope_checked"], at.must(at.prove(), 200)["proof_id"]) == (False, proven["proof_id"])
    closed(at.prove(files_changed=["src/cart.py"]), 409, "pr_proof_mismatch")
    assert at.must(at.prove("merged", files_changed=["src/cart.py"]), 201)["run"]["scope_checked"] is True
