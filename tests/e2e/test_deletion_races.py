"""Deletion is a point in the log: raced against runs, writers, a flood of telemetry, rebuilds and kills (P10, R-DEL).

Whatever is sent after the answer to the deletion has no authority and stores nothing, no event of authority follows the
fence, and nothing comes back: neither from what was under way nor from the processes that were killed.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic

import httpx2
import psutil
import psycopg

from service.history.rebuild import RebuildRunning, rebuild
from service.registry import read_models
from statemachines.kernel.topics import EVENTS
from tests.support.ending import holding, left_of, problems
from tests.support.loop.arena import Arena, Chain, code_of, serving
from tests.support.loop.rules import AUTHORITY

RUNS = 20
WRITERS = 16
FLOOD = 8
FLOODED = 30  # records that are stored before the deletion is asked for, and as many successes of runners
KILLS = 3
CANARY = "canary-77c1"
SECONDS = 60.0  # until the receipt, kills and a loaded machine included
REBUILT = ("automation_runs", "cases", "memberships")
KEPT = {"usage_days", "usage_deploys"}
OVER = {401, 404, 409}


@dataclass
class Seen:
    """What the callers were told: successes by when they were sent, and the codes of all answers."""

    fenced_at: float = float("inf")
    done: bool = False
    busy: asyncio.Event = field(default_factory=asyncio.Event)  # set once there is a middle to be deleted in
    late: list[str] = field(default_factory=list)
    before: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)

    def note(self, what: str, began: float, answer: httpx2.Response) -> None:
        """Take an answer down."""
        self.codes[f"{what} {answer.status_code}"] += 1
        if not answer.is_success:
            assert answer.status_code in OVER | {412, 429, 503}, answer.text
        elif began > self.fenced_at:
            self.late.append(what)
        else:
            self.before[what] += 1
            if self.before["flood"] >= FLOODED and self.before.total() >= 2 * FLOODED:
                self.busy.set()


async def _write(arena: Arena, seen: Seen, chain: Chain, number: int) -> None:
    """Charge, patch and authorize as a runner, until nothing is there any more."""
    steps = ("usage", "patch", "authorize", "error")
    while not seen.done:
        what = steps[number % 4]
        began = monotonic()
        with suppress(httpx2.TransportError):
            if what == "usage":
                answer = await arena.once("POST", f"{chain.path}/usage", chain.token | {"turns": 1}, key=arena.key())
            elif what == "patch":
                answer = await arena.once("PATCH", chain.path, chain.token | {"phase": "running"})
            elif what == "authorize":
                body = chain.token | arena.binding(chain)
                answer = await arena.once("POST", f"{chain.path}/actions/draft-pr/authorize", body, key=arena.key())
            else:
                answer = await arena.once("POST", "/v1/deploys/", {"version": CANARY}, who="ci", key=arena.key())
            seen.note(what, began, answer)
            if answer.is_success and "state_revision" in answer.json():
                chain.revision = answer.json()["state_revision"]
        number += 1
        await asyncio.sleep(random.uniform(0, 0.02))


async def _flood(arena: Arena, seen: Seen, number: int) -> None:
    """Send errors and analytics events, each error a case of its own now and then."""
    count = 0
    while not seen.done:
        count += 1
        began = monotonic()
        body = {"message": f"{CANARY} {number} {'x' * (count % 7)}", "level": "error"}
        path, body = ("/v1/logs/", body) if count % 2 else ("/v1/analytics/", {"event": CANARY, "distinct_id": CANARY})
        with suppress(httpx2.TransportError):
            seen.note("flood", began, await arena.once("POST", path, body, who="dsn"))
        await asyncio.sleep(random.uniform(0, 0.01))


async def _rebuild(arena: Arena, seen: Seen) -> None:
    """Rebuild read models one after the other all the while."""
    url = arena.servers[0].database_url
    assert url is not None
    while not seen.done:
        for name in REBUILT:
            with suppress(RebuildRunning, psycopg.errors.UndefinedTable, psycopg.errors.DeadlockDetected):
                await asyncio.to_thread(rebuild, url, read_models()[name])
            await asyncio.sleep(0.1)


async def _kill(arena: Arena, kills: int) -> None:
    """Kill a serving process or the worker, some times, at random."""
    for _ in range(kills):
        await asyncio.sleep(random.uniform(0.05, 0.5))
        server = random.choice(arena.servers)
        victims = serving(server) if random.random() < 0.5 else server.processes("service.process.worker")
        for victim in victims:
            with suppress(psutil.NoSuchProcess):
                victim.send_signal(signal.SIGKILL)


async def _delete(arena: Arena, seen: Seen) -> dict[str, object]:
    """Ask for the deletion in the middle of it, and repeat that until the receipt is there."""
    await seen.busy.wait()
    manifest, give_up = None, monotonic() + SECONDS
    while monotonic() < give_up:
        answer = await arena.ask("DELETE", arena.project, who="owner", key="bye")
        assert answer.status_code in {200, 202}, answer.text
        body: dict[str, object] = answer.json()
        if manifest is None:
            seen.fenced_at, manifest = monotonic(), body["automation_deletion_manifest"]
        assert body["automation_deletion_manifest"] == manifest
        if answer.status_code == 200:
            return body
        await asyncio.sleep(0.05)
    raise AssertionError("There is no receipt.")


async def race(arena: Arena, *, runs: int = RUNS, kills: int = KILLS) -> Seen:
    """Delete a project with so many active runs in the middle of everything; returns what its callers saw."""
    url = arena.servers[0].database_url
    assert url is not None
    await arena.policy()
    chains = await arena.chains(runs, arena.run)
    seen = Seen()
    callers = [
        *(_write(arena, seen, chains[number % runs], number) for number in range(WRITERS)),
        *(_flood(arena, seen, number) for number in range(FLOOD)),
        _rebuild(arena, seen),
        _kill(arena, kills),
    ]
    crowd = [asyncio.create_task(caller) for caller in callers]
    try:
        receipt = await _delete(arena, seen)
        await asyncio.sleep(0.5)  # what was under way then comes too late as well
    finally:
        seen.done = True
        await asyncio.gather(*crowd)
    counts = receipt["automation_deletion_manifest"]["counts"]  # type: ignore[index]
    assert counts["runs"] == runs
    assert seen.late == []
    authority = [topic for topic, kind in EVENTS.items() if issubclass(kind, AUTHORITY)]
    with psycopg.connect(url, autocommit=True) as sql:
        after = sql.execute(
            "select e.topic from events e where e.project_id = %s and e.topic = any(%s) and e.seq > (select f.seq "
            "from events f where f.project_id = e.project_id and f.topic = 'project.fenced.v1')",
            (arena.project_id, authority),
        ).fetchall()
    assert after == []
    assert left_of(url, arena.project_id).keys() <= KEPT
    assert holding(url, CANARY) == {}
    return seen


async def test_a_deletion_in_the_middle_of_everything(arena: Arena):
    seen = await race(arena)
    assert seen.before["flood"] >= FLOODED, seen.codes
    assert sum(seen.before[what] for what in ("usage", "patch", "authorize")) > 5, seen.codes
    url = arena.servers[0].database_url
    assert url is not None
    assert problems(url) == []
    assert code_of(await arena.ask("GET", f"{arena.project}/cases", who="owner")) == "project_not_found"
