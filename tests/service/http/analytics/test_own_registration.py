"""A default installation registers its OAuth client by itself, once, and connects (G-180, RFC 7591)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
import pytest_asyncio

from service.http.app import create_app
from service.process.assembly import make_services
from service.settings import load_settings
from tests.service.http.edge.toy_api import running as app_running
from tests.support import seen
from tests.support.api import World, ok, refused
from tests.support.cluster import TestCluster
from tests.support.connecting import CALLBACK, START, code_on, poll, press, sent_back, start, visit
from tests.support.onboarding import Onboarding, onboard
from tests.support.provider import GO_ON, FakeProvider, running_provider
from tests.support.server import ServerHandle, running_server

DISCOVERY, REGISTER, TOKEN = "/.well-known/oauth-authorization-server", "/oauth/register/", "/oauth/token/"
WAYS = ("SERVICE_BASE_URL", "SERVICE_PROVIDER_CLIENT_ID", "SERVICE_HOST")


@pytest.fixture(scope="module")
def running() -> Iterator[FakeProvider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster, running: FakeProvider
) -> Iterator[ServerHandle]:
    """A server as `make run` starts one, but for the provider's address and a second API process."""
    env = {**running.unknown_env, "SERVICE_WORKERS": "2"}
    with running_server(tmp_path_factory.mktemp("default"), cluster, env) as handle:
        yield handle


@pytest_asyncio.fixture
async def world(server: ServerHandle) -> Any:
    async with seen.async_client(server.base_url, timeout=30) as client:
        world = World(client, server)
        await world.sql("delete from provider_clients")
        yield world


@pytest.fixture
def provider(running: FakeProvider) -> FakeProvider:
    running.forget()
    return running


def client_in(started: dict[str, Any]) -> str:
    [client] = parse_qs(urlsplit(started["authorization_url"]).query)["client_id"]
    return client


async def test_a_default_installation_connects(world: World, provider: FakeProvider) -> None:
    """From the first call to a refreshed token, by the client that the service has registered."""
    onb = await onboard(world)
    started = await start(onb)
    client_id = client_in(started)
    assert "The browser must be on the machine of this service" in started["next_action"]
    [asked] = provider.calls(REGISTER)
    back = f"http://127.0.0.1:{world.server.port}{CALLBACK}"
    assert (asked["redirect_uris"], asked["token_endpoint_auth_method"]) == ([back], "client_secret_post")
    address = sent_back(started)
    assert address.startswith(f"{back}?")
    page = visit(address)
    assert code_on(page) == started["user_code"]
    assert "on one machine" in page.text
    assert press(page).status_code == 200
    assert (await poll(onb, started))["status"] == "connected"
    [redeemed] = provider.calls(TOKEN)
    secret = provider.registered[client_id].secret
    assert (redeemed["client_id"], redeemed["client_secret"]) == (client_id, secret)
    provider.revoke_access()
    ok(await onb.owner.get(f"/v1/projects/{onb.project_id}/event-names"))
    renewed = provider.calls(TOKEN)[-1]
    assert (renewed["grant_type"], renewed["client_secret"]) == ("refresh_token", secret)
    for table in ("provider_clients", "provider_grants", "events", "idempotency"):
        for text in (secret, client_id):
            [[found]] = await world.sql(f"select count(*) from {table} t where to_jsonb(t)::text like %s", f"%{text}%")
            assert found == 0 or (table == "idempotency" and text == client_id), "the address alone names the client"
    assert secret not in world.server.log()


async def test_it_registers_once_and_not_again_after_a_start(world: World, provider: FakeProvider) -> None:
    onb = await onboard(world)
    first = client_in(await start(onb))
    assert client_in(await start(onb)) == first
    await asyncio.to_thread(world.server.stop)
    await asyncio.to_thread(world.server.start)
    assert client_in(await start(onb)) == first
    assert len(provider.calls(REGISTER)) == 1


async def test_first_calls_at_once_register_once(world: World, provider: FakeProvider) -> None:
    """They meet in two processes, while the provider thinks."""
    onb = await onboard(world)
    arrived, leave = threading.Event(), threading.Event()

    def think(_: Any) -> object:
        arrived.set()
        leave.wait(20)
        return GO_ON

    provider.fail[REGISTER] = think

    async def call() -> str:
        async with seen.async_client(world.server.base_url, timeout=30) as client:
            return client_in(ok(await post(client, onb)))

    calls = [asyncio.create_task(call()) for _ in range(8)]
    await asyncio.to_thread(arrived.wait, 20)
    leave.set()
    clients = await asyncio.gather(*calls)
    assert len(set(clients)) == 1
    assert len(provider.calls(REGISTER)) == 1


async def post(client: Any, onb: Onboarding, **members: Any) -> httpx2.Response:
    """Ask for a connection, whatever the answer is."""
    headers = {"authorization": f"Bearer {onb.owner.secret}"}
    answer: httpx2.Response = await client.post(START, json={"project_id": onb.project_id, **members}, headers=headers)
    return answer


async def refused_ways(onb: Onboarding, **members: Any) -> dict[str, Any]:
    """A call that is refused within 8 seconds, naming the three ways."""
    began = time.monotonic()
    answer = await post(onb.owner.client, onb, **members)
    assert time.monotonic() - began < 8
    error = refused(answer, 503, "service_unavailable")
    assert all(way in error["next_action"] for way in WAYS)
    return {"message": error["message"], "retry-after": answer.headers.get("retry-after")}


