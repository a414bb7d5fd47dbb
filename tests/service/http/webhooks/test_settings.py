"""Webhooks by the operator's settings: without a key, without private addresses, with limits (G-090, G-159)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support import seen
from tests.support.api import World, ok, refused
from tests.support.listening import listening


@asynccontextmanager
async def world_with(server_factory: Any, **env: str) -> AsyncIterator[World]:
    """A running service with other settings."""
    server = server_factory(env=env)
    async with seen.async_client(server.base_url, timeout=30) as client:
        yield World(client, server)


@pytest.mark.parametrize("url", ["https://10.0.0.7/", "https://127.0.0.1/", "https://[::1]/", "http://127.0.0.1:8000/"])
async def test_private_addresses_are_refused_unless_allowed(server_factory: Any, url: str):
    async with world_with(server_factory, SERVICE_WEBHOOK_ALLOW_PRIVATE="0") as world:
        owner = await world.sign_in()
        path = f"/v1/projects/{(await owner.create_project())['id']}/webhooks"
        error = refused(await owner.post(path, {"url": url, "events": ["*"]}), 400, "invalid_payload")
        assert [invalid["field"] for invalid in error["details"]["invalid_fields"]] == ["url"]
        unknown = {"url": "https://no-such-host.invalid/", "events": ["*"]}
        made = ok(await owner.post(path, unknown), 201)
        told = ok(await owner.post(f"{path}/{made['id']}/test"))
        assert (told["delivered"], told["last_status"]) == (False, None)


async def test_tests_of_a_webhook_are_ten_a_minute(server_factory: Any):
    async with world_with(server_factory, SERVICE_RATE_LIMITS="1") as world, listening() as listener:
        owner = await world.sign_in()
        path = f"/v1/projects/{(await owner.create_project())['id']}/webhooks"
        made = ok(await owner.post(path, {"url": listener.url, "events": ["*"]}), 201)
        answers = [await owner.post(f"{path}/{made['id']}/test") for _ in range(21)]
        allowed = sum(answer.status_code == 200 for answer in answers)
        assert allowed in {10, 20}  # a minute may have ended meanwhile
        assert len(listener.arrived) == allowed
        assert {answer.status_code for answer in answers} == {200, 429}
