"""Alerts of connected projects: a provider that does not answer leaves them as they were (G-092, G-162)."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import httpx2
import pytest

from tests.service.http.alerts.test_alert import BODY
from tests.service.http.analytics.test_connected_blueprint import COUNT, QUERY, nonsense
from tests.service.http.analytics.test_connection import provider as provider  # noqa: PLC0414 (found by name)
from tests.service.http.analytics.test_connection import running as running  # noqa: PLC0414
from tests.service.http.analytics.test_connection import server as server  # noqa: PLC0414
from tests.service.http.analytics.test_connection import world as world  # noqa: PLC0414
from tests.support.api import World, ok
from tests.support.connecting import NO_READ, RESTING, connect, rested
from tests.support.onboarding import Onboarding, onboard
from tests.support.provider import FakeProvider


async def send(onb: Onboarding, path: str, body: Any = None, key: str | None = None) -> httpx2.Response:
    """Post, whatever comes of it."""
    headers = {"authorization": f"Bearer {onb.owner.secret}"} | ({} if key is None else {"idempotency-key": key})
    more = {} if body is None else {"json": body}
    return await onb.owner.client.post(path, headers=headers, **more)


@pytest.mark.parametrize("misbehave", [500, 429, nonsense])
async def test_a_failed_read_records_nothing(world: World, provider: FakeProvider, misbehave: Any) -> None:
    """The verdict stays, and the key is free for the next attempt."""
    onb = await onboard(world)
    await connect(onb, provider)
    path = f"/v1/projects/{onb.project_id}/alerts"
    [[now]] = await world.sql("select service_seconds()")
    provider.capture("paid", now - 100)
    made = ok(await onb.owner.post(path, BODY), 201)
    provider.tables[COUNT] = [[2, 1]]
    assert ok(await send(onb, f"{path}/{made['id']}/evaluate"))["triggered"]
    before = ok(await onb.owner.get(f"{path}/{made['id']}"))
    provider.fail[QUERY] = misbehave
    for tail, body in ((f"/{made['id']}/evaluate", None), ("/preview", BODY)):
        answer = await send(onb, path + tail, body, "k")
        assert (answer.status_code, answer.json()["error"]["code"]) == RESTING.get(misbehave, NO_READ)
    assert ok(await onb.owner.get(f"{path}/{made['id']}")) == before
    topics = await world.sql("select topic from events where stream_id = %s order by revision", made["id"])
    assert topics == [("alert.created.v1",), ("alert.triggered.v1",)]
    del provider.fail[QUERY]
    provider.tables[COUNT] = [[1, 1]]
    again = await rested(lambda: send(onb, f"{path}/{made['id']}/evaluate", None, "k"))
    assert not ok(again)["triggered"]
    assert ok(await send(onb, f"{path}/preview", BODY | {"days": 1}, "k"))["triggered_count"] == 0


async def test_a_preview_asks_a_provider_little(world: World, provider: FakeProvider) -> None:
    """12 looks, evenly over the days, where our own records take 96: the customer pays for the provider's queries."""
    onb = await onboard(world)
    await connect(onb, provider)
    provider.tables[COUNT] = [[2, 1]]
    provider.requests.clear()
    found = ok(await send(onb, f"/v1/projects/{onb.project_id}/alerts/preview", BODY | {"days": 30}))
    assert (found["count"], found["looks_left_out"], found["every_seconds"]) == (12, 0, 30 * 86_400 // 12)
    times = [look["at"] for look in found["looks"]]
    assert [before - after for before, after in itertools.pairwise(times)] == [found["every_seconds"]] * 11
    assert len(provider.calls(QUERY)) == 24  # for each look the numbers, and how fresh they are


async def test_a_silent_provider_is_504_and_records_nothing(world: World, provider: FakeProvider) -> None:
    """Given up after ten seconds (G-151), with the verdict as it was."""
    onb = await onboard(world)
    await connect(onb, provider)
    path = f"/v1/projects/{onb.project_id}/alerts"
    made = ok(await onb.owner.post(path, BODY), 201)
    done = threading.Event()
    provider.fail[QUERY] = lambda _: done.wait(30)
    answer = await send(onb, f"{path}/{made['id']}/evaluate")
    done.set()
    assert answer.status_code == 504, answer.text
    assert answer.json()["error"]["code"] == "upstream_timeout"
    assert ok(await onb.owner.get(f"{path}/{made['id']}"))["status"] == "created"
    assert await world.sql("select topic from events where stream_id = %s", made["id"]) == [("alert.created.v1",)]
