"""Two releases side by side on one database, up and down under load: what one cannot read it refuses, nothing is lost.

The older one is this release, the newer one is made from its sources (tests/torture/nextrelease.py). Every client
notes what it was told: what was acknowledged must be there in the end, what was refused must not.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from scripts.load.worlds import plan
from service.history.audit import check_history, check_projection
from service.registry import read_models
from tests.support import seen
from tests.support.accounts import bearer, create_project, sign_in
from tests.support.server import ServerHandle
from tests.torture import nextrelease
from tests.torture.runs import Size, Theatre

PROJECTS = 4
PAUSE = 0.02  # seconds between the requests of one client: the load is light
GONE_PAUSE = 0.2  # while its server does not answer
NOTED_SECONDS = 10.0
START_SECONDS = 90.0  # beside one that is under load


@dataclass
class Told:
    """What the clients of one release heard."""

    acknowledged: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def hear(self, name: str, answer: httpx2.Response | None, *, may_be_newer: bool) -> None:
        """Note an answer to the request that carried `name`; None: there was none, and nobody promised anything."""
        if answer is None:
            self.statuses["unanswered"] += 1
            return
        code = "" if answer.is_success else answer.json()["error"]["code"]
        self.statuses[code or str(answer.status_code)] += 1
        (self.acknowledged if answer.is_success else self.refused).add(name)
        expected = may_be_newer and code == "stream_is_newer" and "retry-after" not in answer.headers
        if answer.status_code >= 500 and not expected:
            self.wrong.append(f"{name}: {answer.status_code} {answer.text}")


@dataclass
class Release:
    """One release: its server, and what its clients were told."""

    server: ServerHandle
    newest: bool
    told: Told = field(default_factory=Told)


class SideBySide:
    """Both releases on one database, with their clients."""

    def __init__(self, theatre: Theatre, url: str, directory: Path) -> None:
        tree = directory / "next"
        tree.mkdir()
        path = {"PYTHONPATH": str(nextrelease.make_next_release(tree))}
        self.url = url
        self.older = self._release(directory / "older", newest=False, env={})
        self.newer = self._release(directory / "newer", newest=True, env=path)
        self.say = theatre.say
        self.phase = "a"
        self.projects: list[dict[str, Any]] = []
        self.key = ""
        self._numbers = 0

    def _release(self, directory: Path, *, newest: bool, env: dict[str, str]) -> Release:
        directory.mkdir()
        return Release(ServerHandle(directory, database_url=self.url, env=env), newest)

    @property
    def releases(self) -> tuple[Release, Release]:
        return self.older, self.newer

    def set_up(self, release: Release) -> None:
        """Sign somebody in, with some projects."""
        with release.server.client() as client:
            self.key = sign_in(client, release.server.internal_token)
            self.projects = [create_project(client, self.key, f"shop {number}") for number in range(PROJECTS)]

    # -- clients -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Report errors to both, and replace plans, while a block runs; servers may come and go meanwhile."""
        turns = [turn for release in self.releases for turn in (self._report(release), self._replan(release))]
        tasks = [asyncio.create_task(turn) for turn in turns]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [end for end in ended if isinstance(end, Exception)]
        if failures:
            raise failures[0]

    def _name(self) -> str:
        self._numbers += 1
        return f"request-{self._numbers}"

    async def _report(self, release: Release) -> None:
        """Report errors, some of which the clients of the other release report too."""
        async with seen.async_client(release.server.base_url, timeout=10) as client:
            while True:
                name, project = self._name(), random.choice(self.projects)
                word = random.choice("abcdefgh")
                error = {"level": "error", "message": f"Lost in {self.phase} {word}", "extra": {"name": name}}
                answer = await _answer(client.post("/v1/logs/", json=error, headers=bearer(project["dsn"])))
                release.told.hear(name, answer, may_be_newer=not release.newest)
                await asyncio.sleep(GONE_PAUSE if answer is None else PAUSE)

    async def _replan(self, release: Release) -> None:
        """Replace the plan of any project, whoever planned it last, in turns with the other release."""
        async with seen.async_client(release.server.base_url, headers=bearer(self.key), timeout=10) as client:
            while True:
                name, project = self._name(), random.choice(self.projects)
                path = f"/v1/projects/{project['id']}/onboarding"
                shown = await _answer(client.get(path))
                if shown is not None and shown.status_code in {200, 404}:
                    fence = {"if-match": shown.headers["etag"]} if shown.is_success else {}
                    headers = {**fence, "idempotency-key": name}
                    body = {"intent": "start", "plan": plan(name)}
                    answer = await _answer(client.post(path, json=body, headers=headers))
                    release.told.hear(name, answer, may_be_newer=not release.newest)
                elif shown is not None:
                    release.told.wrong.append(f"GET {path}: {shown.status_code} {shown.text}")
                await asyncio.sleep(GONE_PAUSE if shown is None else PAUSE)

    # -- verdict -----------------------------------------------------------------------------------------------

    def lost(self) -> list[str]:
        """Compare what the clients were told with what is stored."""
        with psycopg.connect(self.url) as connection:
            stored = {name for (name,) in connection.execute("select extra ->> 'name' from log_events")}
            questions = (
                "select payload -> 'plan' ->> 'business_question' from events where topic like 'onboarding.planned%'"
            )
            stored |= {name for (name,) in connection.execute(questions)}
        wrong = []
        for release in self.releases:
            wrong += release.told.wrong
            wrong += [f"{name} was acknowledged and is not there" for name in release.told.acknowledged - stored]
            wrong += [f"{name} was refused and is there" for name in release.told.refused & stored]
        return wrong

    def console(self, release: Release, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of a release on the database."""
        command = [sys.executable, "-m", "service", *words]
        directory = release.server.directory
        return subprocess.run(
            command, env=release.server.env, cwd=directory, capture_output=True, text=True, check=False
        )

    def verified(self) -> list[str]:
        """What is wrong with the history and the read models, as far as this release can judge them."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            wrong = [str(problem) for problem in check_history(connection)]
            for projection in read_models().values():
                wrong += [f"{projection.name}: {found}" for found in check_projection(connection, projection)]
        return wrong

    def verified_by_newer(self) -> list[str]:
        """What the newer release finds wrong with the read models, and the older one with the installation."""
        done = self.console(self.newer, "projections", "verify")
        wrong = [] if done.returncode == 0 else [done.stdout + done.stderr]
        told = self.console(self.older, "doctor", "--json").stdout
        found = {finding["check"]: finding["result"] for finding in json.loads(told)}
        right = (found["schema"], found["release"], found["streams"]) == ("ok", "warning", "warning")
        return wrong if right else [*wrong, told]

    def kept_function(self) -> list[str]:
        """What is wrong with the SQL function that the newer release has replaced: no older text may come back."""
        with psycopg.connect(self.url) as connection:
            query = "select release from schema_functions where name = %s"
            [[by]] = connection.execute(query, (nextrelease.FUNCTION,)).fetchall()
        return [] if by == nextrelease.VERSION else [f"{nextrelease.FUNCTION} was put back by {by}"]

    def health(self, release: Release) -> dict[str, Any]:
        """What a release says of itself: it is ready, whatever it cannot read."""
        with release.server.client() as client:
            shown: dict[str, Any] = client.get("/health/ready").raise_for_status().json()
        return shown


async def _answer(sent: Awaitable[httpx2.Response]) -> httpx2.Response | None:
    """The answer; None when the server was gone or going."""
    with suppress(httpx2.TransportError):
        return await sent
    return None


@contextmanager
def both(theatre: Theatre, directory: Path) -> Iterator[SideBySide]:
    """Both releases, none of them started, on a database of their own without any table."""
    directory.mkdir()
    with theatre.cluster.database("template0") as url:
        made = SideBySide(theatre, url, directory)
        try:
            yield made
        finally:
            for release in made.releases:
                release.server.stop()
                theatre.say(f"{'newer' if release.newest else 'older'}: {dict(release.told.statuses)}")


async def _start(release: Release) -> None:
    release.server.begin()
    await asyncio.to_thread(release.server.wait_until_ready, START_SECONDS)


async def _stop(release: Release) -> None:
    await asyncio.to_thread(release.server.stop)


async def upgrade(made: SideBySide, seconds: float) -> list[str]:
    """Bring the newer one up beside the older one, the older one down and up beside it, and leave that one alone."""
    older, newer = made.releases
    await _start(older)
    await asyncio.to_thread(made.set_up, older)
    async with made.load():
        for made.phase, step in (
            ("b", _start(newer)),
            ("c", _stop(older)),
            ("d", _start(older)),
            ("e", _stop(newer)),
        ):
            await step
            await asyncio.sleep(seconds)
        wrong = await asyncio.to_thread(_degraded, made)
    if '"event": "beside_a_later_release"' not in older.server.log():
        wrong.append("the older one started without a word about the newer one")
    return wrong


async def newest_first(made: SideBySide, seconds: float) -> list[str]:
    """Have the newer one make the database, and the older one come up on it for the first time, and go."""
    older, newer = made.releases
    await _start(newer)
    await asyncio.to_thread(made.set_up, newer)
    async with made.load():
        for made.phase, step in (
            ("b", _start(older)),
            ("c", _stop(newer)),
            ("d", _start(newer)),
            ("e", _stop(older)),
        ):
            await step
            await asyncio.sleep(seconds)
    return await asyncio.to_thread(made.verified_by_newer)


def _degraded(made: SideBySide) -> list[str]:
    """What is wrong with what the older one says while it is alone with streams that it cannot read."""
    shown: dict[str, Any] = {}
    for _ in range(int(NOTED_SECONDS / 0.1)):
        shown = made.health(made.older)
        [streams] = [check for check in shown["checks"] if check["name"] == "streams"]
        if not streams["ok"] and nextrelease.OPENED in streams["detail"]:
            break
        time.sleep(0.1)
    else:
        return [f"the older one does not say what it cannot read: {shown}"]
    with made.older.server.client() as client:
        counted = (
            re.search(r'service_refusals_total\{code="stream_is_newer"\} [1-9]', client.get("/metrics").text)
            is not None
        )
    return [] if shown["status"] == "degraded" and counted else [f"{shown} {counted}"]


SCENES: dict[str, Callable[[SideBySide, float], Awaitable[list[str]]]] = {
    "upgrade": upgrade,
    "newest first": newest_first,
}


async def releases(theatre: Theatre, size: Size) -> list[str]:
    """Two releases side by side, started in both orders, up and down under load: no 5xx but `stream_is_newer`."""
    wrong = []
    for name, scene in list(SCENES.items())[: size.registers]:
        with both(theatre, theatre.directory / name.replace(" ", "-")) as made:
            found = await scene(made, size.seconds)
            found += [*made.lost(), *made.kept_function(), *await asyncio.to_thread(made.verified)]
            told = made.older.told.statuses + made.newer.told.statuses
            seen = {"newer": told["stream_is_newer"], "stored": told["202"]}
            if not all(seen[what] >= least for what, least in size.least.items()):
                found.append(f"too little happened: {dict(told)}")
        wrong += [f"{name}: {problem}" for problem in found]
    return wrong


RUNS: dict[str, Callable[[Theatre, Size], Awaitable[list[str]]]] = {"releases": releases}
SHORT = {"releases": Size(1, 0.7, least={"newer": 10, "stored": 50})}
FULL = {"releases": Size(2, 15, least={"newer": 500, "stored": 2_000})}
