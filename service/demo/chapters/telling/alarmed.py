"""An alert: the service looks at a number by itself, and tells of each change of the verdict once."""

from __future__ import annotations

from typing import Any

from service.demo.chapters.telling.notified import hear
from service.demo.theatre.scene import Scene, require, wait_for

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
