"""The next step of a run: the operation that it names is accepted there, in every state of every flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from service.runs import shown as show_run
from service.runs.decision import NextStep, next_step
from service.runs.scope import RunScope
from statemachines.runs import run as runs
from statemachines.runs.steps.book import Book
from statemachines.runs.steps.end_run import as_of
from tests.support.loop.bodies import HEAD, MERGED
from tests.support.loop.contracts import READY, make
from tests.support.loop.memory_port import PROJECT, RUNS
from tests.support.loop.port import Reply
from tests.support.loop.scene import CASE_ID, Scene


def book_of(at: Scene) -> Book:
    row = at.store.row(RUNS, PROJECT, at.run_id)
    assert row is not None
    scope = RunScope.of(row, writes=frozenset())
    return at.port._read(scope.reads, lambda unit: as_of(scope.open(unit), unit.now))


def step_of(at: Scene) -> NextStep:
    """The step, which the run's answer says in the same words."""
    step = next_step(book_of(at))
    assert at.run()["next_action"] == step.words
    return step


def take(at: Scene, step: NextStep) -> Reply:
    """Carry out exactly the operation that the step names."""
    run = book_of(at).run
    draft, merge = run.draft_grant, run.merge_grant
    binding = {"pr_number": 7, "head_sha": HEAD, "merge_method": "squash"}
    deploy = {"sha": run.proven_commit, "environment": "production"}
    carried_out: dict[str | None, Callable[[], Reply]] = {
        "authorize_draft_pr": at.authorize,
        "consume_draft_pr": lambda: at.consume(draft.grant_id),
        "authorize_auto_merge": lambda: at.act("authorize", {"binding": binding}, kind="auto_merge"),
        "consume_auto_merge": lambda: at.consume(merge.grant_id, "auto_merge"),
        "record_pr_proof": lambda: at.prove(observation_of(at, step)),
        "record_deploy": lambda: at.send("deploy", deploy, who="ci"),
        "verify_automation_run": at.verify,
        "decide_automation_approval": lambda: at.send(
            "decide", {"decision": "approve"}, who="owner", approval_id=run.pending_approvals[0].approval_id
        ),
        "update_automation_run": lambda: at.act("patch", {"status": "failed", "reason": "r"}),
        "cancel_automation_run": lambda: at.send("cancel", who="canceller", key="stop", run_id=at.run_id),
    }
    return carried_out[step.operation_id]()


def observation_of(at: Scene, step: NextStep) -> dict[str, Any]:
    assert step.observation is not None
    if step.observation == "checks_passed":
        return at.ready()
    added: dict[str, dict[str, Any]] = {
        "pr_opened": {},
        "auto_merge_enabled": {"auto_merge_enabled": True, "merge_method": "squash"},
        "merged": {"merge_commit_sha": MERGED},
    }
    return at.observed(step.observation, **added[step.observation])


def walk(at: Scene) -> list[str]:
    """Follow the steps until none is left or verification waits; each is accepted and moves the run on."""
    taken = []
    while (step := step_of(at)).operation_id is not None:
        before = at.run()["state_revision"]
        reply = take(at, step)
        assert reply.ok, (step, reply)
        taken.append(step.observation or step.operation_id)
        if reply.status == 202 and step.operation_id == "verify_automation_run":
            break
        assert at.run()["state_revision"] > before, step
    return taken


DRAFT = ["authorize_draft_pr", "consume_draft_pr", "pr_opened"]
SHORT = 300
"""Seconds until the deadline, for less than a lease."""
MERGE = ["checks_passed", "authorize_auto_merge", "consume_auto_merge", "auto_merge_enabled", "merged"]
END = ["record_deploy", "verify_automation_run"]


@pytest.mark.parametrize(("mode", "steps"), [("review_required", DRAFT + END), ("auto_merge", DRAFT + MERGE + END)])
def test_the_named_steps_lead_through_a_flow(mode: str, steps: list[str]) -> None:
    assert walk(Scene(make(mode), READY).running()) == steps


def lapse_lease(at: Scene) -> None:
    at.wait(901)


def lapse_deadline(at: Scene) -> None:
    """The lease lives for 900 seconds."""
    at.wait(SHORT + 1)


def pause_late(at: Scene) -> None:
    at.pause()
    at.wait(901)


@pytest.mark.parametrize("change", [lapse_lease, lapse_deadline, Scene.pause, pause_late])
@pytest.mark.parametrize(("mode", "steps"), [("review_required", DRAFT + END), ("auto_merge", DRAFT + MERGE + END)])
def test_in_every_state_the_step_is_accepted_after_time_or_a_stop_has_gone_over_it(
    mode: str, steps: list[str], change: Callable[[Scene], None]
) -> None:
    """After a consume, neither lease nor deadline ends a run, but its runner can do nothing more in it."""
    for taken in range(len(steps)):
        at = Scene(make(mode, max_runtime_seconds=SHORT), READY).running()
        for _ in range(taken):
            assert take(at, step_of(at)).ok
        change(at)
        walk(at)


