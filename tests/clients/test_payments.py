"""An independent server of the payment provider's interface sells a plan, and ends it, by its own signed notifications.

It knows customers, plans and subscriptions in an old version of the interface, and neither prices nor checkout.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest

from service.billing.payments import Payments
from service.billing.subscription import Reconciled, reconcile
from service.eventstore.store import EventStore
from service.registry import registry
from service.settingvalues import PLANS, plans
from tests.support.cluster import TestCluster
from tests.support.payments import KEY, SECRET
from tests.support.server import ServerHandle, free_port, running_server

INSTALLED = Path(__file__).parents[2] / ".clients"  # by `make clients`
SECONDS = 30

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(not (INSTALLED / ".installed").exists(), reason="`make clients` installs the server"),
]


def until(holds: Callable[[], Any], said: Callable[[], object]) -> Any:
    """Wait for something to hold; returns what it is."""
    give_up = time.monotonic() + SECONDS
    while not (found := holds()):
        assert time.monotonic() < give_up, said()
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """The provider's server, with a client that has its key."""
    port, log = free_port(), tmp_path_factory.mktemp("payments") / "log"
    program = [str(INSTALLED / "venv" / "bin" / "localstripe"), "--from-scratch", "--port", str(port)]
    with log.open("wb") as out, subprocess.Popen(program, stdout=out, stderr=out, env=os.environ) as process:
        client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers={"authorization": f"Bearer {KEY}"})

        def answers() -> bool:
            try:
                return client.get("/v1/customers").is_success
            except httpx2.HTTPError:
                return False

        try:
            until(answers, log.read_text)
            yield client
        finally:
            client.close()
            process.terminate()


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster, provider: httpx2.Client
) -> Iterator[ServerHandle]:
    env = {
        "SERVICE_PAYMENT_API_KEY": KEY,
        "SERVICE_PAYMENT_API_BASE": str(provider.base_url).rstrip("/"),
        "SERVICE_PAYMENT_WEBHOOK_SECRET": SECRET,
        "NO_PROXY": "127.0.0.1",
    }
    with running_server(tmp_path_factory.mktemp("selling"), cluster, env) as handle:
        hook = {"url": f"{handle.base_url}/v1/billing/webhook", "secret": SECRET}
        provider.post("/_config/webhooks/service", data=hook).raise_for_status()
        yield handle


def sign_in(server: ServerHandle, name: str) -> tuple[str, httpx2.Client]:
    """A person's id, and a client with their key."""
    identity = {"provider": "email", "subject": name, "email": f"{name}@example.com"}
    with server.client() as anyone, server.client(server.internal_token) as hosted:
        started = anyone.post("/v1/auth/device").raise_for_status().json()
        confirmed = {"user_code": started["user_code"], "identity": identity}
        hosted.post("/v1/auth/device/authorize", json=confirmed).raise_for_status()
        key = anyone.post("/v1/auth/device/poll", json={"device_code": started["device_code"]}).raise_for_status()
    return key.json()["user_id"], server.client(key.json()["api_key"])


def buy(provider: httpx2.Client, user_id: str, plan: str) -> str:
    """Have somebody subscribe at the provider, for nothing, so that it is paid; returns the subscription's id."""
    made = provider.post("/v1/plans", data={
        "id": f"{plan}-{user_id}", "amount": "0", "currency": "usd", "interval": "month", "product[name]": plan,
    }).raise_for_status().json()  # fmt: skip
    customer = provider.post("/v1/customers", data={"metadata[user_id]": user_id}).raise_for_status().json()
    bought = provider.post("/v1/subscriptions", data={
        "customer": customer["id"], "items[0][plan]": made["id"],
        "metadata[user_id]": user_id, "metadata[plan]": plan,
    }).raise_for_status().json()  # fmt: skip
    return str(bought["id"])


def plan_of(person: httpx2.Client) -> tuple[str, str]:
    status = person.get("/v1/billing/status").raise_for_status().json()
    return status["plan"], status["billing"]["status"]


def test_a_subscription_gives_the_plan_and_its_end_takes_it(server: ServerHandle, provider: httpx2.Client) -> None:
    user_id, person = sign_in(server, "buyer")
    with person:
        bought = buy(provider, user_id, "pro")
        until(lambda: plan_of(person) == ("pro", "active"), server.log)
        provider.delete(f"/v1/subscriptions/{bought}").raise_for_status()
        until(lambda: plan_of(person) == ("free", "canceled"), server.log)


def test_the_service_ends_what_was_replaced(server: ServerHandle, provider: httpx2.Client) -> None:
    """By the official library: the older of two ends there, and the larger plan stays."""
    user_id, person = sign_in(server, "changer")
    with person:
        first = buy(provider, user_id, "pro")
        until(lambda: plan_of(person) == ("pro", "active"), server.log)
        second = buy(provider, user_id, "scale")

        def status(id_: str) -> str:
            return str(provider.get(f"/v1/subscriptions/{id_}").raise_for_status().json()["status"])

        until(lambda: status(first) == "canceled", server.log)
        assert (status(second), plan_of(person)) == ("active", ("scale", "active"))


def test_what_was_told_in_vain_is_read_there(server: ServerHandle, provider: httpx2.Client) -> None:
    """A purchase and its end of which no notification arrives."""
    hook = {"url": "http://127.0.0.1:9/", "secret": SECRET}
    provider.post("/_config/webhooks/service", data=hook).raise_for_status()
    user_id, person = sign_in(server, "unheard")
    with person:
        bought = buy(provider, user_id, "scale")
        assert plan_of(person) == ("free", "none")
        assert look(server, provider).corrected == 1
        assert plan_of(person) == ("scale", "active")
        provider.delete(f"/v1/subscriptions/{bought}").raise_for_status()
        time.sleep(1.1)  # of two looks in one second the first would count
        assert look(server, provider).corrected == 1
        assert plan_of(person) == ("free", "canceled")


def look(server: ServerHandle, provider: httpx2.Client) -> Reconciled:
    """Read at the provider, as the worker does every ten minutes."""
    settings = SimpleNamespace(
        payment_api_key=KEY, payment_api_base=str(provider.base_url).rstrip("/"), payment_webhook_secret=None
    )

    async def once() -> Reconciled:
        assert server.database_url is not None
        store = EventStore(server.database_url, registry())
        await store.start()
        try:
            return await reconcile(store, Payments(cast("Any", settings)), plans(PLANS))
        finally:
            await store.stop()

    return asyncio.run(once())
