"""Two processes count the same names at once: nothing is lost, nothing twice, and the limits hold exactly (G-155)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from service.analytics.metadata import MOST_KEYS, MOST_NAMES
from tests.support import seen
from tests.support.api import Api, World, ok
from tests.support.server import ServerHandle


@pytest_asyncio.fixture
async def worlds(server: ServerHandle, second: ServerHandle) -> AsyncIterator[list[World]]:
    async with (
        seen.async_client(server.base_url, timeout=30) as one,
        seen.async_client(second.base_url, timeout=30) as other,
    ):
        yield [World(one, server), World(other, second)]


async def senders(worlds: list[World]) -> tuple[Api, str, list[Api]]:
    """A fresh project: its owner, its id, and its DSN at each of the processes."""
    owner = await worlds[0].sign_in()
    made = await owner.create_project()
    return owner, made["id"], [world.having(made["dsn"]) for world in worlds]


async def send(dsn: Api, event: str, **properties: Any) -> None:
    ok(await dsn.post("/v1/analytics/", {"event": event, "distinct_id": "u", "properties": properties}), 202)


async def test_the_same_names_at_once_in_two_processes(worlds: list[World]) -> None:
    """Fresh names and known ones, of two projects in each flush."""
    owner, project_id, dsns = await senders(worlds)
    _, other_id, others = await senders(worlds)
    for turn in range(6):
        await asyncio.gather(
            *(
                send(dsn, f"e{number % (3 + turn)}", **{f"k{number % 4}": number, f"t{turn}": None})
                for number in range(20)
                for dsn in (*dsns, *others)
            )
        )
    for scope in (project_id, other_id):
        names = await worlds[0].sql(
            "select event, row_count from event_name_days where project_id = %s order by 1", scope
        )
        rows = await worlds[0].sql(
            "select event, count(*) from analytics_events where project_id = %s group by 1 order by 1", scope
        )
        assert names == rows
        keys = await worlds[0].sql(
            "select event, key, row_count from event_key_days where project_id = %s order by 1, 2", scope
        )
        rows = await worlds[0].sql(
            "select event, key, count(*) from event_properties where project_id = %s group by 1, 2 order by 1, 2", scope
        )
        assert keys == rows
        totals = await worlds[0].sql(
            "select sum(names), sum(keys), sum(other_rows) from event_days where project_id = %s", scope
        )
        assert totals == [(len(names), len(keys), 0)]
    shown = ok(await owner.get(f"/v1/projects/{project_id}/event-names"))
    assert (sum(name["row_count"] for name in shown["analytics_events"]), shown["complete"]) == (240, True)


async def test_the_limits_hold_when_two_processes_reach_them_at_once(worlds: list[World]) -> None:
    owner, project_id, dsns = await senders(worlds)
    await send(dsns[0], "first", k=1)
    room = 10
    await worlds[0].sql(
        "insert into event_name_days select project_id, day, 'n' || i, 1, first_at, last_at "
        "from event_name_days, generate_series(1, %s) i where project_id = %s",
        MOST_NAMES - 1 - room, project_id,
    )  # fmt: skip
    await worlds[0].sql(
        "insert into event_key_days select project_id, day, event, 'k' || i, 1, 8 "
        "from event_key_days, generate_series(1, %s) i where project_id = %s",
        MOST_KEYS - 1 - room, project_id,
    )  # fmt: skip
    await worlds[0].sql(
        "update event_days set names = %s, keys = %s where project_id = %s",
        MOST_NAMES - room, MOST_KEYS - room, project_id,
    )  # fmt: skip
    await asyncio.gather(
        *(send(dsn, f"{side}{number}", k=1) for number in range(20) for side, dsn in zip("ab", dsns, strict=True))
    )
    for table, most in (("event_name_days", MOST_NAMES), ("event_key_days", MOST_KEYS)):
        assert await worlds[0].sql(f"select count(*) from {table} where project_id = %s", project_id) == [(most,)]
    totals = "select names, keys, other_rows, other_values from event_days where project_id = %s"
    assert await worlds[0].sql(totals, project_id) == [(MOST_NAMES, MOST_KEYS, 30, 30)]
    shown = ok(await owner.get(f"/v1/projects/{project_id}/event-names", params={"limit": 1000}))
    assert (shown["complete"], shown["count"]) == (False, MOST_NAMES)
