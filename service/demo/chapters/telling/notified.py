"""A webhook: a receiver of the product verifies each delivery, and catches up from the log."""

from __future__ import annotations

import json
from typing import Any

from service.demo.theatre.scene import Scene, require, wait_for

EVENTS = ("onboarding.approved", "deploy.recorded", "onboarding.verified")
LATER = ("alert.triggered", "alert.cleared", "project.fenced")
UNAUTHORIZED = 401


def notify(scene: Scene) -> str:
    """Register a receiver, test it, and try to deceive it."""
    register(scene)
    forge(scene)
    return "A receiver of webhooks verified a signed test, and refused a forged one."


def remind(scene: Scene) -> str:
    """Look at the deliveries so far, lose them, and have them replayed from the log."""
    stage = scene.stage
    stage.step("What the receiver was told meanwhile")
    told = wait_for("the deliveries of the onboarding", lambda: told_of(scene, EVENTS))
    for one in told:
        stage.show(one["event"], one["id"])
    names = ", ".join(one["event"] for one in told)
    stage.tell(f"Within seconds the receiver has verified {names}.")
    stage.step("The receiver has lost everything: replay the log for it")
    scene.world.run_receiver(scene.webhook_secret)
    require(not told_of(scene, ()), "The receiver has lost nothing.")
    asked = {"after": 0, "until": 10_000}
    queued = scene.owner.call("POST", f"{scene.webhook}/replay", asked, idempotency_key="catch-up")["queued"]
    again = wait_for("the replayed deliveries", lambda: told_of(scene, EVENTS))
    ids = {one["id"] for one in told}
    require({one["id"] for one in again} == ids, "A replay has other ids.")
    log = scene.owner.call("GET", f"{scene.webhook}/deliveries")["deliveries"]
    require({row["delivery_id"] for row in log} == ids, "The log has other deliveries.")
    stage.tell(f"It restarts and has lost them; the log replays {queued}, each with the id that it had.")
    return f"{queued} deliveries reached the receiver, and again from the log after it had lost them."


def register(scene: Scene) -> None:
    """Register the receiver's address. Its secret is shown once."""
    stage, url = scene.stage, scene.world.receiver_url
    stage.step("Register a webhook, and start the receiver with its secret")
    wish = {"url": url, "events": [*EVENTS, *LATER], "description": "The shop's own receiver"}
    made = scene.owner.call("POST", f"{scene.path}/webhooks", wish, expect=201)
    scene.webhook = f"{scene.path}/webhooks/{made['id']}"
    scene.webhook_secret = made["secret"]
    scene.world.run_receiver(made["secret"])
    stage.show("receiver", f"{url}, a process of the shop; secret {made['secret_prefix']}…, shown once")
    tested = scene.owner.call("POST", f"{scene.webhook}/test")
    require(tested["delivered"], f"The test was not delivered: {tested['last_error']}")
    stage.tell(f"A receiver of the shop runs at {url}; a signed test reaches it ({tested['last_status']}).")


def forge(scene: Scene) -> None:
    """Send the receiver the test again with another word in it."""
    stage, world = scene.stage, scene.world
    stage.step("Refused by the receiver: a delivery of somebody else")
    [taken] = world.received()["taken"]
    at = str(taken["created_at"])
    headers = {"webhook-id": taken["id"], "webhook-timestamp": at, "webhook-signature": "v1,Zm9yZ2Vk"}
    answered = world.deliver(json.dumps({**taken, "event": "case.resolved"}).encode(), headers)
    require(answered == UNAUTHORIZED, f"The receiver answered a forged delivery with {answered}.")
    [why] = world.received()["refused"]
    stage.show("forged", f"the receiver answered {answered}: {why}")
    stage.tell(f"The same with another word in it is refused by its signature ({answered}, {why}).")


def hear(scene: Scene, event: str) -> dict[str, Any]:
    """Wait until the receiver has verified a delivery of an event. Returns its body."""

    def look() -> dict[str, Any] | None:
        found = [taken for taken in scene.world.received()["taken"] if taken["event"] == event]
        return found[-1] if found else None

    return wait_for(f"{event} at the receiver", look)


def told_of(scene: Scene, events: tuple[str, ...]) -> list[dict[str, Any]] | None:
    """The deliveries that the receiver took, in the order of their events. None until all are there."""
    taken = [one for one in scene.world.received()["taken"] if one["event"] in EVENTS]
    if not {one["event"] for one in taken} >= set(events):
        return None
    return sorted(taken, key=lambda one: EVENTS.index(one["event"]))
