"""A back-test of other bounds on these days, and a stop at once."""

from __future__ import annotations

from typing import Any

from service.demo.chapters.repairing.policy import MATERIAL_EVENTS, PLAYBOOK, REVIEWED, render_request
from service.demo.chapters.reviewing.weekly import AUTOMATION
from service.demo.theatre.scene import Scene, require

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
