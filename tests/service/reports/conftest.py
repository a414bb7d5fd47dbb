"""A weekly review on a server that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.loop.http_scene import open_scene
from tests.support.server import ServerHandle
from tests.support.weekly import Weekly


@pytest.fixture
def weekly(server: ServerHandle) -> Iterator[Weekly]:
    with open_scene(server) as scene:
        yield Weekly(scene)
