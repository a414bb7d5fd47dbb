"""The scene of the pictures: three weeks of a shop, then the demo's story, with a look at each moment of a picture."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import ModuleType
from typing import Any
from unittest.mock import patch

from scripts.pictures.months import DAYS, live_through
from service.cli.shared.common import with_store
from service.demo.chapters import healing, observing
from service.demo.chapters.observing import create_project, observe, sign_in
from service.demo.theatre.scene import Scene
from service.demo.theatre.stage import Stage
from service.demo.theatre.world import World
from service.testing.installation import find_node
from tests.support.sessions import open_session

Look = Callable[[Scene, str], None]
"""Takes the pictures of a moment."""


@contextmanager
def opened(days: int = DAYS) -> Iterator[Scene]:
    """A service with a shop that has run for some days, with its owner signed in."""
    with World() as world:
        scene = Scene(Stage(), world, find_node())
        world.start_service()
        scene.owner = sign_in(scene)
        create_project(scene)
        observe(scene)
        live_through(scene, days)
        try:
            yield scene
        finally:
            scene.owner.close()


def play(scene: Scene, look: Look) -> None:
    """Tell the story up to a verified repair, and look when a plan waits, when a request waits, and at the end."""
    with ExitStack() as stack:
        stack.enter_context(_before(observing, "approve", partial(look, scene, "plan")))
        stack.enter_context(_before(healing, "decide", partial(look, scene, "request")))
        observing.onboard(scene)
        healing.heal(scene)
    look(scene, "repaired")


@contextmanager
def _before(module: ModuleType, name: str, look: Callable[[], None]) -> Iterator[None]:
    """Look before each call of a function of a chapter."""
    former = getattr(module, name)

    def looked(*given: Any) -> Any:
        look()
        return former(*given)

    setattr(module, name, looked)
    try:
        yield
    finally:
        setattr(module, name, former)


def session_of(scene: Scene) -> str:
    """The secret of a new session of the owner. Playwright, which holds the event loop, comes after."""
    [owner] = scene.owner.call("GET", f"{scene.path}/members", quiet=True)["members"]
    with patch.dict(os.environ, {"SERVICE_DATA_DIR": str(scene.world.directory / "data")}):
        return with_store(partial(open_session, user_id=owner["user_id"])).secret
