"""A Chromium for the tests of a file, and a scene that fills every page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.support.chromium import open_chromium
from tests.support.fullscene import FullScene, open_full_scene
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.server import ServerHandle


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with open_chromium() as browser:
        yield browser


@pytest.fixture
def at(server: ServerHandle) -> Iterator[HttpScene]:
    """A project of its own for a test."""
    with open_scene(server) as scene:
        yield scene


@pytest.fixture(scope="module")
def full(server: ServerHandle) -> Iterator[FullScene]:
    """A scene that fills every page. Tests of a file share it and change nothing."""
    with open_full_scene(server) as scene:
        yield scene
