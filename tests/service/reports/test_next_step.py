"""The next step of a weekly run: the operation that it names is accepted there, in every state of the flow."""

from __future__ import annotations

from typing import Any

import pytest

from service.runs import control as reads
from service.runs.decision import NextStep, next_step
from tests.support.schedules import AUTOMATION
from tests.support.weekly import Weekly, report_on

PRIOR, CURRENT = [10, 6, 3], [19, 8, 3]


def step_of(weekly: Weekly) -> NextStep:
    """The step, which the run's answer says in the same words."""
    project_id = weekly.at.world.project_id
    step = next_step(weekly.at.world.run(lambda store: reads.run(store, project_id, weekly.run_id)))
    assert weekly.run()["next_action"] == step.words
    assert not any(word in step.words for word in ("PR", "pull request", "merge", "deploy"))
    return step


def take(weekly: Weekly, step: NextStep) -> None:
    """Carry out exactly the operation that the step names; it is accepted and moves the run on."""
    before = weekly.run()["state_revision"]
    match step.operation_id:
        case "read_report_source":
            weekly.at.must(weekly.source(), 200)
        case "record_report":
            weekly.at.must(weekly.record(report_on(weekly.source().json())), 201)
        case "decide_automation_approval":
            [asked] = [item for item in weekly.run()["approvals"] if item["status"] == "pending"]
            path = f"/v1/automation-approvals/{asked['approval_id']}/decide"
            weekly.at.must(weekly.at.post(path, {"decision": "approve"}, who="owner"), 200)
        case "update_automation_run":
            body = weekly.token() | {"status": "failed", "reason": "Stopped."}
            weekly.at.must(weekly.at.call("PATCH", weekly.path, body, who=AUTOMATION), 200)
        case other:
            pytest.fail(f"a weekly run has no step {other}")
    assert weekly.run()["state_revision"] > before


def walk(weekly: Weekly) -> list[str]:
    taken = []
    while (step := step_of(weekly)).operation_id is not None:
        take(weekly, step)
        taken.append(step.operation_id)
    return taken


def ask(weekly: Weekly) -> None:
    weekly.at.must(weekly.act("approvals", {"action": "escalate", "summary": "Shall I?"}), 201)


def progress(weekly: Weekly) -> None:
    weekly.at.must(weekly.at.call("PATCH", weekly.path, weekly.token() | {"phase": "running"}, who=AUTOMATION), 200)


def charge(weekly: Weekly) -> None:
    weekly.at.must(weekly.act("usage", {"turns": 1}), 200)


def test_in_every_state_the_named_step_is_accepted_and_leads_to_the_report(weekly: Weekly) -> None:
    """Begun, at work, charged, in review, with its source; stopped in each of them, and over by time (R-AUT-37)."""
    both = ["read_report_source", "record_report"]
    changes: list[tuple[Any, list[str]]] = [
        (lambda _: None, both),
        (progress, both),
        (charge, both),
        (ask, ["decide_automation_approval", *both]),
        (lambda w: w.at.must(w.source(), 200), both[1:]),
        (lambda w: (w.at.must(w.source(), 200), charge(w)), both[1:]),
        (lambda w: (w.at.must(w.source(), 200), ask(w)), ["decide_automation_approval", *both[1:]]),
        (lambda w: w.at.pause(), ["update_automation_run"]),
        (lambda w: (w.at.must(w.source(), 200), w.at.pause()), ["update_automation_run"]),
        (lambda w: w.clock.move_to(w.run()["deadline_at"]), []),
    ]
    for change, steps in changes:
        weekly.begin(PRIOR, CURRENT)
        change(weekly)
        assert walk(weekly) == steps
        if weekly.at.must(weekly.at.world.call("GET", weekly.at.world.contract))["paused"]:
            weekly.at.enable()
