"""A webhook: a receiver of the product verifies each delivery, and catches up from the log."""

import hashlib
import json
from typing import Any

import rfc8785

from service.demo.chapters.observing import MILESTONES
from service.demo.theatre.scene import Scene, require, wait_for
from service.demo.theatre.stage import Api

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


# An alert: the service looks at a number by itself, and tells of each change of the verdict once.

EVERY_SECONDS = 300
FEWEST = 3


def alarm(scene: Scene) -> str:
    """Watch the day's orders. Too few trigger the alert, and more clear it."""
    path = create(scene)
    scene.stage.step("Nobody asks: the service evaluates the alert, and tells")
    few = await_verdict(scene, path, "triggered")
    scene.stage.step("Two more orders: the alert clears")
    scene.buy("radia", "vint", "tim")
    enough = await_verdict(scene, path, "evaluated_clear")
    scene.stage.tell(f"Customers pay: with {enough} orders it is clear, and alert.cleared follows, once.")
    alerts = [taken["event"] for taken in scene.world.received()["taken"] if taken["event"].startswith("alert.")]
    require(alerts == ["alert.triggered", "alert.cleared"], f"The receiver heard {alerts}.")
    return f"An alert fired at {few} orders a day and cleared at {enough}; the receiver heard of each once."


def create(scene: Scene) -> str:
    """Create the alert on a blueprint. Returns its path."""
    scene.stage.step(f"An alert: fewer than {FEWEST} orders a day")
    wish = {
        "name": "Few orders",
        "blueprint_id": "event-count",
        "params": {"event": "order_paid", "days": 1},
        "threshold_column": "row_count",
        "threshold_op": "<",
        "threshold_value": FEWEST,
    }
    made = scene.owner.call("POST", f"{scene.path}/alerts", wish, expect=201)
    scene.stage.show("alert", f"{made['id']}, {made['status']}")
    return f"{scene.path}/alerts/{made['id']}"


def await_verdict(scene: Scene, path: str, status: str) -> int:
    """Wait for the next evaluation by the service, and for its delivery. Returns the observed number."""
    scene.move_clock(EVERY_SECONDS, "the alert is due.")

    def look() -> dict[str, Any] | None:
        alert: dict[str, Any] = scene.owner.call("GET", path, quiet=True)
        return alert if alert["status"] == status else None

    alert = wait_for(f"the alert to be {status}", look)
    value: int = alert["last_value"]
    event = "alert.triggered" if status == "triggered" else "alert.cleared"
    told = hear(scene, event)
    scene.stage.show(event, f"{value} orders, delivery {told['id']}")
    if status == "triggered":
        scene.stage.tell(f"With {value} orders a day the alert fires; its receiver hears {event}.")
    return value


# A question to telemetry: the answer brings its evidence, with a hash for everybody to check.

BLUEPRINT = "ordered-funnel"


def ask(scene: Scene) -> str:
    """Ask for the shop's funnel, and check the receipt of the answer."""
    stage = scene.stage
    stage.step("A person asks for the shop's funnel")
    wish = {"params": {"events": [event for event, *_ in MILESTONES], "days": 7}}
    answer = scene.owner.call("POST", f"{scene.path}/query-blueprints/{BLUEPRINT}/run", wish)
    stage.tell("Of the people in the shop during seven days, in the order of the plan:")
    stage.draw([f"{row['event']:18} {row['users']:3} people, {row['conversion']:.0%}" for row in answer["rows"]])
    evidence = answer["evidence"]
    stage.show("evidence", f"{evidence['source']}, complete={evidence['complete']}")
    stage.step("The receipt of question and answer, made again by the reader")
    made = receipt_of(answer, limit=1000)
    require(made == evidence["query_receipt_sha256"], "The receipt is another one.")
    changed = {**answer, "rows": [{**answer["rows"][0], "users": 1}, *answer["rows"][1:]]}
    require(receipt_of(changed, limit=1000) != made, "Another answer has the same receipt.")
    whole = "whole" if evidence["complete"] else "not whole"
    stage.tell(f"Evidence: own records, a {whole} window, receipt {made[:12]}…, which the reader computes alike.")
    return "The funnel came with its evidence; its receipt names question and answer."


def receipt_of(answer: dict[str, Any], *, limit: int) -> str:
    """Hash question and answer, as the page about questions describes it."""
    evidence = answer["evidence"]
    named = {
        "source": evidence["source"],
        "blueprint_id": answer["blueprint_id"],
        "params": evidence["params"],
        "from": evidence["from"],
        "to": evidence["to"],
        "limit": limit,
        "columns": answer["columns"],
        "rows": answer["rows"],
    }
    return hashlib.sha256(rfc8785.dumps(named)).hexdigest()


# A number for everybody: published, read without an account, and taken back.


def publish(scene: Scene) -> str:
    """Publish the orders of a week, read them as a stranger, and revoke them."""
    stage = scene.stage
    stage.step("The owner publishes one number")
    wish = {
        "blueprint_id": "event-count",
        "params": {"event": "order_paid", "days": 7},
        "title": "Orders of the week",
        "cache_seconds": 60,
    }
    made = scene.owner.call("POST", f"{scene.path}/public-queries", wish, expect=201)
    stage.step("A stranger reads it, without a key")
    stranger = Api(scene.world.base_url, None, stage, "stranger")
    path = made["public_url"].removeprefix(scene.world.base_url)
    shown = stranger.call("GET", path)
    [row] = shown["rows"]
    require("project_id" not in str(shown), "The public answer names the project.")
    stage.tell(f"A stranger without a key reads {shown['title']!r}: {row['row_count']}, and nothing else of the shop.")
    stranger.call("GET", f"{scene.path}/cases", expect=401)
    stage.step("The owner takes it back")
    scene.owner.call("DELETE", f"{scene.path}/public-queries/{made['publication_id']}")
    gone = stranger.call("GET", path, expect=404)["error"]["code"]
    stranger.close()
    stage.tell(f"The owner takes it back, and its address answers {gone}, kept rows included.")
    return "One number was public, and one request took it back."