def test_what_the_runner_came_too_late_for_is_for_an_owner_to_end() -> None:
    at = Scene(make("auto_merge"), READY).opened()
    assert at.prove(at.ready()).ok
    assert step_of(at).operation_id == "authorize_auto_merge"
    at.wait(880)
    assert take(at, step_of(at)).ok
    at.wait(30)
    assert "cannot be consumed" in at.run()["grants"][-1]["next_action"]
    assert not at.consume(at.run()["grants"][-1]["grant_id"], "auto_merge").ok
    assert not at.act("patch", {"status": "failed", "reason": "r"}).ok
    assert walk(at) == ["cancel_automation_run"]


@pytest.mark.parametrize("mode", ["review_required", "auto_merge"])
def test_a_reported_pull_request_waits_for_its_proof(mode: str) -> None:
    """The runner's word binds no deploy, so the deploy is not the next step."""
    at = Scene(make(mode), READY).delivered()
    reported = {"number": 7, "url": at.observed()["pr_url"], "head_sha": HEAD}
    assert at.act("patch", {"status": "draft_pr_opened", "pull_request": reported}).ok
    assert step_of(at).observation == "pr_opened"
    assert walk(at)[0] == "pr_opened"


def test_after_people_merged_the_merge_commit_is_deployed() -> None:
    at = Scene(make("review_required"), READY).opened()
    at.prove(at.observed("merged", merge_commit_sha=MERGED))
    assert "merge commit" in step_of(at).words
    assert walk(at) == END


def test_a_lapsed_grant_is_authorized_anew() -> None:
    at = Scene(make("review_required"), READY).running()
    at.wait(60)
    at.must("renew", {"lease_epoch": 1}, case_id=CASE_ID, claim_id=at.claim_id)
    at.grant()
    at.wait(880)
    at.must("renew", {"lease_epoch": 1}, case_id=CASE_ID, claim_id=at.claim_id)
    at.wait(30)
    assert walk(at) == DRAFT + END


def test_a_review_waits_for_its_owner_and_a_refusal_for_the_runner() -> None:
    at = Scene(make("review_required"), READY).running()
    at.act("request_approval", {"action": "draft_pr"})
    assert step_of(at).operation_id == "decide_automation_approval"
    assert walk(at) == ["decide_automation_approval", *DRAFT, *END]
    at = Scene(make("review_required"), READY).running()
    approval_id = at.act("request_approval", {"action": "draft_pr"}).body["approval_id"]
    at.must("decide", {"decision": "reject"}, who="owner", approval_id=approval_id)
    assert walk(at) == ["update_automation_run"]


def test_a_stopped_run_is_handed_over() -> None:
    at = Scene(make("review_required"), READY).running()
    at.pause()
    assert walk(at) == ["update_automation_run"]


def test_what_is_over_names_no_operation() -> None:
    at = Scene(make("review_required"), READY).delivered()
    at.must("cancel", who="canceller", key="c", run_id=at.run_id)
    assert step_of(at).operation_id is None


def test_every_state_has_words_and_a_weekly_run_hears_of_no_pull_request() -> None:
    at = Scene(make("review_required"), READY).running()
    book = book_of(at)
    for status in runs.Status:
        run = msgspec.structs.replace(book.run, status=status)
        assert next_step(msgspec.structs.replace(book, run=run)).words
    for status in (runs.Status.STARTED, runs.Status.RUNNING):
        run = msgspec.structs.replace(book.run, status=status, case_id=None)
        weekly = msgspec.structs.replace(book, run=run)
        words = next_step(weekly).words + show_run.usage(weekly).next_action
        assert "report" in words
        assert not any(word in words for word in ("PR", "pull request", "merge", "deploy"))


def test_a_renewed_claim_of_a_run_is_not_told_to_start_it() -> None:
    at = Scene(make("review_required"), READY).begin()
    at.issue()
    assert "start the run" in at.claim()["next_action"]
    at.start()
    at.wait(5)
    renewed = at.must("renew", {"lease_epoch": 1}, case_id=CASE_ID, claim_id=at.claim_id)
    assert "start the run" not in renewed["next_action"]


def test_only_the_consume_that_may_call_is_told_to_call() -> None:
    at = Scene(make("review_required"), READY).running()
    grant_id = at.grant()
    first = at.consume(grant_id).body
    assert (first["call_authorized"], first["next_action"].startswith("Call the provider once")) == (True, True)
    again = at.consume(grant_id).body
    assert (again["call_authorized"], "not call the provider again" in again["next_action"]) == (False, True)
    assert "Call the provider" not in at.run()["grants"][0]["next_action"]
