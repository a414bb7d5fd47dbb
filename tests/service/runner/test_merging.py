"""Auto-merge, carried out by the host under a grant of its own, and proven by CI step by step (R-AUT-40, G-189)."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from service.runner.hosts import method_of_gitlab
from service.testing.loopback import Given
from tests.service.runner.conftest import Open
from tests.service.runner.test_loop import KINDS
from tests.support import long_after
from tests.support.runner.workplace import REPAIR, Workplace

pytestmark = pytest.mark.shares_server
KILLED = -signal.SIGKILL
BRIEF = ("--checks", "1")
LONG = ("--checks", "120")


def branch(place: Workplace) -> str:
    return f"repair/{place.run()['run_id']}"


@contextmanager
def holding(place: Workplace) -> Iterator[None]:
    """CI's job on the pull request: it proves, holds the merge back, and ends well once auto-merge is on."""
    with place.begin_proof("--branch", branch(place), "--wait", "120", "--gate", "prove") as job:
        yield
        assert job.stdout is not None
        place.proved = job.stdout.read()
    assert job.returncode == 0, place.proved


def opened_ready(opened: Open, kind: str = "github") -> tuple[Workplace, Any]:
    """A workplace whose pull request is open and ready, while its runner waits for the checks."""
    place = opened(kind, mode="auto_merge")
    process = place.begin(*LONG)
    assert process.stdout is not None
    assert any("waits for the checks" in line for line in process.stdout)
    return place, process


def ended(place: Workplace, process: Any) -> int:
    """Wait for the end of a runner; returns its exit code."""
    place.output = process.stdout.read()
    process.stdout.close()
    assert "Traceback" not in place.output, place.output
    code: int = process.wait()
    return code


def proven(place: Workplace) -> str | None:
    told = place.run()["provider_proof"]
    return None if told is None else str(told["observation"])


@pytest.mark.parametrize("kind", long_after(1, KINDS))
def test_the_host_merges_and_the_runner_never(opened: Open, kind: str) -> None:
    """Ready, checks, readiness, second grant, the host's own auto-merge, receipt, merge, deploy."""
    place, runner = opened_ready(opened, kind)
    [pull] = place.host.pulls
    assert pull.draft is False
    place.host.check(build="success")
    with holding(place):
        place.host.check(test="success")
        assert ended(place, runner) == 0, place.output
    assert "turned the host's auto-merge on" in place.output
    run = place.run()
    assert run["auto_merge_receipt"]["merge_method"] == "squash"
    assert run["auto_merge_receipt"]["head_sha"] == run["pull_request"]["head_sha"]
    assert [grant["kind"] for grant in run["grants"]] == ["draft_pr", "auto_merge"]
    assert (place.host.turned_on, place.host.merged) == (1, []), "nothing is merged before CI's own check has ended"
    place.host.check(prove="success")
    assert place.host.merged == [branch(place)]
    assert place.prove("--gate", "prove") == 0, place.proved
    run = place.run()
    assert (run["provider_proof"]["observation"], run["provider_proof"]["bypass_used"]) == ("merged", False)
    commit = place.host.branch("main")
    assert run["pull_request"]["merge_commit_sha"] == commit
    assert place.start() == 0
    assert "waits for CI to prove the merge and to record the deploy" in place.output
    assert place.scene.deploy(commit) == run["run_id"]


@pytest.mark.release
@pytest.mark.parametrize("kind", KINDS)
def test_it_dies_around_every_request_and_goes_on(opened: Open, kind: str) -> None:
    """Before and after each write and each read, from the receipt to auto-merge. It is turned on once."""
    place = opened(kind, mode="auto_merge")
    place.faults.mode, place.faults.spared = "kill", ("/consume",)
    codes = []
    while place.host.pulls == [] or place.run()["status"] is None:
        codes.append(place.start(*LONG))
    place.host.check(build="success", test="success")
    with holding(place):
        codes += place.until_done(*LONG)
    assert set(codes) == {KILLED, 0}
    assert len(codes) > 20, place.faults.kills
    assert place.host.turned_on == 1
    assert place.run()["auto_merge_receipt"] is not None
    assert len(place.run()["grants"]) == 2


