"""The files that a request crosses from its door to its commit are those that the page on architecture names."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import httpx2
import pytest

from service.http.app import create_app
from service.process.assembly import make_services
from service.settings import load_settings
from tests.support import seen
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server

ROOT = Path(__file__).parents[3]
ROOMS = tuple(f"{ROOT / room}/" for room in ("service", "statemachines", "projections", "schemas"))
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
SHARED = re.compile(
    r"service/(http/(answer|body|declare|edge|measure|waiting)|eventstore|fairness|auth)/|service/(http/)?[a-z_]+\.py"
    r"|service/(billing/usage|ingest/outcomes)\.py|(schemas|statemachines|projections)/kernel"
)
"""What every request goes through: edge, body, metrics, credentials, the write path, what it counts, and the kernel."""
MOST_OF_EDGE = 26
BESIDE = re.compile(
    r"service/(archives|audit|egress|provider|webhooks)/|service/ingest/(intake|kept|provided/[a-z_]+)\.py"
    r"|service/analytics/queries\.py"
)
"""What has a clock of its own, and so may run meanwhile."""


class Entered(httpx2.ASGITransport):
    """Watches the service while it answers, and not while the test judges the answer."""

    def __init__(self, here: Here) -> None:
        super().__init__(here.edge)
        self._here = here

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._here.entered.clear()
        self._here.watching = True
        try:
            return await super().handle_async_request(request)
        finally:
            self._here.watching = False


class Here:
    """The service in a thread of this process, which tells the files of the rooms that answering a request entered."""

    def __init__(self, server: ServerHandle) -> None:
        self.entered: set[str] = set()
        self.watching = False
        threading.setprofile(self._enter)
        self._thread = ThreadPoolExecutor(1)
        self._runner = self._thread.submit(asyncio.Runner).result()
        edge: Any = create_app(lambda: make_services(load_settings(server.env)))
        self.edge = edge
        self._do(self._start())

    async def _start(self) -> None:
        self._to_app, self._from_app = asyncio.Queue[Any](), asyncio.Queue[Any]()
        self._lifespan = asyncio.create_task(
            self.edge({"type": "lifespan", "state": {}}, self._to_app.get, self._from_app.put)
        )
        await self._to_app.put({"type": "lifespan.startup"})
        assert (await self._from_app.get())["type"] == "lifespan.startup.complete"

    def request(self, method: str, path: str, *, headers: dict[str, str], content: bytes | None) -> httpx2.Response:
        """Send a request to the service in this process."""
        return self._do(self._send(method, path, headers, content))

    async def _send(self, method: str, path: str, headers: dict[str, str], content: bytes | None) -> httpx2.Response:
        async with seen.async_client("http://here", transport=Entered(self), timeout=30) as client:
            return await client.request(method, path, headers=headers, content=content)

    def close(self) -> None:
        """End the service."""

        async def end() -> None:
            await self._to_app.put({"type": "lifespan.shutdown"})
            await self._lifespan

        self._do(end())
        self._thread.submit(self._runner.close).result()
        self._thread.shutdown()
        threading.setprofile(None)  # type: ignore[arg-type]

    @property
    def files(self) -> set[str]:
        """The files that the last request entered."""
        return {name.removeprefix(f"{ROOT}/") for name in self.entered}

    def _enter(self, frame: FrameType, event: str, _: Any) -> None:
        if self.watching and event == "call" and not frame.f_code.co_name.startswith("<module"):
            name = frame.f_code.co_filename
            if name.startswith(ROOMS):
                self.entered.add(name)

    def _do(self, doing: Any) -> Any:
        return self._thread.submit(self._runner.run, doing).result()


@pytest.fixture
def walk(server: ServerHandle) -> Iterator[tuple[HttpScene, Here]]:
    with open_scene(server) as scene:
        here = Here(server)
        try:
            yield scene, here
        finally:
            here.close()


def walk_of(name: str) -> str:
    """The section of the page on a request."""
    return PAGE.partition(f"\n### {name}\n")[2].partition("\n#")[0]


def test_three_requests_cross_the_files_of_the_page(walk: tuple[HttpScene, Here]) -> None:
    """Each list is whole, so whoever reads these files has read all that is of this request alone."""
    scene, here = walk
    found = {}
    scene.prepare()
    scene.error(2)
    scene.pause()
    there = scene.world.client
    scene.world.client = here  # type: ignore[assignment]
    for _ in range(2):  # the second one finds what a process remembers
        scene.error()
    found["A log"] = here.files
    scene.must(scene.world.call("GET", scene.world.contract))
    scene.enable()
    found["Enabling automation"] = here.files
    scene.issue()
    scene.must(scene.claim(), 201)
    found["A claim"] = here.files
    scene.world.client = there
    walked = {name: {file for file in files if not SHARED.match(file)} for name, files in found.items()}
    listed = {name: set(re.findall(r"`([a-z_/]+\.py)`", walk_of(name))) for name in walked}
    for name, files in walked.items():
        assert listed[name] <= files, name
        assert {file for file in files - listed[name] if not BESIDE.match(file)} == set(), name
    edge = {name: sum(file.startswith("service/http/edge/") for file in files) for name, files in found.items()}
    assert max(edge.values()) <= MOST_OF_EDGE, edge
