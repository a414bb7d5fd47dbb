"""A scene on a server of the test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.server import ServerHandle


@pytest.fixture
def at(server: ServerHandle) -> Iterator[HttpScene]:
    with open_scene(server) as scene:
        yield scene
