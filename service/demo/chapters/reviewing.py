"""The weekly review: a schedule's slot, one source of numbers, and a private report of these numbers alone."""

import secrets
import sys
import time
from typing import Any

from service.demo.chapters.contract import MATERIAL_EVENTS, PLAYBOOK, REVIEWED, render_request
from service.demo.chapters.observing import MILESTONES
from service.demo.chapters.telling import hear
from service.demo.theatre.scene import Scene, require, wait_for
from service.demo.theatre.stage import Api

AUTOMATION = "review-funnel"
WEEKLY_PLAYBOOK = "weekly-funnel-review"
ASSERTION = "scheduler_execution_configured"
DAY = 86400
HALF_HOUR = 1800
BEFORE, AFTER = (6, 5, 4), (8, 4, 2)
"""How many people opened an account, filled a cart and paid: on the first day and on the second."""


def review_week(scene: Scene) -> str:
    """Two days of customers, the slot after them, and a report on the change between them.

    Returns a summary in a sentence.
    """
    minute = (time.gmtime(server_time(scene)).tm_min + 30) % 60
    runner = save_and_enable(scene, minute)
    scene.stage.step("Another day in the shop: of those who come, fewer go on to pay")
    trade(scene, "monday", BEFORE)
    scene.move_clock(DAY, "the next day in the shop.")
    trade(scene, "tuesday", AFTER)
    run = start(scene, runner, await_slot(scene))
    source = read_source(scene, runner, run)
    report(scene, runner, run, source)
    runner.close()
    return "A review compares two days: its numbers are those of one source, and another number is refused."


def server_time(scene: Scene) -> int:
    """The time of the service's clock, in epoch seconds."""
    told: int = scene.owner.call("GET", f"{scene.path}/automation-control", quiet=True)["server_time"]
    return told


def save_and_enable(scene: Scene, minute: int) -> Api:
    """Put a review in the place of the repairs. Returns its runner, with a credential for it alone."""
    stage, path = scene.stage, f"{scene.path}/automation-contract"
    stage.step("The owner saves and enables a review on a schedule")
    request = {"version": "2.0.0", "bindings": bindings(minute), "readiness_assertions": {ASSERTION: True}}
    render = f"{scene.path}/automation-playbooks/{WEEKLY_PLAYBOOK}/render"
    candidate = scene.owner.call("POST", render, request)
    stage.show("never allowed", ", ".join(candidate["automation"]["forbidden_actions"]))
    tag = scene.owner.call("GET", path)["etag"]
    saved = scene.owner.call("PUT", path, candidate["contract_input"], if_match=tag)
    wish = {"kind": "automation_runner", "name": "Review agent", "automation_id": AUTOMATION}
    made = scene.owner.call("POST", f"{scene.path}/credentials", wish, idempotency_key=secrets.token_hex(8))
    key = secrets.token_hex(8)
    scene.owner.call("POST", f"{path}/enable", {}, if_match=saved["etag"], idempotency_key=key)
    stage.show("every day compared with the day before", f"at minute {minute} of each hour, UTC")
    return Api(scene.world.base_url, made["credential"], stage, "review agent")


def bindings(minute: int) -> dict[str, Any]:
    """Bind the playbook to the shop's three milestones, a day at a time."""
    return {
        "automation_id": AUTOMATION,
        "name": "Review the shop's funnel",
        "runner": {"provider": "custom"},
        "execution": {
            "provider": "custom",
            "custom": {
                "management_surface": "the demo itself",
                "credential_destination": "environment of the review agent",
                "invocation": {"executable": "python3", "argv": ["weekly.py"]},
            },
        },
        "schedule": {"cron": f"{minute} * * * *", "timezone": "UTC", "start_window_seconds": HALF_HOUR},
        "funnel": {"events": [event for event, *_ in MILESTONES], "period_days": 1, "minimum_sample_size": 5},
        "budgets": {
            "max_runs_per_day": 100,
            "max_turns_per_run": 10,
            "max_runtime_seconds": HALF_HOUR,
            "max_cost_usd_per_run": 1,
        },
        "escalation": {"destination": "owner@example.invalid", "instructions": "Say what could not be read."},
    }


def trade(scene: Scene, day: str, reached: tuple[int, int, int]) -> None:
    """Let people come to the shop. Fewer reach each step."""
    opened, added, paid = reached
    for number in range(opened):
        customer = f"{day}-{number}"
        scene.world.visit("/accounts", user=customer)
        if number < added:
            scene.world.visit("/cart", user=customer, item="tea", quantity=2)
        if number < paid:
            scene.world.visit("/checkout", user=customer, card="good")
    scene.stage.show(day, f"{opened} opened an account, {added} filled a cart, {paid} paid")