@pytest.mark.parametrize("kind", long_after(1, KINDS))
def test_lost_answers_turn_nothing_on_twice(opened: Open, kind: str) -> None:
    place, runner = opened_ready(opened, kind)
    place.faults.mode, place.faults.spared = "lose", ("GET", "/consume")
    place.host.check(build="success", test="success")
    with holding(place):
        assert ended(place, runner) == 0, place.output
    assert any("graphql" in step.name or step.name.endswith("/merge") for step in place.faults.lost), place.faults.lost
    assert place.host.turned_on == 1


def test_who_was_not_told_that_it_may_call_turns_nothing_on(opened: Open) -> None:
    """The answer to the second consume is lost: nobody may turn auto-merge on any more (R-AUT-32)."""
    place, runner = opened_ready(opened)
    place.faults.mode = "lose"
    place.faults.only = ("/auto-merge/consume",)
    place.host.check(build="success", test="success")
    with place.begin_proof("--branch", branch(place), "--wait", "120", "--gate", "prove") as job:
        assert ended(place, runner) == 1, place.output
        place.host.close_pull("ada")
        assert job.stdout is not None
        job.stdout.read()
    assert job.returncode == 1
    run = place.run()
    assert (run["status"], place.host.turned_on) == ("escalated", 0)
    assert "Nobody may turn it on now" in run["reason"]


def test_a_red_check_goes_to_a_person(opened: Open) -> None:
    place, runner = opened_ready(opened)
    place.host.check(build="success", test="failure")
    assert ended(place, runner) == 1
    assert "These required checks did not succeed: test." in place.run()["reason"]
    assert place.prove("--branch", branch(place), "--wait", "60", "--gate", "prove") == 1, place.proved
    assert "These required checks did not succeed: test (failure)." in place.proved
    assert place.host.turned_on == 0


@pytest.mark.parametrize("kind", long_after(1, KINDS))
def test_checks_that_never_end_go_to_a_person(opened: Open, kind: str) -> None:
    place = opened(kind, mode="auto_merge")
    place.host.check(build="success")
    assert place.start(*BRIEF) == 1
    run = place.run()
    assert (run["status"], run["phase"]) == ("escalated", "external_follow_up_required")
    assert "These required checks did not end within 1 s: test." in run["reason"]


@pytest.mark.parametrize("kind", long_after(1, KINDS))
def test_without_protection_the_service_refuses(opened: Open, kind: str) -> None:
    """Readiness is not proven, whatever the checks say, and so nothing is ever turned on."""
    place, runner = opened_ready(opened, kind)
    place.host.protected = False
    place.host.check(build="success", test="success")
    assert place.prove("--branch", branch(place), "--wait", "1", "--gate", "prove") == 1
    assert "checks_passed" in place.proved or "cannot read which checks" in place.proved, place.proved
    assert proven(place) == "pr_opened"
    runner.terminate()
    ended(place, runner)
    assert place.host.turned_on == 0


@pytest.mark.parametrize(("kind", "hidden"), [("github", "rule-suites"), ("gitlab", "protected_branches")])
def test_a_fact_that_the_token_may_not_read_is_refused_by_name(opened: Open, kind: str, hidden: str) -> None:
    """It is sent as null. In auto-merge, the service wants it."""
    place, runner = opened_ready(opened, kind)
    place.host.hidden = {hidden}
    place.host.check(build="success", test="success")
    assert place.prove("--branch", branch(place), "--wait", "60", "--gate", "prove") == 1
    assert "checks_passed was refused: invalid_payload" in place.proved
    runner.terminate()
    ended(place, runner)


