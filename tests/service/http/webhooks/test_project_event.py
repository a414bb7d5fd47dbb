"""A project's events by position, as webhooks are told of them (G-161)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.service.http.cases.test_acting import act
from tests.service.http.cases.test_case import log
from tests.service.webhooks.test_outbox import listener as listener  # noqa: PLC0414 (fixtures are found by name)
from tests.service.webhooks.test_outbox import register
from tests.service.webhooks.test_outbox import shop as shop  # noqa: PLC0414
from tests.support.api import World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414
from tests.support.listening import Listener, faults_of_body

pytestmark = pytest.mark.shares_server


async def poll(owner: Any, project_id: str, number: int, **query: Any) -> tuple[list[dict[str, Any]], int]:
    """Poll from the beginning until so many events have come; returns them and the position to go on from."""
    found: list[dict[str, Any]] = []
    after, give_up = 0, time.monotonic() + 20
    while len(found) < number:
        assert time.monotonic() < give_up, found
        page = ok(await owner.get(f"/v1/projects/{project_id}/project-events", params={"after": after, **query}))
        assert page["next_after"] >= after
        found, after = found + page["events"], page["next_after"]
        await asyncio.sleep(0.02)
    return found, after


async def test_events_are_polled_as_they_are_delivered(shop, listener: Listener):
    owner, project_id, dsn = shop
    await register(owner, project_id, listener.url, "*")
    case_id = (await log(dsn, "boom"))["case_id"]
    await act(owner, case_id, "assign", 1, user_id=owner.user_id)
    await act(owner, case_id, "resolve", 1)
    ok(await dsn.post("/v1/deploys/", {"version": "1", "environment": "production"}), 202)
    await listener.until_arrived(3)
    found, after = await poll(owner, project_id, 3, limit=2)
    assert [one["event"] for one in found] == ["case.created", "case.resolved", "deploy.recorded"]
    assert [one["position"] for one in found] == sorted(one["position"] for one in found)
    told = {arrived.event: arrived.document for arrived in listener.arrived}
    for one in found:
        assert (one["created_at"], one["data"]) == (told[one["event"]]["created_at"], told[one["event"]]["data"])
        assert (
            faults_of_body(
                one["event"], {name: one[name] for name in one if name != "position"} | {"project_id": project_id}
            )
            == []
        )
    assert after >= found[-1]["position"]
    assert (await poll(owner, project_id, 3))[0] == found
    [assigned], _ = await poll(owner, project_id, 1, names="case.assigned,run.started")
    assert assigned["data"] == {"case_id": case_id, "status": "open", "revision": 1, "assignee": owner.user_id}


async def test_bad_polls_and_those_of_others_are_refused(world: World, shop):
    owner, project_id, dsn = shop
    path = f"/v1/projects/{project_id}/project-events"
    for query in ({"names": "nothing"}, {"names": "case.created,,"}, {"after": -1}, {"limit": 51}, {"limit": 0}):
        refused(await owner.get(path, params=query), 400, "invalid_payload")
    stranger = await world.sign_in()
    refused(await stranger.get(path), 404, "project_not_found")
    refused(await world.having(None).get(path), 401, "unauthenticated")
    refused(await dsn.get(path), 403, "principal_not_allowed")
    await world.sql("update projects set status = 'fenced' where id = %s", project_id)
    ok(await owner.get(path))