def await_slot(scene: Scene) -> dict[str, Any]:
    """Wait until the sweep has issued the receipt of the next slot. Returns it."""
    scene.stage.step("The slot comes: the minute sweep issues its one receipt")
    scene.move_clock(HALF_HOUR + 60, "the slot of this hour.")
    path = f"{scene.path}/automation-trigger-receipts?status=issued"

    def look() -> dict[str, Any] | None:
        found = scene.owner.call("GET", path, quiet=True)["trigger_receipts"]
        return found[0] if found else None

    receipt = wait_for("the receipt of a slot", look)
    period = receipt["schedule"]["period_end"] - receipt["schedule"]["period_start"]
    scene.stage.show("receipt", f"{receipt['receipt_id']}, for {period} s up to {receipt['schedule']['scheduled_for']}")
    return receipt


def start(scene: Scene, runner: Api, receipt: dict[str, Any]) -> dict[str, Any]:
    """Begin the run of the slot. It has no case, and nothing to claim."""
    wish = {"trigger_receipt_id": receipt["receipt_id"]}
    path = f"{scene.path}/automation-runs"
    run: dict[str, Any] = runner.call("POST", path, wish, expect=201, idempotency_key=secrets.token_hex(8))
    scene.stage.show("next step", run["next_action"])
    return run


def read_source(scene: Scene, runner: Api, run: dict[str, Any]) -> dict[str, Any]:
    """Read the one source of the report. It is the same ever after, whoever comes to the shop."""
    scene.stage.step("The service reads the funnel once: that is the report's source")
    path, fence = f"/v1/automation-runs/{run['run_id']}/report-source", fence_of(run)
    source: dict[str, Any] = runner.call("POST", path, fence)
    scene.stage.tell("After two days in the shop a slot of the schedule comes, and the service reads the funnel once:")
    shown = []
    for row in source["rows"]:
        before, now = f"{row['prior_users']:3} people", f"{row['current_users']:3}"
        share = f"{row['prior_conversion']:.0%} to {row['current_conversion']:.0%} of the first step"
        shown.append(f"{row['event']:18} {before} the day before, {now} now; {share}")
    scene.stage.draw(shown)
    require(source["rows"][2]["current_users"] == AFTER[2], "The funnel counted others than those who came.")
    sample = f"{source['sample_size']} people began, of at least {source['minimum_sample_size']}"
    scene.stage.show("sample", f"{sample}; source {source['source_hash'][:16]}…")
    require(runner.call("POST", path, fence)["source_hash"] == source["source_hash"], "The source changed.")
    return source


def report(scene: Scene, runner: Api, run: dict[str, Any], source: dict[str, Any]) -> None:
    """Try to record a number that the source does not have, then record what it says."""
    stage, path = scene.stage, f"/v1/automation-runs/{run['run_id']}/actions/record-report"
    stage.step("The runner reports: every number must be the source's")
    document = draw_up(source)
    fence = {"state_revision": source["state_revision"], "lease_epoch": run["lease_epoch"]}
    wrong = {**document, "findings": [{**document["findings"][0], "current_value": AFTER[2] + 1}]}
    refused = runner.call("POST", path, fence | {"report": wrong}, expect=409)["error"]
    expected, actual = refused["details"]["expected"], refused["details"]["actual"]
    stage.show("one sale too many", f"{refused['code']}: {actual:g}")
    stage.tell(f"A report with one sale too many is refused: {actual:g} where the source says {expected[0]:g}.")
    done = runner.call("POST", path, fence | {"report": document}, expect=201)
    stage.show(
        "recorded", f"{done['report_id']}: {done['visibility']}, {done['trust']}; the run {done['run']['status']}"
    )
    [shown] = scene.owner.call("GET", f"{scene.path}/automation-control")["recent_reports"]
    require(shown["report_id"] == done["report_id"], "Control does not show the report.")
    require(done["run"]["output"] == document, "The run's output is another report.")


def draw_up(source: dict[str, Any]) -> dict[str, Any]:
    """Write the report: a change, a guess about it for people to look into, and a gap."""
    row = source["rows"][2]
    return {
        "kind": "funnel_review",
        "period_start": source["period_start"],
        "period_end": source["period_end"],
        "source_hash": source["source_hash"],
        "findings": [
            {
                "kind": "metric",
                "metric": "people who paid",
                "unit": "people",
                "prior_value": row["prior_users"],
                "current_value": row["current_users"],
                "change": row["current_users"] - row["prior_users"],
                "source_columns": ["prior_users", "current_users"],
            },
            {
                "kind": "hypothesis",
                "rank": 1,
                "title": "Fewer carts end in an order",
                "rationale": "The share that pays fell more than the share that fills a cart.",
                "expected_impact": "As many orders as the day before.",
                "confidence": "low",
                "evidence_columns": ["prior_conversion", "current_conversion"],
                "suggested_human_next_step": "Watch somebody check out.",
            },
            {"kind": "readiness_gap", "code": "no_devices", "message": "The plan captures no device of a visitor."},
        ],
        "limitations": ["Two days say little."],
    }


def fence_of(run: dict[str, Any]) -> dict[str, int]:
    """The fencing token of every command of a runner."""
    return {"state_revision": run["state_revision"], "lease_epoch": run["lease_epoch"]}