@pytest.mark.parametrize("kind", long_after(1, KINDS))
def test_a_head_that_moved_is_not_merged(opened: Open, kind: str) -> None:
    """A person pushes to the branch while the runner waits. Where the host merges, that is a head of nobody's grant."""
    place, runner = opened_ready(opened, kind)
    place.host.push(branch(place))
    assert ended(place, runner) == 1
    assert "has another commit than the granted one" in place.run()["reason"]
    assert place.prove("--branch", branch(place), "--wait", "60", "--gate", "prove") == 1, place.proved
    assert "was granted to nobody" in place.proved
    assert place.host.turned_on == 0


def test_a_grant_that_is_refused_turns_nothing_on(opened: Open) -> None:
    """The owner pauses all automation after CI has proven readiness."""
    place, runner = opened_ready(opened)
    place.host.check(build="success", test="success")
    refusal = b'{"error": {"code": "automation_paused", "message": "Paused.", "details": {"allowed_next": []}}}'
    place.relay.answers["/actions/auto-merge/authorize"] = [Given(409, refusal)] * 3
    with place.begin_proof("--branch", branch(place), "--wait", "5", "--gate", "prove") as job:
        code = ended(place, runner)
        assert job.stdout is not None
        place.proved = job.stdout.read()
    assert (code, job.returncode) == (1, 1)
    assert "automation_paused" in place.output
    assert "Auto-merge was not turned on within" in place.proved
    assert place.host.turned_on == 0


@pytest.mark.parametrize("kind", long_after(1, KINDS))
def test_where_nothing_holds_the_merge_back_nothing_is_turned_on(opened: Open, kind: str) -> None:
    """GitHub refuses then, and GitLab would merge at once."""
    place, runner = opened_ready(opened, kind)
    place.host.required = ["build", "test"]
    place.host.check(build="success", test="success")
    assert place.prove("--branch", branch(place), "--gate", "prove") == 0, place.proved
    assert proven(place) == "checks_passed"
    assert ended(place, runner) == 1
    run = place.run()
    assert run["status"] == "escalated"
    assert ("clean status" if kind == "github" else "holds the merge back: mergeable") in run["reason"]
    assert (place.host.turned_on, place.host.merged) == (0, [])


def test_what_a_person_turned_off_stays_off(opened: Open) -> None:
    """Before CI has proven it: the runner had its one call."""
    place, runner = opened_ready(opened)
    place.host.check(build="success", test="success")
    assert place.prove("--branch", branch(place), "--gate", "prove") == 0, place.proved
    assert ended(place, runner) == 0, place.output
    assert place.start() == 0
    assert "waits for CI to prove that auto-merge is on" in place.output
    place.host.pulls[0].merges_by = None
    assert place.start() == 1
    run = place.run()
    assert (run["status"], place.host.turned_on) == ("escalated", 1)
    assert "Somebody turned auto-merge off" in run["reason"]


@pytest.mark.parametrize(
    ("settings", "squash", "method"),
    [
        ({"merge_method": "merge", "squash_option": "default_off"}, True, "squash"),
        ({"merge_method": "merge", "squash_option": "never"}, True, "merge"),
        ({"merge_method": "merge", "squash_option": "default_on"}, False, "merge"),
        ({"merge_method": "ff", "squash_option": "default_off"}, False, "rebase"),
        ({"merge_method": "ff", "squash_option": "always"}, False, "squash"),
    ],
)
def test_the_settings_of_a_project_decide_how_gitlab_merges(settings: Any, squash: bool, method: str) -> None:
    assert method_of_gitlab(settings, squash=squash) == method


@pytest.mark.parametrize("wished", long_after(1, ["draft: a price", "Draft a price", "(WIP) a price"]))
def test_a_title_makes_no_draft_of_what_is_ready(opened: Open, wished: str) -> None:
    """GitLab takes some titles for drafts."""
    place = opened("gitlab", mode="auto_merge")
    place.repairs(f"{REPAIR}\necho '{wished}' > \"$SERVICE_TITLE_FILE\"")
    assert place.start(*BRIEF) == 1, place.output
    [pull] = place.host.pulls
    assert pull.title.startswith("Repair: ")
