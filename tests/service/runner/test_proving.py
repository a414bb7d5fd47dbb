"""What CI proves of a pull request that people merge: read at the host, and null where it may not be read (G-189)."""

from __future__ import annotations

import subprocess

import pytest

from tests.service.runner.conftest import Open
from tests.service.runner.test_loop import KINDS
from tests.support import long_after
from tests.support.runner.host import WEB
from tests.support.runner.workplace import Workplace, git

pytestmark = pytest.mark.shares_server


def drafted(opened: Open, kind: str) -> Workplace:
    """A workplace with an open draft."""
    place = opened(kind)
    assert place.start() == 0, place.output
    return place


@pytest.mark.parametrize("kind", long_after(1, KINDS))
def test_what_the_token_may_not_read_is_shown_as_not_observed(opened: Open, kind: str) -> None:
    """In review_required that is enough, and the proof repeats."""
    place = drafted(opened, kind)
    place.host.hidden = {"rule-suites", "branches"}
    assert [place.prove(), place.prove()] == [0, 0], place.proved
    seen = place.run()["provider_proof"]
    assert (seen["observation"], seen["draft"]) == ("pr_opened", True)
    assert (seen["bypass_used"], seen["branch_protection_enforced"]) == (None, None)


@pytest.mark.parametrize("kind", long_after(1, KINDS))
def test_a_closing_and_a_reopening_are_seen_without_a_branch(opened: Open, kind: str) -> None:
    """With the name of the person. The host starts nothing for them at GitLab, and the schedule looks."""
    place = drafted(opened, kind)
    assert place.prove() == 0, place.proved
    assert place.run()["provider_proof"]["branch_protection_enforced"] is True
    place.host.close_pull("ada")
    assert place.prove() == 0, place.proved
    run = place.run()
    assert (run["status"], run["reason"]) == ("failed", "closed_unmerged")
    assert run["provider_proof"]["closed_by"] == "ada"
    place.host.reopen("ada")
    assert place.prove() == 0, place.proved
    assert place.run()["provider_proof"]["observation"] == "reopened"


@pytest.mark.parametrize("kind", long_after(1, KINDS))
def test_a_merge_by_a_person_names_the_commits_that_people_added(opened: Open, kind: str) -> None:
    """A person pushes to the draft, which fails no job, and merges it (G-186)."""
    place = drafted(opened, kind)
    branch = f"repair/{place.run()['run_id']}"
    assert place.prove("--branch", branch, "--wait", "60") == 0, place.proved
    added = place.host.push(branch)
    assert place.prove("--branch", branch, "--wait", "60") == 0, place.proved
    assert "pr_opened was refused: pr_proof_mismatch" in place.proved
    place.host.merge()
    assert place.prove("--branch", branch) == 0, place.proved
    run = place.run()
    assert (run["status"], run["reason"]) == ("escalated", "merged_changed_by_person")
    assert run["provider_proof"]["commits"] == [added]


@pytest.mark.parametrize("kind", long_after(1, KINDS))
def test_a_merge_as_it_was_granted_is_proven_with_its_commit(opened: Open, kind: str) -> None:
    place = drafted(opened, kind)
    assert place.prove() == 0, place.proved
    place.host.check(build="success", test="success", prove="success")
    commit = place.host.merge()
    assert [place.prove(), place.prove()] == [0, 0], place.proved
    run = place.run()
    assert (run["provider_proof"]["observation"], run["pull_request"]["merge_commit_sha"]) == ("merged", commit)
    assert place.scene.deploy(commit) == run["run_id"]


def test_only_branches_of_repairs_are_looked_at(opened: Open) -> None:
    """Another branch is none of its business, and a wrong credential fails the job."""
    place = drafted(opened, "github")
    assert place.prove("--branch", "feature") == 0
    assert place.proved == ""
    assert place.prove(SERVICE_CI_API_KEY="service_ci_wrong") == 1
    assert "observation was refused" in place.proved


def ids_of(place: Workplace, head: str) -> dict[str, str]:
    """What git calls the tree and the change of a commit."""
    change = git(place.bare, "diff", f"{head}^", head) + "\n"
    named = subprocess.run(["git", "patch-id", "--stable"], input=change, check=True, capture_output=True, text=True)
    return {"tree_sha": git(place.bare, "rev-parse", f"{head}^{{tree}}"), "patch_id": named.stdout.split()[0]}


@pytest.mark.parametrize("kind", KINDS)
def test_runner_and_ci_tell_gits_ids_of_the_change(opened: Open, kind: str) -> None:
    """The base may have moved meanwhile. What CI knows already is not read again."""
    place = drafted(opened, kind)
    [asked] = place.bodies("/actions/draft-pr/authorize")
    ids = ids_of(place, asked["head_sha"])
    assert {name: asked[name] for name in ids} == ids
    place.host.push("main")
    assert place.prove(SERVICE_URL=place.service_url) == 0, place.proved
    first, second = place.bodies("/pull-request-observations")
    assert "tree_sha" not in first, "the head is told before its objects are fetched"
    [proof] = place.bodies("/pr-proof")
    assert {name: second[name] for name in ids} == {name: proof[name] for name in ids} == ids
    assert place.prove("--remote", "/nowhere", SERVICE_URL=place.service_url) == 0, place.proved
    assert len(place.bodies("/pull-request-observations")) == 3
    assert place.bodies("/pr-proof") == [proof, proof]


def test_without_git_the_pull_request_is_told_without_its_ids(opened: Open) -> None:
    place = drafted(opened, "github")
    assert place.prove("--remote", "/nowhere") == 0, place.proved
    assert "is told without its tree" in place.proved
    assert place.run()["provider_proof"]["observation"] == "pr_opened"


def test_a_twin_fails_the_job_with_the_address_of_the_other(opened: Open) -> None:
    place = drafted(opened, "github")
    [asked] = place.bodies("/actions/draft-pr/authorize")
    twin = {"pr_number": 90, "pr_url": f"{WEB}/pull/90", "head_branch": "by-hand", "state": "open"}
    shared = {name: asked[name] for name in ("repository", "base_branch", "head_sha", "patch_id")}
    place.scene.must(place.scene.post(f"{place.scene.project}/pull-request-observations", shared | twin, who="ci"), 201)
    assert place.prove() == 1
    assert "pr_opened was refused: duplicate_patch: " in place.proved
    assert f"({WEB}/pull/90)" in place.proved
