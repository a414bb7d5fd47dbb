"""The rows of what is done with each error: scrubbing, and leading frames back to their sources.

The whole is what the API process spends on an event that is sent over HTTP and stored, its threads included; what the
database does comes on top and is left out. Scrubbing is timed by itself, over events made in the same way. Processor
time, and not the clock's, so that a busy machine changes both alike.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from scripts.bench.figures import Figures, seconds_of_api
from scripts.load import loadgen, worlds
from service.cases.sourcemaps.frames import MOST_FRAMES
from service.cases.sourcemaps.unmangling import Unmangler, unmangled
from service.eventstore.store import EventStore
from service.ingest.items import LOGS
from service.ingest.scrubbing import Findings, Scrubber
from service.registry import registry
from tests.support.mappings import Segment, document

# What scrubbing costs of a whole event, by its size: processor time of the one beside that of the other (G-135).

CLIENTS = 16
TIMED = 1000
STACKS = 40  # of different stacks: errors come again
TOLD = 10  # of so many events, one has something to hide
_LETTERS = str.maketrans("0123456789", "ghijklmnop")
FRAMES = {"300 B": 0, "2 kB": 9, "14 kB": 82}


class ScrubCost(NamedTuple):
    """Processor time of an event in microseconds: scrubbing alone, and everything that the API process does."""

    bytes: int
    scrubbing: float
    whole: float


def event(number: int, frames: int, *, fresh: bool = False) -> dict[str, Any]:
    """One error, of a stack with so many frames; with `fresh` no frame was ever there before."""
    # Of letters: what differs in digits alone is not new to the look that passes over what it has seen.
    stack, salt = number % STACKS, f"_{number:x}".translate(_LETTERS) if fresh else ""
    made: dict[str, Any] = {
        "level": "error",
        "message": f"Order {number} failed: the provider answered 402",
        "environment": "production",
        "release": "2026.11.2",
        "user": {"id": f"user-{number % 500}"},
        "tags": {"region": "eu-west", "service": "checkout", **({"token": "t"} if number % TOLD == 0 else {})},
    }
    if frames:
        made["extra"] = {
            "request": {"method": "POST", "path": f"/orders/{number}/pay", "milliseconds": number % 977},
            "exception": {
                "type": f"PaymentDeclined{stack}",
                "frames": [
                    {
                        "file": f"app/orders/step_{(stack + frame) % 97}/handlers.py",
                        "line": 10 + (7 * stack + frame) % 400,
                        "function": f"handle_{(stack * frame) % 61}{salt}",
                        "code": f"result = await self.provider.charge(order, amounts[{frame % 13}], order.currency)",
                    }
                    for frame in range(frames)
                ],
            },
        }
    return made


def _sending(dsn: str, worker: int, frames: int, *, fresh: bool) -> loadgen.Client:
    headers = {"authorization": f"Bearer {dsn}", "content-type": "application/json"}
    number = worker * 1_000_000
    while True:
        number += 1
        yield ("POST", LOGS.split()[1], headers, json.dumps(event(number, frames, fresh=fresh)).encode())


def _scrubbing(frames: int, *, fresh: bool) -> Iterator[float]:
    """Seconds of processor time that scrubbing takes of each of TIMED events, after as many to warm up."""
    scrubber = Scrubber()
    texts = [json.dumps(event(number, frames, fresh=fresh)).encode() for number in range(2 * TIMED)]
    values = [msgspec.json.decode(text) for text in texts]
    for text, value in zip(texts, values, strict=True):
        began = time.process_time()
        suspicion = scrubber.look(text)
        if suspicion:
            counts = Findings()
            scrubber.text(value["message"], suspicion, counts)
            for part in ("user", "tags", "extra"):
                scrubber.tree(value.get(part, {}), suspicion, counts)
        yield time.process_time() - began


def measure(world: worlds.World, frames: int, seconds: float, *, fresh: bool = False) -> ScrubCost:
    """Measure events with stacks of so many frames."""
    dsn = world.create_project(f"scrubbing {frames} {fresh}")["dsn"]
    world.load(lambda n: _sending(dsn, n, frames, fresh=fresh), CLIENTS, seconds / 4)
    before = seconds_of_api()
    stats = world.load(lambda n: _sending(dsn, 100 + n, frames, fresh=fresh), CLIENTS, seconds)
    whole = (seconds_of_api() - before) / len(stats.latencies)
    scrubbing = sum(islice(_scrubbing(frames, fresh=fresh), TIMED, None)) / TIMED
    return ScrubCost(len(json.dumps(event(1, frames, fresh=fresh))), 1e6 * scrubbing, 1e6 * whole)


def measure_scrubbing(figures: Figures, world: worlds.World, seconds: float) -> None:
    """What scrubbing costs of an event, by size; beside it, what it costs of one whose frames nobody has seen."""
    for size, frames in FRAMES.items():
        cost = measure(world, frames, seconds / 2)
        name = f"processor time of scrubbing, of an event of {size}"
        figures.add(name, cost.scrubbing, "us", yardstick=cost.whole, promised=0.15, most=True)
    cost = measure(world, frames, seconds / 2, fresh=True)
    name = f"the same of {size}, all of it new"
    figures.add(name, cost.scrubbing, "us", yardstick=cost.whole, promised=0.15, most=True)


# How many frames a second are led back to their sources, with a warm cache. Each error has as many frames as are
# looked at, all over a bundle of a thousand lines of source in one minified line; the map lies in the database as an
# upload puts it there.

CASES = 8
TOKENS = 20_000
STEP = 7  # columns from one token to the next
URL = "https://shop.example/assets/app.min.js"


def unmangle(world: worlds.World, seconds: float) -> float:
    """Unmangle a few cases again and again, after a first time of each; returns frames a second.

    Beside a service that holds the cases, by a process of its own: the read of the error, the look-ups and the answer
    as JSON. Raises AssertionError unless all is found.
    """
    project = world.create_project("bundle")
    lines = [[Segment(STEP * number, 0, number % 1000, number % 60) for number in range(TOKENS)]]
    content = "".join(f"const value{number} = compute({number}); // {'x' * 40}\n" for number in range(1000))
    source_map = json.loads(document(lines, ["src/app.js"], sourcesContent=[content]))
    path = f"/v1/projects/{project['id']}/source-maps?release=1.0&source_url=~/assets/app.min.js"
    world.call("PUT", path, source_map, world.owner_key)
    cases = [_report(world, project["dsn"], number) for number in range(CASES)]
    answer = world.call("POST", f"/v1/cases/{cases[0]}/unmangle", {}, world.owner_key)
    assert answer["resolved_count"] == MOST_FRAMES, answer["next_action"]
    return asyncio.run(_unmangle(world.database_url, project["id"], cases, seconds))


async def _unmangle(database_url: str, project_id: str, cases: list[str], seconds: float) -> float:
    store = EventStore(database_url, registry())
    await store.start()
    try:
        unmangler = Unmangler(store)
        for case_id in cases:
            await unmangler.unmangle(project_id, case_id, "bench")
        began, worked, frames = time.perf_counter(), time.process_time(), 0
        while (taken := time.perf_counter() - began) < seconds:
            for case_id in cases:
                found = unmangled(case_id, await unmangler.unmangle(project_id, case_id, "bench"))
                assert len(msgspec.json.encode(found)) > found.resolved_count == MOST_FRAMES
                frames += MOST_FRAMES
        print(f"  {frames / (time.process_time() - worked):,.0f} frames a second of processor time")
        return frames / taken
    finally:
        await store.stop()


def _report(world: worlds.World, dsn: str, number: int) -> str:
    """Report an error with frames of its own; returns its case."""
    frames = [
        {"file": URL, "line": 1, "column": 1 + STEP * ((number * MOST_FRAMES + place) * 13 % TOKENS), "function": "t"}
        for place in range(MOST_FRAMES)
    ]
    error: dict[str, Any] = {"level": "error", "message": "boom", "release": "1.0"}
    error["extra"] = {"exception": {"type": f"Kind{'abcdefgh'[number]}", "frames": frames}}
    return str(world.call("POST", "/v1/logs/", error, dsn)["case_id"])


def measure_unmangling(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Lead the frames of errors back to their sources, with a warm cache."""
    rate = unmangle(world, seconds)
    figures.add("frames led back to their sources", rate, "/s", yardstick=10_000, promised=1)
