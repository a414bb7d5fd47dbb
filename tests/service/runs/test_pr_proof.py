"""Proof and deploys over HTTP: trusted CI alone, exact commits (G-110)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from statemachines.runs import events as e
from tests.support.automation_world import closed
from tests.support.loop import bodies
from tests.support.loop.bodies import HEAD, MERGED
from tests.support.loop.http_port import HttpPort
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.loop.rules import Rules
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server


def foreign_ci(at: HttpScene) -> None:
    """Make a CI credential of another project, by the name of `foreign`."""
    path = f"/v1/projects/{at.world.other_project_id}/credentials"
    made = at.post(path, {"kind": "ci_deploy", "name": "foreign"}, who="stranger")
    at.world.secrets["foreign"] = at.must(made, 200)["credential"]


def test_only_ci_proves(at: HttpScene) -> None:
    """No owner, member, runner or DSN can; a CI credential of another project sees nothing (R-AUT-43)."""
    at.delivered()
    for who in ("owner", "member", "heal"):
        closed(at.prove(who=who), 403, "principal_not_allowed")
    assert at.prove(who="stranger").status_code == 403
    foreign_ci(at)
    closed(at.prove(who="foreign"), 404, "run_not_found")
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


OTHERS = ["7" * 40, "8" * 40]
CHANGED = {"head_sha": "8" * 40, "commits": [HEAD, *OTHERS]}
"""A person pushed two commits to it, and merged."""
CLOSED = {"merged": False, "closed_by": "ada", "head_sha": "8" * 40}
"""A person pushed a commit, and closed the pull request without a merge."""
JOBS = 8


def test_a_closing_ends_the_run_and_comments_on_its_case(at: HttpScene) -> None:
    """Once, whoever tells it again; the runner that was at work is told that the run is over (G-187)."""
    at.delivered(cooldown_seconds=600)
    stale = at.token()
    at.must(at.prove(), 201)
    first = at.must(at.prove("closed", key="closed", **CLOSED), 201)
    run = first["run"]
    assert (run["phase"], run["status"], run["reason"]) == ("stopped", "failed", "closed_unmerged")
    assert (run["provider_proof"]["closed_by"], run["finished_at"]) == ("ada", first["recorded_at"])
    again = at.prove("closed", key="closed", **CLOSED)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    assert at.must(at.prove("closed", **CLOSED), 200)["proof_id"] == first["proof_id"]
    closed(at.call("PATCH", at.path, stale | {"status": "escalated", "reason": "r"}), 409, "run_terminal")
    closed(at.prove("merged"), 409, "run_terminal")
    assert at.must(at.prove("reopened"), 201)["run"]["status"] == "failed"
    case = at.must(at.call("GET", f"/v1/cases/{at.case_id}", who="owner"), 200)
    [comment] = case["comments"]
    assert comment["user_id"] == "system"
    assert comment["text"] == f"Pull request 7 of {at.run_id} was closed without a merge. The run has failed."
    at.error()
    assert [(one["case_id"], one["code"]) for one in at.issue()["skipped"]] == [(at.case_id, "cooldown")]
    at.wait(600)
    assert len(at.issue()["trigger_receipts"]) == 1


def test_a_closing_takes_ci_the_right_pull_request_and_a_word_on_the_merge(at: HttpScene) -> None:
    at.delivered()
    for who in ("owner", "member", "heal"):
        closed(at.prove("closed", who=who, **CLOSED), 403, "principal_not_allowed")
    assert at.prove("closed", who="stranger", **CLOSED).status_code == 403
    foreign_ci(at)
    closed(at.prove("closed", who="foreign", **CLOSED), 404, "run_not_found")
    for wrong in ({"closed_by": ""}, {"closed_by": "a" * 201}, {"closed_by": 1}, {"merged": "no"}, {"closed_at": 1}):
        closed(at.prove("closed", **CLOSED | wrong), 400, "invalid_payload")
    details = closed(at.prove("closed", **CLOSED | {"merged": True}), 409, "pr_proof_mismatch")["details"]
    assert details == {"field": "merged", "expected": False, "actual": True}
    closed(at.prove("closed"), 409, "pr_proof_mismatch")
    closed(at.prove("closed", **CLOSED | {"head_branch": "heal/2"}), 409, "pr_proof_mismatch")
    closed(at.prove("reopened"), 409, "pr_proof_required")
    at.run_id = "run_0123456789abcdefghjkmnpqrs"
    closed(at.prove("closed", **CLOSED), 404, "run_not_found")


@pytest.mark.parametrize("changes", [{}, CHANGED], ids=["as granted", "with commits of people"])
def test_a_closing_and_a_merge_at_once_have_one_winner(at: HttpScene, changes: dict[str, object]) -> None:
    """Whichever the service hears first stands, and the other is refused (G-186, G-187)."""
    at.delivered()
    at.must(at.prove(), 201)
    ready = threading.Barrier(2)
    answers: dict[str, httpx2.Response] = {}

    def tell(observation: str, **changes: object) -> None:
        ready.wait()
        answers[observation] = at.prove(observation, **changes)

    told = [
        threading.Thread(target=tell, args=("closed",), kwargs=CLOSED),
        threading.Thread(target=tell, args=("merged",), kwargs=changes),
    ]
    for one in told:
        one.start()
    for one in told:
        one.join()
    won = [name for name, answer in answers.items() if answer.status_code == 201]
    assert won in (["closed"], ["merged"])
    if won == ["closed"]:
        closed(answers["merged"], 409, "run_terminal")
        assert (at.run()["status"], at.deploy(MERGED)) == ("failed", None)
    elif changes:
        closed(answers["closed"], 409, "run_terminal")
        assert (at.run()["status"], at.deploy(MERGED)) == ("escalated", None)
    else:
        closed(answers["closed"], 409, "pr_proof_mismatch")
        assert at.deploy(MERGED) == at.run_id
    port = HttpPort(at)
    log = port.settled_log()
    port.close()
    Rules().check(log)
    assert sum(isinstance(one.event, e.RunClosed | e.RunMergeProven) for one in log) == 1


@pytest.mark.parametrize(("observation", "told"), [("closed", CLOSED), ("merged", CHANGED), ("reopened", {})])
def test_jobs_that_tell_the_same_at_once_are_heard_once(
    at: HttpScene, observation: str, told: dict[str, object]
) -> None:
    """A job of the branch and those of the schedule see it together: one proof, one end, one comment (G-186, G-187)."""
    at.delivered()
    at.must(at.prove(), 201)
    if observation == "reopened":
        at.must(at.prove("closed", **CLOSED), 201)
    with ThreadPoolExecutor(JOBS) as jobs:
        answers = list(jobs.map(lambda _: at.prove(observation, **told), range(JOBS)))
    assert sorted(answer.status_code for answer in answers) == [*[200] * (JOBS - 1), 201]
    assert len({answer.json()["proof_id"] for answer in answers}) == 1
    comments = at.must(at.call("GET", f"/v1/cases/{at.case_id}", who="owner"), 200)["comments"]
    assert len(comments) == (0 if observation == "merged" else 1)


def test_a_merge_with_other_commits_escalates_the_run_and_its_case_waits_for_a_deploy(at: HttpScene) -> None:
    """The runner that was at work is told that the run is over; each credential but CI's is refused (G-186)."""
    at.delivered(cooldown_seconds=600)
    stale = at.token()
    at.must(at.prove(), 201)
    for who in ("owner", "member", "heal"):
        closed(at.prove("merged", who=who, **CHANGED), 403, "principal_not_allowed")
    foreign_ci(at)
    closed(at.prove("merged", who="foreign", **CHANGED), 404, "run_not_found")
    for wrong in (["7" * 39], ["x" * 40], "7" * 40, ["7" * 40] * 51):
        closed(at.prove("merged", **CHANGED | {"commits": wrong}), 400, "invalid_payload")
    first = at.must(at.prove("merged", key="merged", **CHANGED), 201)
    run = first["run"]
    assert (run["phase"], run["status"], run["reason"]) == ("stopped", "escalated", "merged_changed_by_person")
    proof = run["provider_proof"]
    assert (proof["changed_by_person"], proof["commits"], proof["head_sha"]) == (True, OTHERS, OTHERS[-1])
    again = at.prove("merged", key="merged", **CHANGED)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    assert at.must(at.prove("merged", **CHANGED), 200)["proof_id"] == first["proof_id"]
    closed(at.call("PATCH", at.path, stale | {"status": "escalated", "reason": "r"}), 409, "run_terminal")
    closed(at.call("GET", f"/v1/cases/{at.case_id}/claims/active"), 404, "claim_not_found")

    def code() -> str:
        [item] = at.issue()["skipped"]
        [shown] = at.must(at.call("GET", f"/v1/cases/{at.case_id}", who="owner"), 200)["work"]["automations"]
        assert (item["case_id"], shown["code"]) == (at.case_id, item["code"])
        return str(item["code"])

    at.wait(2)
    at.error()
    assert code() == "merged_waits_for_deploy"
    assert at.deploy(MERGED, who="dsn") is None
    assert at.deploy(MERGED, environment="staging") is None
    at.wait(2)
    at.error()
    assert code() == "merged_waits_for_deploy", "neither was a deploy by CI to where the automation heals"
    assert at.deploy(MERGED) is None, "no deploy binds to it"
    assert code() == "merged_waits_for_deploy"
    at.wait(2)
    at.error()
    assert code() == "cooldown"
    at.wait(600)
    assert len(at.issue()["trigger_receipts"]) == 1


