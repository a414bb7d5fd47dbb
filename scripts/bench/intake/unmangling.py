"""How many frames a second are led back to their sources, with a warm cache.

Each error has as many frames as are looked at, all over a bundle of a thousand lines of source in one minified line;
the map lies in the database as an upload puts it there.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import msgspec

from scripts.load import worlds
from service.cases.sourcemaps.frames import MOST_FRAMES
from service.cases.sourcemaps.unmangling import Unmangler, unmangled
from service.eventstore.store import EventStore
from service.registry import registry
from tests.support.mappings import Segment, document

CASES = 8
TOKENS = 20_000
STEP = 7  # columns from one token to the next
URL = "https://shop.example/assets/app.min.js"


def measure(world: worlds.World, seconds: float) -> float:
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
