"""A workplace on the shared server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.loop.http_scene import open_scene
from tests.support.runner.workplace import Workplace, open_workplace
from tests.support.server import ServerHandle

Open = Callable[..., Workplace]


@pytest.fixture
def opened(server: ServerHandle, tmp_path: Path) -> Iterator[Open]:
    """Open a workplace at a code host."""
    with ExitStack() as stack:
        scene = stack.enter_context(open_scene(server))

        def opens(kind: str = "github", mode: str = "review_required", **changes: Any) -> Workplace:
            scene.mode = mode
            return stack.enter_context(open_workplace(tmp_path, scene, kind, **changes))

        yield opens