HOST_FACTS = ("branch_protection_enforced", "bypass_used")


def bare(at: HttpScene, observation: str, *without: str, **changes: object) -> httpx2.Response:
    """Prove an observation of auto-merge, without some members."""
    body = bodies.ready("auto_merge") if observation == "checks_passed" else bodies.observed("auto_merge", observation)
    if observation == "auto_merge_enabled":
        body |= {"auto_merge_enabled": True, "merge_method": "squash"}
    if observation == "merged":
        body |= {"merge_commit_sha": MERGED}
    body |= changes
    return at.post(f"{at.path}/pr-proof", {name: body[name] for name in body if name not in without}, who="ci")


def test_auto_merge_needs_what_the_host_says_of_protection(server: ServerHandle) -> None:
    """Each observation without a fact, or with null for it: the field is named, and nothing happens (G-189)."""
    with open_scene(server, "auto_merge") as at:
        at.delivered()
        at.must(at.prove(), 201)
        merge = {"pr_number": 7, "head_sha": HEAD, "merge_method": "squash"}
        steps: dict[str, dict[str, object]] = {"checks_passed": {}, "auto_merge_enabled": {}, "merged": CHANGED}
        for observation, other in steps.items():
            before = at.token()
            for fact in HOST_FACTS:
                missing = closed(bare(at, observation, fact, **other), 400, "invalid_payload")["details"]
                assert missing["missing_fields"] == [fact]
                unread = closed(bare(at, observation, **other | {fact: None}), 400, "invalid_payload")["details"]
                assert [one["field"] for one in unread["invalid_fields"]] == [fact]
            both = closed(bare(at, observation, *HOST_FACTS), 400, "invalid_payload")["details"]
            assert both["missing_fields"] == list(HOST_FACTS)
            assert at.token() == before
            at.must(bare(at, observation), 201)
            if observation == "checks_passed":
                grant = at.must(at.act("actions/auto-merge/authorize", merge), 201)
                at.must(at.consume(grant["grant_id"], "auto-merge"), 200)
        closed(bare(at, "merged", *HOST_FACTS), 409, "pr_proof_mismatch")
        assert at.deploy(MERGED) == at.run_id


def test_what_ci_did_not_observe_is_shown_so_where_people_merge(at: HttpScene) -> None:
    at.delivered()
    for told in (None, False):
        observation = "pr_opened" if told is None else "merged"
        facts = {"branch_protection_enforced": told, "bypass_used": None}
        shown = at.must(at.prove(observation, **facts), 201)["run"]["provider_proof"]
        assert {name: shown[name] for name in HOST_FACTS} == facts
    closed(at.prove("merged", bypass_used="no"), 400, "invalid_payload")
