"""A scene of automation, and its people at their browsers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.consolescene import People, open_people
from tests.support.fullscene import FullScene, open_full_scene
from tests.support.intruding import Intruder
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.server import ServerHandle


@pytest.fixture
def at(server: ServerHandle) -> Iterator[HttpScene]:
    with open_scene(server) as scene:
        yield scene


@pytest.fixture
def people(at: HttpScene) -> Iterator[People]:
    with open_people(at) as found:
        yield found


@pytest.fixture(scope="module")
def full(server: ServerHandle) -> Iterator[FullScene]:
    """A scene with all that pages show. Tests of a file share it and change nothing."""
    with open_full_scene(server) as scene:
        yield scene


@pytest.fixture(scope="module")
def intruder(full: FullScene) -> Iterator[Intruder]:
    """The browsers of all people of it."""
    with full.at.server.client() as client:
        yield Intruder(full, client)
