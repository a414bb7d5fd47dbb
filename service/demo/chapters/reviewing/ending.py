"""The end: the project is deleted, its history erased, and the log verifies all the same."""

from __future__ import annotations

import sys
from typing import Any

from service.demo.chapters.telling.notified import hear
from service.demo.theatre.scene import Scene, require, wait_for


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
