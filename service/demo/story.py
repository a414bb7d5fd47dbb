"""The chapters of the demo, in their order. Another chapter is another row here, and a module beside this one."""

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from service.demo.chapters.healing import heal, merge_automatically, prove_run, refuse
from service.demo.chapters.observing import onboard, open_story
from service.demo.chapters.reviewing import delete_project, look_back_and_stop, review_week
from service.demo.chapters.telling import alarm, ask, notify, publish, remind
from service.demo.theatre.scene import LOOK_SECONDS, OWNER, Scene
from service.demo.theatre.stage import Stage
from service.demo.theatre.world import World
from service.testing.installation import find_git, find_node
from service.testing.shop import WorldFailed


class Chapter(NamedTuple):
    """A part of the story: its title, and what plays it.

    What later chapters need is left in the scene. `play` returns the sentence that stands for it at the end. With
    `ends`, nothing is left for a look.
    """

    title: str
    play: Callable[[Scene], str]
    ends: bool = False


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
    Chapter("A look back, and a stop", look_back_and_stop, ends=True),
    Chapter("The end", delete_project, ends=True),
)


class Interrupted(Exception):
    """Somebody ended the demo. The message names the ended processes, `code` is for the shell, 0 for a kept demo."""

    def __init__(self, world: World, ended: BaseException, *, kept: bool) -> None:
        stopped = ", ".join(dict.fromkeys(world.ended)) or "nothing, for nothing was running yet"
        how = "has ended" if kept else "was interrupted"
        super().__init__(f"The demo {how}. Stopped: {stopped}. Removed: {world.directory}. Nothing is left.")
        code = ended.code if isinstance(ended, SystemExit) else 128 + signal.SIGINT
        self.code = 0 if kept else code


def run(*, verbose: bool = False, transcript: Path | None = None, keep: bool = False) -> None:
    """Run the whole demo. Raises WorldFailed when a step fails, Interrupted; leaves nothing running.

    With `keep` the project stays, and all runs on until somebody ends it.
    """
    began = time.monotonic()
    find_git()
    node = find_node()
    file = None if transcript is None else transcript.open("w", encoding="utf-8")
    try:
        stage, kept = Stage(verbose=verbose, transcript=file), False
        try:
            with World() as world:
                scene = Scene(stage, world, node)
                summary = _tell_or_fail(scene, keep=keep)
                if keep:
                    sum_up(stage, summary, time.monotonic() - began, "and everything runs on")
                    kept = True
                    stay(scene)
        except (KeyboardInterrupt, SystemExit) as ended:
            raise Interrupted(world, ended, kept=kept) from ended
        sum_up(stage, summary, time.monotonic() - began, "nothing is left running")
    finally:
        if file is not None:
            file.close()


def _tell_or_fail(scene: Scene, *, keep: bool) -> list[str]:
    """Tell it; what fails brings the end of the service's log along."""
    try:
        return tell(scene, keep=keep)
    except WorldFailed as failure:
        log = scene.world.log("service.log").strip()
        raise WorldFailed(f"{failure}\nThe service logged:\n{log}" if log else str(failure)) from failure


def tell(scene: Scene, *, keep: bool) -> list[str]:
    """Play the chapters in order, with `keep` without the last ones. Returns a sentence for each."""
    summary = []
    for chapter in CHAPTERS:
        if keep and chapter.ends:
            continue
        scene.stage.chapter(chapter.title)
        summary.append(chapter.play(scene))
    scene.owner.close()
    return summary


def stay(scene: Scene) -> None:
    """Run on until somebody ends it, with links for a look at the project. Raises WorldFailed if a server ends."""
    offer_link(scene)
    has_keys = sys.stdin is not None and sys.stdin.isatty()
    while not scene.world.gone():
        if not has_keys:
            time.sleep(LOOK_SECONDS)
        elif select.select([sys.stdin], [], [], LOOK_SECONDS)[0]:
            has_keys = bool(sys.stdin.readline())
            if has_keys:
                offer_link(scene)
    raise WorldFailed(f"Ended by itself: {', '.join(scene.world.gone())}.\n{scene.world.log('service.log')}".strip())


def offer_link(scene: Scene) -> None:
    """Show a sign-in link of the owner, and the way to end the demo."""
    command = [sys.executable, "-m", "service", "console", "open", "--email", OWNER]
    data = str(scene.world.directory / "data")
    made = scene.world.run([*command, "--json"], scene.world.directory, SERVICE_DATA_DIR=data)
    query = urlencode({"next": f"projects/{scene.project['id']}"})
    for line in (
        "",
        "Look at the project in the console. The link works once, within two minutes:",
        f"  {json.loads(made)['link']}&{query}",
        f"For another link press Enter here, or run: SERVICE_DATA_DIR={data} service console open --email {OWNER}",
        f"To end it press Ctrl-C here, or run: kill {os.getpid()}",
    ):
        scene.stage.hand_over(line)


def sum_up(stage: Stage, summary: list[str], seconds: float, left: str) -> None:
    """End the story."""
    done = f"All {stage.steps} steps went as promised in {seconds:.0f} s; {left}"
    stage.tell(f"{done}. Its {stage.requests} requests: service demo --verbose.")
    for number, sentence in enumerate(summary, 1):
        stage.tell(f"{number:2}. {sentence}")
