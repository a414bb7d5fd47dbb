"""An installation with a public address is its own client at the provider (G-164)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import pytest_asyncio

from tests.service.http.analytics.test_connection import provider as provider  # noqa: PLC0414 (found by name)
from tests.service.http.analytics.test_connection import running as running  # noqa: PLC0414
from tests.support import seen
from tests.support.api import World, ok
from tests.support.cluster import TestCluster
from tests.support.connecting import CALLBACK, code_on, poll, press, sent_back, start, visit
from tests.support.onboarding import onboard
from tests.support.provider import FakeProvider
from tests.support.server import ServerHandle, running_server

PUBLIC = "https://service.example"
DOCUMENT = "/.well-known/oauth-client"


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster, running: FakeProvider
) -> Iterator[ServerHandle]:
    """A server behind a public address, without a client of the operator."""
    env = {
        **running.unknown_env,
        "SERVICE_BASE_URL": PUBLIC,
        "SERVICE_PROVIDER_CLIENT_SECRET": "of another client",
    }
    with running_server(tmp_path_factory.mktemp("public"), cluster, env) as handle:
        yield handle


@pytest_asyncio.fixture
async def world(server: ServerHandle) -> Any:
    async with seen.async_client(server.base_url, timeout=30) as client:
        yield World(client, server)


async def test_a_sign_in_with_the_document_as_client(world: World, provider: FakeProvider) -> None:
    """The provider fetches the document from its address, and the client has no secret."""
    fetched = await world.client.get(DOCUMENT)
    assert fetched.headers["cache-control"] == "public, max-age=3600"
    document = ok(fetched)
    client_id = f"{PUBLIC}{DOCUMENT}"
    onb = await onboard(world)
    started = await start(onb)
    assert visit(started["authorization_url"]).status_code == 400, "the provider has not read the document yet"
    provider.documents[client_id] = document
    address = sent_back(started)
    assert address.startswith(f"{PUBLIC}{CALLBACK}?")
    page = visit(address.replace(PUBLIC, world.server.base_url))
    assert code_on(page) == started["user_code"]
    assert press(page).status_code == 200
    assert (await poll(onb, started))["status"] == "connected"
    [redeemed] = provider.calls("/oauth/token/")
    assert (redeemed["client_id"], redeemed["redirect_uri"]) == (client_id, f"{PUBLIC}{CALLBACK}")
    assert "client_secret" not in redeemed
    provider.rotates = False  # as for all clients by document
    provider.revoke_access()
    ok(await onb.owner.get(f"/v1/projects/{onb.project_id}/event-names"))
    assert provider.calls("/oauth/token/")[-1]["client_id"] == client_id
