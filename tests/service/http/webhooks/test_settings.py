"""Webhooks by the operator's settings: without a key, without private addresses, with limits (G-090, G-159)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support import seen
from tests.support.api import World, ok, refused
from tests.support.cluster import TestCluster
from tests.support.listening import listening
from tests.support.server import ServerHandle, running_server


@asynccontextmanager
async def world_with(server_factory: Any, **env: str) -> AsyncIterator[World]:
    """A running service with other settings."""
    async with caller_of(server_factory(env=env)) as world:
        yield world


@asynccontextmanager
async def caller_of(server: Any) -> AsyncIterator[World]:
    """A running service, called anonymously."""
    async with seen.async_client(server.base_url, timeout=30) as client:
        yield World(client, server)


@pytest.fixture(scope="module")
def public(cluster: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerHandle]:
    """A service whose webhooks may go to public addresses alone."""
    env = {"SERVICE_WEBHOOK_ALLOW_PRIVATE": "0"}
    with running_server(tmp_path_factory.mktemp("public"), cluster, env) as handle:
        yield handle


@pytest.mark.parametrize("url", ["https://10.0.0.7/", "https://127.0.0.1/", "https://[::1]/", "http://127.0.0.1:8000/"])
async def test_private_addresses_are_refused_unless_allowed(public: ServerHandle, url: str):
    async with caller_of(public) as world:
        owner = await world.sign_in()
        path = f"/v1/projects/{(await owner.create_project())['id']}/webhooks"
        error = refused(await owner.post(path, {"url": url, "events": ["*"]}), 400, "invalid_payload")
        assert [invalid["field"] for invalid in error["details"]["invalid_fields"]] == ["url"]
        unknown = {"url": "https://no-such-host.invalid/", "events": ["*"]}
        made = ok(await owner.post(path, unknown), 201)
        told = ok(await owner.post(f"{path}/{made['id']}/test"))
        assert (told["delivered"], told["last_status"]) == (False, None)


async def test_without_an_encryption_key_no_secret_and_no_address_is_taken(server_factory: Any, database_url: str):
    """Those that are there stay: they are listed, switched off and deleted."""
    server = server_factory(database_url=database_url)
    async with caller_of(server) as world:
        owner = await world.sign_in()
        path = f"/v1/projects/{(await owner.create_project())['id']}/webhooks"
        wish = {"url": "https://127.0.0.1:9/x?token=t", "events": ["*"]}
        made = ok(await owner.post(path, wish), 201)
    server.stop()
    server = server_factory(database_url=database_url, env={"SERVICE_ENCRYPTION_KEY": "none"})
    async with caller_of(server) as world:
        again, one = world.having(owner.secret), f"{path}/{made['id']}"
        for method, where, body in (
            ("POST", path, wish),
            ("PATCH", one, {"url": "https://127.0.0.1:10/y"}),
            ("POST", f"{one}/rotate-secret", {}),
        ):
            answer = await again.client.request(
                method, where, json=body, headers={"authorization": f"Bearer {owner.secret}"}
            )
            error = refused(answer, 503, "service_unavailable")
            assert "SERVICE_ENCRYPTION_KEY" in error["next_action"]
        [shown] = ok(await again.get(path))["webhooks"]
        assert shown == {**shown, "id": made["id"], "url": "https://127.0.0.1:9"}
        assert not ok(await again.call("PATCH", one, {"enabled": False}))["enabled"]
        ok(await again.call("DELETE", one))
        assert ok(await again.get(path))["count"] == 0


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