# A back-test of other bounds on these days, and a stop at once.

DAYS = 7
FEWER = 2
"""Events that would have been enough in the back-test."""


def look_back_and_stop(scene: Scene) -> str:
    """Try another threshold on the past days, then pause. Returns a summary in a sentence."""
    receipts = back_test(scene)
    pause(scene)
    return f"With {FEWER} errors as the bound, {receipts} receipts would have been issued; a pause holds at once."


def back_test(scene: Scene) -> int:
    """Ask for the repairs under a lower bound. Nothing is recorded. Returns the number of receipts."""
    stage = scene.stage
    stage.step("A back-test: the same days with another threshold")
    playbook = scene.owner.call("GET", f"/v1/automation-playbooks/{PLAYBOOK}", quiet=True)
    request = render_request(REVIEWED, playbook["version"])
    request["bindings"]["trigger"]["materiality"]["minimum_event_count"] = FEWER
    render = f"{scene.path}/automation-playbooks/{PLAYBOOK}/render"
    candidate = scene.owner.call("POST", render, request, quiet=True)["contract_input"]
    path = f"{scene.path}/automation-contract/backtest"
    told: dict[str, Any] = scene.owner.call("POST", path, candidate | {"days": DAYS})
    [use] = told["automations"]
    stage.show("looks", f"{told['looks']}, with {told['considered']} cases considered")
    stage.show("at most", f"{use['max_runs']} runs, {use['max_prs']} pull requests, {use['max_cost_usd']} USD")
    for line in told["assumptions"]:
        stage.say(line)
    require(use["receipts"] > 0, "The back-test issued nothing.")
    which = f"with {FEWER} errors instead of {MATERIAL_EVENTS}, {use['receipts']} receipts"
    stage.tell(f"A back-test of these days: {which}, at most {use['max_runs']} runs and {use['max_cost_usd']} USD.")
    receipts: int = use["receipts"]
    return receipts


def pause(scene: Scene) -> None:
    """Pause everything: the answer names the event from which on nothing begins."""
    stage = scene.stage
    stage.step("The owner pauses: nothing begins any more")
    stopped = scene.owner.call("POST", f"{scene.path}/automation-contract/pause", {"reason": "The demo is over."})
    fence, effects = stopped["fence"], stopped["effects_started"]
    stage.show("fence", f"{fence['stream_id']}, revision {fence['revision']}")
    stage.show("calls to providers that had begun", "not read in time" if effects is None else len(effects))
    wish = {"automation_id": AUTOMATION}
    refused = scene.owner.call("POST", f"{scene.path}/automation-triggers/issue", wish, expect=409)["error"]["code"]
    stage.show("looking for work", refused)
    require(refused == "automation_paused", f"The pause was answered by {refused}.")
    stage.tell(f"The owner pauses: event {fence['revision']} of the contract is the fence. After it: {refused}.")


# The end: the project is deleted, its history erased, and the log verifies all the same.


def delete_project(scene: Scene) -> str:
    """Delete the project of the demo, and have the log verified. Returns a summary in a sentence."""
    scene.stage.step("The owner deletes the project: fenced at once")
    fenced = ask(scene)
    counts = fenced["automation_deletion_manifest"]["counts"]
    scene.stage.show("goes", ", ".join(f"{number} {name}" for name, number in counts.items() if number))
    going = ", ".join(f"{counts[name]} {name}" for name in ("runs", "grants", "credentials", "events"))
    scene.stage.tell(f"The owner deletes the project, with {going}: nothing in it has authority.")
    told = hear(scene, "project.fenced")
    scene.stage.show("project.fenced", f"delivery {told['id']}, the last one")
    scene.stage.step("One key through every answer, to the receipt")
    receipt = wait_for("the receipt of the deletion", lambda: _over(ask(scene)))
    require(receipt["automation_deletion_manifest"] == fenced["automation_deletion_manifest"], "The manifest changed.")
    for item in receipt["external_follow_ups"]:
        scene.stage.show(item["kind"], item["action"])
    scene.owner.call("GET", f"{scene.path}/cases", expect=404)
    scene.stage.step("The log still verifies: payloads are gone, hashes are not")
    command = [sys.executable, "-m", "service", "events", "verify"]
    data = str(scene.world.directory / "data")
    said = scene.world.run(command, scene.world.directory, SERVICE_DATA_DIR=data)
    scene.stage.show("service events verify", said.strip().splitlines()[-1])
    scene.stage.tell(f"Rows are gone, payloads erased; the log still verifies: {said.strip().splitlines()[0]}")
    return f"The project is gone, with {counts['events']} events erased in a log that still verifies."


def ask(scene: Scene) -> dict[str, Any]:
    """Send the request, or repeat it."""
    answer: dict[str, Any] = scene.owner.call(
        "DELETE", scene.path, expect=(200, 202), quiet=True, idempotency_key="the-end"
    )
    return answer


def _over(answer: dict[str, Any]) -> dict[str, Any] | None:
    return answer if answer["status"] == "deleted" else None
