"""A person deleted in the middle of everything, with processes killed: what came before goes, what comes after stays.

Every record says by its name whose it is and carries the number of its request. Those that were acknowledged before the
deletion was asked for are nowhere afterwards, those that were received after its fence are all there, and each counter
still counts all of them.
"""

from __future__ import annotations

import asyncio
import random
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic

import httpx2
import psutil
import psycopg

from service.ingest.kept import COUNTERS, check_counters
from tests.support.ending import problems
from tests.support.loop.arena import Arena, serving

SENDERS = 6
BEFORE = 60  # records that are acknowledged before the deletion is asked for
AFTER = 40  # and that are received after its fence
KILLS = 4
SECONDS = 60.0
NAMES = ("gone-1", "gone-2", "stays")


@dataclass
class Told:
    """What senders were told: names and times of receipt, by the number of the request."""

    stored: dict[str, tuple[str, int]] = field(default_factory=dict)
    asked_at: float = float("inf")
    early: set[str] = field(default_factory=set)
    fenced_at: int | None = None
    done: bool = False
    busy: asyncio.Event = field(default_factory=asyncio.Event)
    enough: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, mark: str, name: str, at: int) -> None:
        """Take an acknowledged record down."""
        self.stored[mark] = (name, at)
        if monotonic() < self.asked_at:
            self.early.add(mark)
        if len(self.stored) >= BEFORE:
            self.busy.set()
        if self.late() >= AFTER:
            self.enough.set()

    def late(self) -> int:
        """How many records were received after the fence."""
        return sum(self.fenced_at is not None and at > self.fenced_at for _, at in self.stored.values())


async def _send(arena: Arena, told: Told, number: int) -> None:
    count = 0
    while not told.done:
        count += 1
        mark, name = f"r-{number}-{count}", NAMES[count % 3]
        if count % 2:
            body = {"message": "boom", "level": "error", "user": {"id": name}, "tags": {"mark": mark}}
            path = "/v1/logs/"
        else:
            path, body = "/v1/analytics/", {"event": "page", "distinct_id": name, "properties": {"mark": mark}}
        with suppress(httpx2.TransportError):
            answer = await arena.once("POST", path, body, who="dsn", key=mark)
            if answer.is_success:
                told.note(mark, name, answer.json()["received_at"])
            else:
                assert answer.status_code in {409, 429, 503}, answer.text
        await asyncio.sleep(random.uniform(0, 0.02))


async def _kill(arena: Arena) -> None:
    for _ in range(KILLS):
        await asyncio.sleep(random.uniform(0.1, 0.6))
        server = random.choice(arena.servers)
        victims = serving(server) if random.random() < 0.5 else server.processes("service.process.worker")
        for victim in victims:
            with suppress(psutil.NoSuchProcess):
                victim.send_signal(signal.SIGKILL)


async def _delete(arena: Arena, told: Told) -> dict[str, object]:
    give_up = monotonic() + SECONDS
    while monotonic() < give_up:
        answer = await arena.ask("DELETE", f"{arena.project}/users/gone-1", who="owner", key="bye")
        assert answer.status_code in {200, 202}, answer.text
        body: dict[str, object] = answer.json()
        assert told.fenced_at in {None, body["fenced_at"]}
        told.fenced_at = int(str(body["fenced_at"]))
        if answer.status_code == 200:
            return body
        await asyncio.sleep(0.05)
    raise AssertionError("There is no receipt.")


async def test_a_person_is_deleted_in_the_middle_of_everything(arena: Arena) -> None:
    url = arena.servers[0].database_url
    assert url is not None
    told = Told()
    joined = {"event": "$identify", "distinct_id": "gone-1", "properties": {"$anon_distinct_id": "gone-2"}}
    assert (await arena.ask("POST", "/v1/analytics/", joined, who="dsn")).status_code == 202
    crowd = [asyncio.create_task(_send(arena, told, number)) for number in range(SENDERS)]
    killing = asyncio.create_task(_kill(arena))
    try:
        await asyncio.wait_for(told.busy.wait(), SECONDS)
        told.asked_at = monotonic()
        receipt = await _delete(arena, told)
        await asyncio.wait_for(told.enough.wait(), SECONDS)
    finally:
        told.done = True
        await asyncio.gather(*crowd, killing)
    assert receipt["names"] == 2
    with psycopg.connect(url, autocommit=True) as sql:
        there = dict(
            sql.execute(
                "select tags ->> 'mark', user_id from log_events where project_id = %s and tags ? 'mark' union all "
                "select properties ->> 'mark', distinct_id from analytics_events where project_id = %s "
                "and properties ? 'mark'",
                (arena.project_id, arena.project_id),
            ).fetchall()
        )
        wrong = [one for table in COUNTERS for one in check_counters(sql, table) if one.project_id == arena.project_id]
        names = sql.execute("select names from erasure_names where project_id = %s", (arena.project_id,)).fetchall()
    assert told.fenced_at is not None
    for mark, (name, at) in told.stored.items():
        if name == "stays" or at > told.fenced_at:
            assert mark in there, (mark, name, at, told.fenced_at)
        elif mark in told.early:
            assert mark not in there, (mark, name, at, told.fenced_at)
    assert told.early
    assert told.late() >= AFTER
    assert wrong == []
    assert names == [([],)]
    assert problems(url) == []
