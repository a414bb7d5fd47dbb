"""A process that serves nobody else: it reads all pages, operations and tools, and watches each step of its loop.

It is new, so what is made on first use is made under the watch. It takes a `Wanted` as JSON on its standard input and
prints what it `Found`: `python -m tests.e2e.worst.reading`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx2
import msgspec

from service.console import site
from service.console.door import ENDPOINTS
from service.http.app import create_app
from service.http.edge.routes import all_endpoints
from service.process.assembly import make_services
from service.settings import load_settings
from tests.e2e.worst.steps import Step, watched

LITTLE = site.LITTLE


class Request(msgspec.Struct):
    """A request with its name in the findings.

    `offloaded`: the page is rendered in another process, however little it is.
    """

    name: str
    method: str
    url: str
    headers: dict[str, str]
    body: str = ""
    offloaded: bool = False


class Wanted(msgspec.Struct):
    """What is to be read on the database of a server with these settings."""

    settings: dict[str, str]
    base_url: str
    requests: list[Request]


class Answer(NamedTuple):
    """An answer as it came."""

    status: int
    text: str
    headers: dict[str, str]


class Found(msgspec.Struct):
    """The answers in order, the long steps, the number of all steps, and the seconds of the longest."""

    answers: list[Answer]
    steps: list[Step]
    count: int
    longest: float


class Reader:
    """The process, asked by one list of requests after the other."""

    def __init__(self, settings: Mapping[str, str], base_url: str) -> None:
        self._settings = dict(settings)
        self._base_url = base_url
        self.found: list[Step] = []
        self.longest = 0.0
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **settings},
        )

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """The answer to each."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        wanted = Wanted(self._settings, self._base_url, list(requests))
        self._process.stdin.write(msgspec.json.encode(wanted) + b"\n")
        self._process.stdin.flush()
        found = msgspec.json.decode(self._process.stdout.readline(), type=Found)
        self.found += found.steps
        self.longest = max(self.longest, found.longest)
        return found.answers

    def told(self) -> str:
        """The long steps so far, one a line."""
        return "\n".join(f"{one.seconds} s in {one.read}: {one.at}" for one in self.found)

    def close(self) -> None:
        """End the process."""
        with self._process:
            self._process.communicate(timeout=20)
        assert self._process.returncode == 0


async def main() -> None:
    """Answer lists of requests until standard input ends."""
    line = await asyncio.to_thread(sys.stdin.readline)
    wanted = msgspec.json.decode(line, type=Wanted)
    async with _service(wanted) as client:
        while line:
            wanted = msgspec.json.decode(line, type=Wanted)
            answers = []
            with watched() as watch:
                for one in wanted.requests:
                    site.LITTLE = -1 if one.offloaded else LITTLE
                    await watch.read(one.name)
                    answer = await client.request(one.method, one.url, headers=one.headers, content=one.body or None)
                    answers.append(Answer(answer.status_code, answer.text, dict(answer.headers)))
            found = Found(answers, watch.found, watch.steps, watch.longest)
            await asyncio.to_thread(_say, msgspec.json.encode(found))
            line = await asyncio.to_thread(sys.stdin.readline)


def _say(text: bytes) -> None:
    sys.stdout.buffer.write(text + b"\n")
    sys.stdout.buffer.flush()


@asynccontextmanager
async def _service(wanted: Wanted) -> AsyncIterator[httpx2.AsyncClient]:
    settings = load_settings(wanted.settings)
    edge: Any = create_app(lambda: make_services(settings), [*all_endpoints(), *ENDPOINTS])
    to_app, from_app = asyncio.Queue[Any](), asyncio.Queue[Any]()
    task = asyncio.create_task(edge({"type": "lifespan", "state": {}}, to_app.get, from_app.put))
    await to_app.put({"type": "lifespan.startup"})
    started = await from_app.get()
    assert started["type"] == "lifespan.startup.complete", started
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(edge), base_url=wanted.base_url, timeout=60) as client:
        yield client
    await to_app.put({"type": "lifespan.shutdown"})
    await task


if __name__ == "__main__":
    asyncio.run(main())
