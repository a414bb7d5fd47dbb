"""Last part: the proof of the first run, checked without the service, then with one number altered."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from service.demo.theatre.pictures import actor_of
from service.demo.theatre.scene import Scene, require

HERE = Path(__file__).parent
VERIFIERS = (HERE.parents[3] / "scripts" / "verify_proof.py", HERE.parents[1] / "theatre" / "verify_proof.py")
"""The verifier in a checkout, and in an installed package, where the link beside this file has become a copy of it."""
WHOLE, WRONG = 3, 1
"""Its exit codes: what is shown hangs together, though nothing signed says that it is all; something is wrong."""


def prove_run(scene: Scene) -> str:
    """Fetch the proof bundle of the first run and check it. A forged one is detected."""
    scene.stage.step("The proof of the first run, checked without the service")
    bundle = scene.owner.call("GET", f"/v1/automation-runs/{scene.healed}/proof")
    tell_chain(scene, bundle)
    code, said = check(scene, bundle)
    require(code == WHOLE, f"The proof does not hold: {said}")
    scene.stage.show("verify_proof.py", said.splitlines()[-1])
    events = sum(len(stream["events"]) for stream in bundle["streams"])
    told = f"{events} events in {len(bundle['streams'])} streams say who did what"
    scene.stage.tell(f"{told}; a script checks them, then with one number altered:")
    scene.stage.draw([said.splitlines()[-1]])
    charge(bundle)["turns"] += 1
    code, said = check(scene, bundle)
    require(code == WRONG, "A forged proof was accepted.")
    scene.stage.show("with one more turn in a charge", said.splitlines()[-1])
    scene.stage.draw([said.splitlines()[-1]])
    return "The proof of the first run is checked without the service; one altered number is found."


def tell_chain(scene: Scene, bundle: dict[str, Any]) -> None:
    """Show what was recorded along the chain, in the order of the log, and who did it."""
    events = [event for stream in bundle["streams"] for event in stream["events"]]
    for event in sorted(events, key=lambda event: (event["recorded_at"], event["kind"], event["revision"])):
        scene.stage.say(f"{event['topic']:32} by {actor_of(event)}")
    issued = next(event for event in events if event["topic"].startswith("trigger_receipt.issued"))
    require(issued["actor_kind"] == "system", "The receipt was issued on somebody's request.")


def charge(bundle: dict[str, Any]) -> dict[str, Any]:
    """Find the payload of the run's charge."""
    for stream in bundle["streams"]:
        for event in stream["events"]:
            if stream["stream_id"] == bundle["run_id"] and "turns" in event["payload"]:
                payload: dict[str, Any] = event["payload"]
                return payload
    raise AssertionError("the runner charged its usage")


def check(scene: Scene, bundle: dict[str, Any]) -> tuple[int, str]:
    """Run the verifier with nothing but the bundle."""
    path = scene.world.directory / "proof.json"
    path.write_text(json.dumps(bundle))
    verifier = next(place for place in VERIFIERS if place.is_file())
    done = subprocess.run(
        [sys.executable, "-I", "-B", str(verifier), str(path)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr
