"""The parts of the demo, in their order."""

from __future__ import annotations

import time

from service.demo.ending import delete_project
from service.demo.evidence import prove_run
from service.demo.healing import heal
from service.demo.merging import merge_automatically
from service.demo.onboarding import onboard
from service.demo.opening import open_story
from service.demo.refusals import refuse
from service.demo.scene import Scene
from service.demo.stage import DemoFailed, Stage, console
from service.demo.world import World, check_tools


def run() -> None:
    """Run the whole demo. Raises DemoFailed when a step fails; leaves nothing running either way."""
    stage = Stage()
    began = time.monotonic()
    node = check_tools()
    with World() as world:
        try:
            tell(Scene(stage, world), node)
        except DemoFailed as failure:
            log = world.log("service.log").strip()
            raise DemoFailed(f"{failure}\nThe service logged:\n{log}" if log else str(failure)) from failure
    console.print(
        f"\n[bold green]All {stage.steps} steps went as promised[/bold green] ({time.monotonic() - began:.0f} s)."
    )


def tell(scene: Scene, node: str) -> None:
    """Run the parts in order."""
    scene.stage.part("A product, and what goes wrong in it")
    open_story(scene)
    scene.stage.part("Its signals: planned, approved, proven")
    onboard(scene, node)
    scene.stage.part("An error is repaired, reviewed, merged and verified")
    healed = heal(scene)
    scene.stage.part("Another one is merged by the code host")
    policy = merge_automatically(scene)
    scene.stage.part("What is refused")
    refuse(scene, policy)
    scene.stage.part("What is left as proof")
    prove_run(scene, healed)
    scene.stage.part("The end")
    delete_project(scene)
    scene.owner.close()
