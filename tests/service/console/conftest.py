"""A scene of automation, and its people at their browsers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.consolescene import People, open_people
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
