"""How fast anybody reads a published query whose rows are kept, beside an echo of the same server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import NamedTuple

from scripts.load import loadgen, worlds

ROWS = 10
TURNS = 6
CLIENTS = 32


class PublicReads(NamedTuple):
    """Answers a second of each side, as the median of turns that took place by turns."""

    public: float
    echo: float


def _reading(path: str, _: int) -> loadgen.Client:
    while True:
        yield ("GET", path, {}, b"")


def _events(dsn: str) -> Iterator[loadgen.Request]:
    headers = {"authorization": f"Bearer {dsn}", "content-type": "application/json"}
    for number in range(ROWS):
        body = {"event": f"step {number}", "distinct_id": "u1"}
        yield ("POST", "/v1/analytics/", headers, json.dumps(body).encode())


def measure(world: worlds.World, seconds: float) -> PublicReads:
    """Publish the most frequent events, ten of them, and read them from so many connections."""
    project = world.create_project("public")
    for request in _events(project["dsn"]):
        loadgen.call(worlds.HOST, world.port, request)
    body = {"blueprint_id": "top-events", "cache_seconds": 86_400}
    made = world.call("POST", f"/v1/projects/{project['id']}/public-queries", body, world.owner_key)
    path = f"/v1/public/q/{made['publication_id']}"
    assert len(world.call("GET", path, None, None)["rows"]) == ROWS
    echo = partial(worlds.posting_logs, project["dsn"], "/v1/bench-echo")
    sides = {"public": partial(_reading, path), "echo": echo}
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(1 + TURNS):  # The first turn warms up.
        for side, make in sides.items():
            found = world.load(make, CLIENTS, seconds / TURNS)
            assert set(found.statuses) == {200 if side == "public" else 202}, found.statuses
            rates[side].append(found.rate)
    return PublicReads(median(rates["public"][1:]), median(rates["echo"][1:]))
