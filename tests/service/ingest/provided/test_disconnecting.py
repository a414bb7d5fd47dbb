"""Disconnecting a provider: nothing is read afterwards, its counts are gone, cases stay (G-182)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tests.service.ingest.provided.conftest import Watched
from tests.service.ingest.provided.test_shown import feed
from tests.support.api import ok, refused
from tests.support.connecting import connect
from tests.support.provider import FakeProvider
from tests.support.provider.exceptions import exception

LEFT = """select (select count(*) from provider_counts where project_id = p.id),
    (select count(*) from provider_groups where project_id = p.id),
    (select count(*) from provider_uuids where project_id = p.id),
    (select count(*) from provider_looks where project_id = p.id),
    (select count(*) from provider_grants where project_id = p.id and sealed is not null),
    (select count(*) from case_stats where project_id = p.id and provider_sample is not null)
from projects p where p.id = %s"""
ENDED = "select count(*) from events where project_id = %s and topic = 'provider.connection_ended.v1'"
NOTHING = [(0,) * 6]


def path_of(watched: Watched) -> str:
    return f"/v1/projects/{watched.onb.project_id}/provider-connection"


async def test_disconnecting_drops_the_counts_and_leaves_the_cases(watched: Watched, provider: FakeProvider) -> None:
    """What came by DSN stays in its case. The grant is given back, and a repeat answers the same."""
    ids = await feed(watched, provider)
    owner = watched.onb.owner
    ended = ok(await owner.call("DELETE", path_of(watched)))
    assert ended["status"] == "disconnected"
    [revoked] = provider.calls("/oauth/revoke/")
    assert revoked["token_type_hint"] == "refresh_token"
    assert await watched.sql(LEFT) == NOTHING
    counts = [(await watched.case(case_id))["event_count"] for case_id in ids.values()]
    assert counts == [1, 1, 0]
    poll = {"connection_id": ended["connection_id"]}
    assert ok(await owner.post("/v1/auth/provider/poll", poll))["status"] == "disconnected"
    assert ok(await owner.get(f"/v1/projects/{watched.onb.project_id}/health"))["provider_exceptions"] is None
    provider.capture("$exception", provider.now - 5, **exception("Later"))
    assert await watched.look() == 0
    assert ok(await owner.call("DELETE", path_of(watched))) == ended
    assert len(provider.calls("/oauth/revoke/")) == 1
    assert await watched.sql(ENDED) == [(1,)]
    assert (await connect(watched.onb, provider))["status"] == "connected"
    assert await watched.look() == 7, "a new connection begins anew"


async def test_who_may_disconnect(watched: Watched) -> None:
    onb, path = watched.onb, path_of(watched)
    stranger, member = await watched.world.sign_in(), await onb.add_member()
    refused(await watched.world.call("DELETE", path), 401, "unauthenticated")
    refused(await stranger.call("DELETE", path), 404, "project_not_found")
    refused(await member.call("DELETE", path), 403, "owner_required")
    other = await onb.owner.create_project()
    refused(await onb.owner.call("DELETE", f"/v1/projects/{other['id']}/provider-connection"), 404, "not_found")
    assert await watched.sql(ENDED) == [(0,)]


async def test_every_connection_of_the_project_ends(watched: Watched, provider: FakeProvider) -> None:
    """An earlier one would else be read again."""
    await connect(watched.onb, provider)
    ok(await watched.onb.owner.call("DELETE", path_of(watched)))
    assert await watched.sql(ENDED) == [(2,)]
    assert await watched.services.providers.connected(watched.onb.project_id) is None


async def test_of_looks_beside_it_none_is_left(watched: Watched, provider: FakeProvider) -> None:
    """Eight at once disconnect, while looks store their steps: one end, and no count after it."""
    for number in range(250):
        provider.capture("$exception", provider.now - 60, **exception("E", function=f"f{number}"))

    async def disconnected() -> dict[str, Any]:
        answer: dict[str, Any] = ok(await watched.onb.owner.call("DELETE", path_of(watched)))
        return answer

    looks = [asyncio.create_task(watched.look()) for _ in range(2)]
    until = time.monotonic() + 30
    while not await watched.sql("select 1 from provider_counts where project_id = %s limit 1"):
        assert time.monotonic() < until
        await asyncio.sleep(0.01)
    answers = await asyncio.gather(*(disconnected() for _ in range(8)))
    await asyncio.gather(*looks)
    assert all(answer == answers[0] for answer in answers)
    assert await watched.sql(ENDED) == [(1,)]
    assert await watched.look() == 0
    await watched.services.exceptions.run()
    assert await watched.sql(LEFT) == NOTHING


async def test_what_a_killed_process_left_goes_with_the_next_round(watched: Watched, provider: FakeProvider) -> None:
    """It had recorded the end, and dropped nothing yet."""
    await feed(watched, provider)
    await watched.world.sql(
        "update provider_connections set status = 'disconnected' where project_id = %s", watched.onb.project_id
    )
    await watched.services.exceptions.run()
    assert (await watched.sql(LEFT))[0][:4] == NOTHING[0][:4]