def answering(status: int, body: bytes, **headers: str) -> Callable[[Any], None]:
    """An answer of a provider that misbehaves."""

    def answer(handler: Any) -> None:
        handler.reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})

    return answer


async def test_a_provider_where_nobody_registers(world: World, provider: FakeProvider) -> None:
    """Its metadata names no endpoint. Once it does, the next call goes through."""
    onb = await onboard(world)
    provider.registers = False
    assert "has no endpoint" in (await refused_ways(onb))["message"]
    assert provider.calls(REGISTER) == []
    provider.registers = True
    await start(onb)


@pytest.mark.parametrize(
    ("path", "answer", "word"),
    [
        (DISCOVERY, answering(404, b"{}"), "has no endpoint"),
        (DISCOVERY, answering(500, b"{}"), "could not be reached"),
        (DISCOVERY, answering(200, b"<html>"), "unknown form"),
        (DISCOVERY, answering(200, b'{"registration_endpoint": 7}'), "unknown form"),
        (DISCOVERY, answering(200, b'{"registration_endpoint": "https://elsewhere.example/register"}'), "unknown form"),
        (DISCOVERY, answering(200, b'{"registration_endpoint": "http://[x/register"}'), "unknown form"),
        (DISCOVERY, answering(200, b'{"registration_endpoint": "/register"}'), "unknown form"),
        (REGISTER, answering(400, b'{"error": "invalid_client_metadata"}'), "refused it"),
        (REGISTER, answering(403, b"{}"), "refused it"),
        (REGISTER, answering(201, b"[]"), "unknown form"),
        (REGISTER, answering(201, b"{" * 100_000), "unknown form"),
        (REGISTER, answering(201, b'{"client_id": ""}'), "unknown form"),
        (REGISTER, answering(201, b'{"client_id": "a\\u0000"}'), "unknown form"),
        (REGISTER, answering(201, b'{"client_id": "a", "redirect_uris": ["https://b.example"]}'), "unknown form"),
        (REGISTER, answering(201, b'{"client_id": "a", "token_endpoint_auth_method": "tls"}'), "unknown form"),
        (REGISTER, answering(201, b'{"client_id": "a", "client_secret_expires_at": 7}'), "unknown form"),
        (REGISTER, lambda handler: handler.connection.close(), "could not be reached"),
    ],
)
async def test_a_provider_that_misbehaves(
    world: World, provider: FakeProvider, path: str, answer: Callable[[Any], None], word: str
) -> None:
    """Nothing is kept of it, and the next call goes through."""
    onb = await onboard(world)
    provider.fail[path] = answer
    told = await refused_ways(onb)
    assert word in told["message"]
    provider.fail.clear()
    await start(onb)


async def test_a_provider_that_asks_to_wait(world: World, provider: FakeProvider) -> None:
    onb = await onboard(world)
    provider.fail[REGISTER] = answering(429, b"{}", retry_after="17")
    assert (await refused_ways(onb))["retry-after"] == "17"


async def test_a_provider_that_is_slow(world: World, provider: FakeProvider) -> None:
    """Whoever waits is told within 8 seconds, and the next attempt begins anew."""
    onb = await onboard(world)
    leave = threading.Event()
    provider.fail[REGISTER] = lambda _: leave.wait(30)
    try:
        told = await asyncio.gather(refused_ways(onb), refused_ways(onb))
    finally:
        leave.set()
    assert any("in time" in one["message"] for one in told)
    provider.fail.clear()
    await start(onb)


async def test_a_host_of_the_caller_s_has_no_client(world: World, provider: FakeProvider) -> None:
    """A client is registered at the operator's provider alone."""
    onb = await onboard(world)
    await refused_ways(onb, host="https://8.8.8.8")
    assert provider.requests == []


async def test_nobody_answers(tmp_path: Path, server: ServerHandle) -> None:
    """Without a network: the address of the provider is one at which nobody listens."""
    handle = ServerHandle(tmp_path, database_url=server.database_url)
    try:
        await asyncio.to_thread(handle.start)
        async with seen.async_client(handle.base_url, timeout=30) as client:
            onb = await onboard(World(client, handle))
            assert "could not be reached" in (await refused_ways(onb))["message"]
    finally:
        await asyncio.to_thread(handle.stop)


@pytest.mark.parametrize("env", [{"SERVICE_HOST": "10.1.2.3"}, {"SERVICE_ENCRYPTION_KEY": "none"}])
async def test_an_installation_that_browsers_do_not_reach_by_loopback(
    database_url: str, provider: FakeProvider, env: dict[str, str]
) -> None:
    """It asks the provider nothing. Nor does one that could not seal what it gets."""
    settings = {
        **provider.unknown_env,
        "SERVICE_DATABASE_URL": database_url,
        "SERVICE_INTERNAL_TOKEN": "an-internal-token-of-length",
        "SERVICE_ENCRYPTION_KEY": bytes(range(32)).hex(),
        "SERVICE_SIGNING_KEY": bytes(range(32)).hex(),
        "SERVICE_RATE_LIMITS": "off",
        **env,
    }
    services = make_services(load_settings(settings))
    edge = create_app(lambda: services)
    transport = httpx2.ASGITransport(edge)
    async with app_running(edge), seen.async_client("http://here", transport=transport) as client:
        told = {"internal_token": settings["SERVICE_INTERNAL_TOKEN"], "test_token": None, "database_url": database_url}
        onb = await onboard(World(client, SimpleNamespace(**told)))
        await refused_ways(onb)
    assert provider.requests == []
