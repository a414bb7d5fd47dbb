"""The chapters of the demo, in their order. Another chapter is another row here, and a module beside this one."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from service.demo.chapters.healing import heal, merge_automatically, prove_run, refuse
from service.demo.chapters.observing import onboard, open_story
from service.demo.chapters.reviewing import delete_project, look_back_and_stop, review_week
from service.demo.chapters.telling import alarm, ask, notify, publish, remind
from service.demo.theatre.scene import Scene
from service.demo.theatre.stage import Stage
from service.demo.theatre.world import World
from service.testing.installation import find_git, find_node
from service.testing.shop import WorldFailed


class Chapter(NamedTuple):
    """A part of the story: its title, and what plays it.

    What later chapters need is left in the scene. `play` returns the sentence that stands for it at the end.
    """

    title: str
    play: Callable[[Scene], str]


CHAPTERS = (
    Chapter("A product, and what goes wrong in it", open_story),
    Chapter("A receiver of webhooks verifies", notify),
    Chapter("Its signals: planned, approved, proven", onboard),
    Chapter("What the receiver was told", remind),
    Chapter("An error is repaired, reviewed, merged and verified", heal),
    Chapter("Another one is merged by the code host", merge_automatically),
    Chapter("What is refused", refuse),
    Chapter("What is left as proof", prove_run),
    Chapter("The next days: what the numbers say", review_week),
    Chapter("A funnel, answered with evidence", ask),
    Chapter("An alert fires, and clears", alarm),
    Chapter("A number for everybody", publish),
    Chapter("A look back, and a stop", look_back_and_stop),
    Chapter("The end", delete_project),
)


class Interrupted(Exception):
    """Somebody ended the demo; the message says what was cleaned up, `code` is for the shell."""

    def __init__(self, world: World, ended: BaseException) -> None:
        stopped = ", ".join(dict.fromkeys(world.ended)) or "nothing, for nothing was running yet"
        super().__init__(f"The demo was interrupted. Stopped: {stopped}. Removed: {world.directory}. Nothing is left.")
        self.code = ended.code if isinstance(ended, SystemExit) else 128 + signal.SIGINT


def run(*, verbose: bool = False, transcript: Path | None = None) -> None:
    """Run the whole demo. Raises WorldFailed when a step fails, Interrupted; leaves nothing running."""
    began = time.monotonic()
    find_git()
    node = find_node()
    file = None if transcript is None else transcript.open("w", encoding="utf-8")
    try:
        stage = Stage(verbose=verbose, transcript=file)
        try:
            with World() as world:
                summary = _tell_or_fail(Scene(stage, world, node))
        except (KeyboardInterrupt, SystemExit) as ended:
            raise Interrupted(world, ended) from ended
        sum_up(stage, summary, time.monotonic() - began)
    finally:
        if file is not None:
            file.close()


def _tell_or_fail(scene: Scene) -> list[str]:
    """Tell it; what fails brings the end of the service's log along."""
    try:
        return tell(scene)
    except WorldFailed as failure:
        log = scene.world.log("service.log").strip()
        raise WorldFailed(f"{failure}\nThe service logged:\n{log}" if log else str(failure)) from failure


def tell(scene: Scene) -> list[str]:
    """Play the chapters in order; returns what each comes to."""
    summary = []
    for chapter in CHAPTERS:
        scene.stage.chapter(chapter.title)
        summary.append(chapter.play(scene))
    scene.owner.close()
    return summary


def sum_up(stage: Stage, summary: list[str], seconds: float) -> None:
    """End the story."""
    done = f"All {stage.steps} steps went as promised in {seconds:.0f} s; nothing is left running"
    stage.tell(f"{done}. Its {stage.requests} requests: service demo --verbose.")
    for number, sentence in enumerate(summary, 1):
        stage.tell(f"{number:2}. {sentence}")
