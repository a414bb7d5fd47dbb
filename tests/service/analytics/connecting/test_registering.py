"""The client that the service registers for itself: one for all processes, and never a torn one (G-180)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from service.analytics.connecting.http import ProviderClient
from service.analytics.connecting.registering import (
    EARLY_SECONDS,
    LEASE_SECONDS,
    PURPOSE,
    OAuthClient,
    Registrar,
    Registration,
)
from service.auth.secrets import seal
from service.egress.guard import Guard
from service.eventstore.store import EventStore
from service.registry import registry
from service.settings import load_settings
from statemachines.kernel.machine import ReadFailed
from tests.support.provider import GO_ON, FakeProvider, running_provider

REGISTER = "/oauth/register/"
KEY = bytes(32)


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with running_provider() as running:
        yield running


@pytest_asyncio.fixture
async def stores(database_url: str) -> AsyncIterator[list[EventStore]]:
    """Those of two processes."""
    made = [EventStore(database_url, registry()) for _ in range(2)]
    for store in made:
        await store.start()
    yield made
    for store in made:
        await store.stop()


def registrar(provider: FakeProvider, key: str = "00") -> Registrar:
    """That of another process."""
    settings = load_settings({**provider.unknown_env, "SERVICE_ENCRYPTION_KEY": key * 32}, secrets=False)
    return Registrar(ProviderClient(settings, Guard()), Registration(settings), settings.encryption_key)


def held(provider: FakeProvider) -> tuple[threading.Event, threading.Event]:
    """Hold the first registration at the provider: when it has arrived, and when it may leave."""
    arrived, leave = threading.Event(), threading.Event()

    def hold(_: Any) -> object:
        first = not arrived.is_set()
        arrived.set()
        if first:
            leave.wait(30)
        return GO_ON

    provider.fail[REGISTER] = hold
    return arrived, leave


async def test_two_processes_register_one_client(provider: FakeProvider, stores: list[EventStore]) -> None:
    """The second one waits for what the first one gets, also when that takes seconds."""
    arrived, leave = held(provider)
    one = asyncio.create_task(registrar(provider).obtain(stores[0]))
    await asyncio.to_thread(arrived.wait, 20)
    two = asyncio.create_task(registrar(provider).obtain(stores[1]))
    [done, _] = await asyncio.wait([two], timeout=0.5)
    assert not done
    leave.set()
    first, second = await one, await two
    assert isinstance(first, OAuthClient)
    assert first == second
    assert len(provider.calls(REGISTER)) == 1


async def test_whoever_waits_is_told_of_a_failure(provider: FakeProvider, stores: list[EventStore]) -> None:
    """They do not try again one after the other."""
    arrived, leave = held(provider)
    one = asyncio.create_task(registrar(provider).obtain(stores[0]))
    await asyncio.to_thread(arrived.wait, 20)
    two = asyncio.create_task(registrar(provider).obtain(stores[1]))
    provider.registers = False
    leave.set()
    assert await one == ReadFailed("refused")
    assert isinstance(await two, ReadFailed)
    assert len(provider.calls(REGISTER)) == 1


async def test_the_claim_of_a_dead_process_runs_out(provider: FakeProvider, stores: list[EventStore], sql: Any) -> None:
    """Its late answer is not recorded over that of the next one."""
    arrived, leave = held(provider)
    late = asyncio.create_task(registrar(provider).obtain(stores[0]))
    await asyncio.to_thread(arrived.wait, 20)
    sql.execute("update provider_clients set claimed_until = claimed_until - %s", (LEASE_SECONDS,))
    client = await registrar(provider).obtain(stores[1])
    leave.set()
    assert isinstance(client, OAuthClient)
    assert await late == ReadFailed("timeout")
    assert await registrar(provider).obtain(stores[0]) == client
    assert len(provider.calls(REGISTER)) == 2


async def test_callers_who_leave_take_nothing_with_them(provider: FakeProvider, stores: list[EventStore]) -> None:
    arrived, leave = held(provider)
    ours = registrar(provider)
    caller = asyncio.create_task(ours.obtain(stores[0]))
    await asyncio.to_thread(arrived.wait, 20)
    caller.cancel()
    leave.set()
    assert isinstance(await ours.obtain(stores[0]), OAuthClient)
    assert len(provider.calls(REGISTER)) == 1


async def test_another_key_or_address_is_another_client(provider: FakeProvider, stores: list[EventStore]) -> None:
    """What the service cannot open it registers anew; another installation's redirect is not ours."""
    first = await registrar(provider).obtain(stores[0])
    again = await registrar(provider, "11").obtain(stores[0])
    assert isinstance(first, OAuthClient)
    assert isinstance(again, OAuthClient)
    assert first.id != again.id
    assert first.redirect_uri == again.redirect_uri == "http://127.0.0.1:8000/v1/auth/provider/callback"


async def test_a_secret_that_ends_is_replaced(provider: FakeProvider, stores: list[EventStore], sql: Any) -> None:
    """A provider may end secrets (RFC 7591, section 3.2.1)."""
    first = await registrar(provider).obtain(stores[0])
    assert isinstance(first, OAuthClient)
    ending = msgspec.structs.replace(first, expires_at=int(time.time()) + EARLY_SECONDS - 1)
    scope = f"{provider.url} {first.redirect_uri}"
    sql.execute("update provider_clients set sealed = %s", (seal(KEY, PURPOSE, scope, _json(ending)),))
    second = await registrar(provider).obtain(stores[0])
    assert isinstance(second, OAuthClient)
    assert second.id != first.id
    assert await registrar(provider).obtain(stores[1]) == second


def _json(client: OAuthClient) -> str:
    return msgspec.json.encode(client).decode()
