"""Payments over HTTP: status, checkout, portal, and what the provider tells (R-BILL-05 to R-BILL-10, G-073)."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest
import pytest_asyncio

from projections.billing import SUBSCRIPTIONS
from service.billing.payments import Payments
from service.billing.subscription import reconcile
from service.history.rebuild import rebuild
from service.settingvalues import PLANS, plans
from tests.support import seen
from tests.support.api import Person, World, at_once, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.cluster import TestCluster
from tests.support.payments import (
    KEY,
    SECRET,
    FakePayments,
    checkout,
    notification,
    running_payments,
    signature,
    subscription,
)
from tests.support.server import ServerHandle, running_server

STATUS, CHECKOUT, PORTAL, WEBHOOK = (f"/v1/billing/{name}" for name in ("status", "checkout", "portal", "webhook"))
UPDATED, DELETED = "customer.subscription.updated", "customer.subscription.deleted"


@pytest.fixture(scope="module")
def running() -> Iterator[FakePayments]:
    with running_payments() as fake:
        yield fake


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster, running: FakePayments
) -> Iterator[ServerHandle]:
    """A server that sells, by the stand-in."""
    env = {
        "SERVICE_PAYMENT_API_KEY": KEY,
        "SERVICE_PAYMENT_API_BASE": running.url,
        "SERVICE_PAYMENT_WEBHOOK_SECRET": SECRET,
        "NO_PROXY": "127.0.0.1",
    }
    with running_server(tmp_path_factory.mktemp("paid"), cluster, env) as handle:
        yield handle


@pytest.fixture
def provider(running: FakePayments) -> FakePayments:
    running.forget()
    return running


@pytest_asyncio.fixture
async def bare(shared_server: ServerHandle) -> Any:
    """A service in whose settings there is no provider."""
    async with seen.async_client(shared_server.base_url, timeout=30) as client:
        yield World(client, shared_server)


_numbers = iter(range(1, 1000))


def new_id() -> str:
    return f"sub_{next(_numbers)}_{time.time_ns()}"


async def send(world: World, body: Any, *, header: str = "stripe-signature", **more: Any) -> httpx2.Response:
    """Send a notification as the provider does; `signed` in its place is the header's value."""
    raw = body if isinstance(body, bytes) else json.dumps(body, indent=2).encode()
    headers = {"content-type": "application/json; charset=utf-8"}
    signed = more["signed"] if "signed" in more else signature(raw, **more)
    if signed is not None:
        headers[header] = signed
    return await world.client.post(WEBHOOK, content=raw, headers=headers)


async def tell(world: World, kind: str, about: dict[str, Any], created: int, id_: str | None = None) -> dict[str, Any]:
    return ok(await send(world, notification(kind, about, created, id_)))


async def plan_of(person: Person) -> tuple[str, str]:
    found = ok(await person.get(STATUS))
    return found["plan"], found["billing"]["status"]


async def test_status_names_plan_payment_and_use(world: World):
    """Every member that the document requires, and the same plan wherever it shows (R-BILL-05)."""
    person = await world.sign_in()
    status = ok(await person.get(STATUS))
    assert (status["user_id"], status["plan"], status["price_cents"]) == (person.user_id, "free", 0)
    assert status["billing"] == {"status": "none", "current_period_end": None}
    assert status["usage"] == {"total_events": 0, "breakdown": {"errors": 0, "analytics": 0, "deploys": 0}}
    operation = {"method": "POST", "path": CHECKOUT}
    assert status["upgrade"] == {"available": True, "recommended_plan": "pro", "operation": operation}
    sub = new_id()
    await tell(world, UPDATED, subscription(sub, user_id=person.user_id, until=1_999_999_999), 100)
    status, usage = ok(await person.get(STATUS)), ok(await person.get("/v1/usage"))
    assert (status["plan"], status["plan_name"], status["price_cents"]) == ("pro", "Pro", 2900)
    assert status["billing"] == {"status": "active", "current_period_end": 1_999_999_999}
    for shown in (status, usage):
        assert (shown["monthly_event_cap"], shown["retention_days"]) == (2_000_000, 90)
        assert shown["upgrade"]["recommended_plan"] == "scale"
        assert shown["quota"]["cap"] == 2_000_000
    for bad in ("2026-13", "9999-01", "x"):
        refused(await person.get(STATUS, params={"period": bad}), 400, "invalid_payload")
    assert ok(await person.get(f"{STATUS}?period=1970-01"))["period"] == "1970-01"


async def test_a_checkout_is_for_its_account_alone(world: World, provider: FakePayments):
    """A link, its session and price; the provider hears whose it is, and each key makes one page (R-BILL-06, -07)."""
    person, other = await world.sign_in(), await world.sign_in()
    body = {"plan": "pro", "success_url": "https://shop.example/done", "cancel_url": "http://localhost:3000/x"}
    started = ok(await person.post(CHECKOUT, body, key="once"))
    assert started["checkout_url"].startswith(provider.url)
    assert (started["plan"], started["price_id"]) == ("pro", provider.prices[0]["id"])
    [form] = provider.sent("/v1/checkout/sessions")
    assert form["client_reference_id"] == form["metadata[user_id]"] == person.user_id
    assert form["subscription_data[metadata][user_id]"] == person.user_id
    assert (form["mode"], form["success_url"]) == ("subscription", body["success_url"])
    assert (form["line_items[0][price]"], form["line_items[0][quantity]"]) == (started["price_id"], "1")
    replayed = await person.post(CHECKOUT, body, key="once")
    assert (ok(replayed), replayed.headers["idempotent-replayed"]) == (started, "true")
    refused(await person.post(CHECKOUT, {"plan": "scale"}, key="once"), 422, "idempotency_key_reused")
    elsewhere = ok(await other.post(CHECKOUT, body, key="once"))
    assert elsewhere["session_id"] != started["session_id"]
    assert elsewhere["price_id"] == started["price_id"], "a plan has one price"
    assert provider.prices[0]["unit_amount"] == 2900
    for path in (STATUS, "/v1/usage"):
        assert started["checkout_url"] not in (await person.get(path)).text


BAD_CHECKOUTS: list[Any] = [
    {},
    {"plan": "free"},
    {"plan": "gold"},
    {"plan": None},
    {"plan": "pro", "price": 1},
    {"plan": "pro", "success_url": "http://shop.example/"},
    {"plan": "pro", "success_url": "javascript:alert(1)"},
    {"plan": "pro", "cancel_url": "https://user:secret@shop.example/"},
    {"plan": "pro", "cancel_url": "https://shop.example:99999/"},
    {"plan": "pro", "success_url": "https://[::1/"},
    {"plan": "pro", "success_url": "/done"},
    {"plan": "pro", "success_url": "https://shop.example/\r\nx: y"},
    {"plan": "pro", "success_url": "https://" + "x" * 2000},
    {"plan": "pro\u0000"},
    [],
]


async def test_bad_bodies_reach_no_provider(world: World, provider: FakePayments):
    person = await world.sign_in()
    for body in BAD_CHECKOUTS:
        refused(await person.post(CHECKOUT, body), 400, "invalid_payload")
    for bad in ({"return_url": "ftp://x.example"}, {"return_url": 7}, {"customer": "cus_other"}, []):
        refused(await person.post(PORTAL, bad), 400, "invalid_payload")
    assert provider.calls == []


async def test_other_credentials_open_nothing(world: World, provider: FakePayments):
    owner = await world.sign_in()
    made = await owner.create_project()
    ci = world.having((await owner.create_credential(made["id"], "ci"))["credential"])
    for path, body in ((CHECKOUT, {"plan": "pro"}), (PORTAL, {})):
        refused(await world.post(path, body), 401, "unauthenticated")
        refused(await world.having(made["dsn"]).post(path, body), 403, "principal_not_allowed")
        refused(await ci.post(path, body), 403, "principal_not_allowed")
    refused(await world.get(STATUS), 401, "unauthenticated")
    refused(await ci.get(STATUS), 403, "principal_not_allowed")
    assert provider.calls == []


async def test_a_portal_is_the_customers_own(world: World, provider: FakePayments):
    """Who has bought something comes to what they bought, anybody else to an empty page (R-BILL-08)."""
    person, newcomer, sub = await world.sign_in(), await world.sign_in(), new_id()
    await tell(world, UPDATED, subscription(sub, user_id=person.user_id), 100)
    opened = ok(await person.post(PORTAL, {"return_url": "https://shop.example/"}, key="once"))
    assert opened["url"].startswith(provider.url)
    assert ok(await person.post(PORTAL, {"return_url": "https://shop.example/"}, key="once")) == opened
    assert provider.sent("/v1/billing_portal/sessions")[0] == {
        "customer": f"cus_{sub}", "return_url": "https://shop.example/",
    }  # fmt: skip
    ok(await newcomer.post(PORTAL))
    assert provider.sent("/v1/customers") == [{"metadata[user_id]": newcomer.user_id}]
    assert provider.sent("/v1/billing_portal/sessions")[-1]["customer"] != f"cus_{sub}"


async def post_for_503(person: Person, path: str, body: Any) -> dict[str, Any]:
    answer = await person.client.post(path, json=body, headers={"authorization": f"Bearer {person.secret}"})
    return refused(answer, 503, "payment_provider_unavailable")


async def test_without_a_provider_it_says_what_to_configure(bare: World):
    person = await bare.sign_in()
    for path, body in ((CHECKOUT, {"plan": "pro"}), (PORTAL, {})):
        assert "SERVICE_PAYMENT_API_KEY" in (await post_for_503(person, path, body))["next_action"]
    assert ok(await person.get(STATUS))["upgrade"]["available"] is False
    refused(await send(bare, notification(UPDATED, subscription("sub_1"), 1)), 401, "invalid_signature")


async def test_a_provider_that_fails_is_one_refusal(world: World, provider: FakePayments):
    """Whatever it answers; nothing of its words or of the key is in the answer or in the log."""
    person = await world.sign_in()
    for status in (400, 401, 403, 404, 429, 500, 503):
        provider.fail["/v1/checkout/sessions"] = status
        error = await post_for_503(person, CHECKOUT, {"plan": "pro"})
        assert "leaks" not in json.dumps(error)
        assert error["retryable"] is (status >= 429), "nobody repeats what is refused until the operator acts"
        assert ("operator" in error["next_action"]) is (status < 429)
    provider.fail.clear()
    ok(await person.post(CHECKOUT, {"plan": "pro"}))
    log = world.server.log()
    assert "payment_provider_failed" in log
    assert all(secret not in log for secret in (KEY, SECRET, "leaks"))


async def test_an_operator_hears_what_to_change(world: World, provider: FakePayments):
    """A wrong key and an inactive portal pass with no repeat, so that no client is told to."""
    person = await world.sign_in()
    provider.fail["/v1/billing_portal/sessions"] = 400
    refused_ = await person.client.post(PORTAL, json={}, headers={"authorization": f"Bearer {person.secret}"})
    error = refused(refused_, 503, "payment_provider_unavailable")
    assert (error["retryable"], "retry-after" in refused_.headers) == (False, False)
    assert "customer portal" in error["next_action"]
    provider.fail["/v1/billing_portal/sessions"] = 401
    assert "SERVICE_PAYMENT_API_KEY" in (await post_for_503(person, PORTAL, {}))["next_action"]


@pytest.mark.parametrize(
    ("member", "other"),
    [
        ("unit_amount", 1),
        ("currency", "eur"),
        ("recurring", {"interval": "year", "interval_count": 1}),
        ("recurring", {"interval": "month", "interval_count": 3}),
        ("recurring", None),
        ("product", {"id": "prod_1", "object": "product", "active": False, "metadata": {"service_plan": "pro"}}),
        ("product", {"id": "prod_2", "object": "product", "active": True, "metadata": {}}),
        ("product", {"id": "prod_2", "object": "product", "active": True, "metadata": {"service_plan": "scale"}}),
    ],
)
async def test_a_price_of_something_else_is_not_sold(world: World, provider: FakePayments, member: str, other: Any):
    """Under our key: a yearly price, one of another product or of one that is not sold any more."""
    person = await world.sign_in()
    first = ok(await person.post(CHECKOUT, {"plan": "pro"}))["price_id"]
    assert provider.prices[0]["lookup_key"] == "service_pro_month"
    assert ok(await person.post(CHECKOUT, {"plan": "pro"}))["price_id"] == first
    provider.prices[0][member] = other
    provider.answered.clear()
    assert ok(await person.post(CHECKOUT, {"plan": "pro"}))["price_id"] != first


async def test_a_slow_provider_holds_up_nobody_else(world: World, provider: FakePayments):
    """Sixteen requests may wait for it in a process, one more is refused at once; other answers come as ever."""
    person = await world.sign_in()
    provider.slow["/v1/billing_portal/sessions"] = 1.0
    headers = {"authorization": f"Bearer {person.secret}"}
    waiting = asyncio.gather(*(person.client.post(PORTAL, json={}, headers=headers) for _ in range(24)))
    await asyncio.sleep(0.4)
    began = time.monotonic()
    ok(await person.get("/v1/usage"))
    assert time.monotonic() - began < 0.9
    statuses = [answer.status_code for answer in await waiting]
    assert set(statuses) == {200, 503}
    assert statuses.count(503) >= 8


@pytest.mark.parametrize("header", ["stripe-signature", "provider-signature"])
async def test_a_purchase_changes_the_plan(world: World, header: str):
    """From the checkout to the end of the subscription; what is told twice is recorded once (R-BILL-10)."""
    person, sub = await world.sign_in(), new_id()
    bought = notification("checkout.session.completed", checkout(sub, person.user_id, "scale"), 100)
    answer = ok(await send(world, bought, header=header))
    assert {**answer, "next_action": ""} == {
        "received": True, "handled": True, "event_id": bought["id"], "event_type": "checkout.session.completed",
        "user_id": person.user_id, "plan": "scale", "billing_status": "active", "next_action": "",
    }  # fmt: skip
    assert await plan_of(person) == ("scale", "active")
    # What follows does not say whose it is: the subscription, and the customer of another one, are known by now.
    for standing, created, expected in (
        ("active", 101, ("scale", "active")),
        ("past_due", 110, ("scale", "past_due")),
        ("unpaid", 120, ("free", "past_due")),
        ("active", 130, ("scale", "active")),
    ):
        body = notification(UPDATED, subscription(sub, standing, "scale"), created)
        assert ok(await send(world, body)) == ok(await send(world, body))
        assert await plan_of(person) == expected
    # One that begins would have the other ended at once, as surplus.
    again = subscription(new_id(), "past_due", "pro", customer=f"cus_{sub}")
    assert (await tell(world, "customer.subscription.created", again, 10))["user_id"] == person.user_id
    assert (await tell(world, DELETED, again, 20))["plan"] == "scale"
    assert (await tell(world, DELETED, subscription(sub, "canceled", "scale"), 140))["billing_status"] == "canceled"
    assert await plan_of(person) == ("free", "canceled")
    events = await world.sql("select count(*) from events where project_id = %s and kind = 'sub'", person.user_id)
    assert events == [(8,)]


async def test_reordered_replayed_and_at_once_it_ends_alike(world: World):
    """The same life for many accounts, each told in an order of its own, with repeats, all at the same time (G-073)."""

    async def live(number: int) -> tuple[str, str]:
        person, sub, draw = await world.sign_in(), new_id(), random.Random(number)
        told = [
            notification("checkout.session.completed", checkout(sub, person.user_id), 101),
            notification("customer.subscription.created", subscription(sub, "incomplete", user_id=person.user_id), 100),
            notification(UPDATED, subscription(sub, "active", user_id=person.user_id), 100),
            notification(UPDATED, subscription(sub, "past_due", user_id=person.user_id), 200),
            notification(UPDATED, subscription(sub, "active", "scale", user_id=person.user_id), 201),
        ]
        order = draw.sample(told * 2, len(told) * 2)
        await asyncio.gather(*(send_until_taken(body) for body in order))
        return await plan_of(person)

    async def send_until_taken(body: Any) -> None:
        for _ in range(20):  # as the provider does with what it gets no 2xx for
            if (await send(world, body)).status_code == 200:
                return
        pytest.fail("never taken")

    assert set(await at_once(8, live)) == {("scale", "active")}


async def test_looks_at_the_provider_race_its_notifications(
    world: World, provider: FakePayments, monkeypatch: pytest.MonkeyPatch
):
    """Some are lost, some come while the provider is read: each account ends as the provider has it (R-BILL-10)."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    payments = Payments(cast("Any", SimpleNamespace(
        payment_api_key=KEY, payment_api_base=provider.url, payment_webhook_secret=None
    )))  # fmt: skip
    people, began = [await world.sign_in() for _ in range(8)], int(time.time()) - 3600
    lives = [
        [subscription(sub, word, user_id=person.user_id, plan=plan) for word, plan in
         (("active", "pro"), ("past_due", "pro"), ("active", "scale"), ("past_due", "scale"))]
        for person, sub in ((person, new_id()) for person in people)
    ]  # fmt: skip
    provider.subscriptions = [life[-1] for life in lives]
    told = [notification(UPDATED, about, began + n) for life in lives for n, about in enumerate(life)]
    heard = random.Random(5).sample(told, len(told) * 2 // 3)

    async def work(store: Any) -> None:
        ours = plans(PLANS)
        sent = [tell_as_it_is(body) for body in heard]
        await asyncio.gather(*sent, *(reconcile(store, payments, ours) for _ in range(3)))
        await reconcile(store, payments, ours)

    async def tell_as_it_is(body: Any) -> None:
        assert (await send(world, body)).status_code in {200, 503}  # what is not taken is lost, for once

    await world.operate(work)
    assert {await plan_of(person) for person in people} == {("scale", "past_due")}


async def test_a_forged_or_stale_signature_is_refused(world: World):
    """Wrong secret, changed bytes, too old, ahead, another scheme, nothing: all look alike, and nothing changes."""
    person = await world.sign_in()
    body = json.dumps(notification(UPDATED, subscription(new_id(), user_id=person.user_id), 100)).encode()
    good, now = signature(body), time.time()
    stamp, mac = good.split(",")
    bad = [
        signature(body, secret="whsec_other"), signature(body, secret=""), signature(body + b" "),
        signature(body, at=now - 301), signature(body, at=0), good.replace("v1=", "v0="), stamp, mac, "", "t=,v1=",
        signature(body, at=now + 360),
        f"t=x,{mac}", f"{stamp},v1=", f"{stamp},v1={'0' * 64}", f"t={int(now) + 7},{mac}", "é", f"{stamp},v1=é",
        mac.upper() + "," + stamp, "," * 1000, f"t={'9' * 400},{mac}",
    ]  # fmt: skip
    seen = set()
    for value in bad:
        raw = value.encode("latin-1")
        answer = await world.client.post(
            WEBHOOK, content=body, headers=[(b"content-type", b"application/json"), (b"stripe-signature", raw)]
        )
        refused(answer, 401, "invalid_signature")
        seen.add(answer.json()["error"]["message"])
    assert len(seen) == 1
    refused(await send(world, body, signed=None), 401, "invalid_signature")
    refused(await send(world, body.replace(b"pro", b"pr0"), signed=good), 401, "invalid_signature")
    for both in (("stripe-signature", "stripe-signature"), ("stripe-signature", "provider-signature")):
        headers = [("content-type", "application/json"), *((name, good) for name in both)]
        assert (await world.client.post(WEBHOOK, content=body, headers=headers)).status_code in {400, 401}
    assert await plan_of(person) == ("free", "none")
    # An old secret may still sign beside the new one: any of the signatures may match.
    ok(await send(world, body, signed=f"{stamp},v1={'0' * 64},{mac}"))
    assert await plan_of(person) == ("pro", "active")
    ok(await send(world, body, at=now - 290))


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b'"x"', b'{"a":1,"a":2}', b'{"a":"\\u0000"}'])
async def test_a_signed_body_that_is_no_object_is_refused(world: World, body: bytes):
    refused(await send(world, body), 400, "invalid_payload")


async def test_signed_bytes_that_are_no_text_are_refused(world: World):
    refused(await send(world, b'{"a":"\xff"}'), 401, "invalid_signature")


async def test_what_is_about_nothing_here_is_acknowledged(world: World):
    """Other types, other products, other people's customers: taken, and left (R-BILL-09)."""
    for body in (
        {}, {"id": 7, "type": []}, notification("invoice.paid", {"id": "in_1"}, 1),
        notification(UPDATED, subscription(new_id(), plan="socks", user_id="usr_nobody1"), 1),
        notification(UPDATED, subscription(new_id(), user_id="usr_nobody1"), 1),
        notification(DELETED, subscription(new_id()), 1),
    ):  # fmt: skip
        answer = ok(await send(world, body))
        assert (answer["received"], answer["handled"], answer["user_id"], answer["plan"]) == (True, False, None, None)


async def test_one_account_says_nothing_of_another(world: World):
    """Who is named in a later notification changes nothing: a subscription stays whose it was first."""
    person, other, sub = await world.sign_in(), await world.sign_in(), new_id()
    await tell(world, UPDATED, subscription(sub, user_id=person.user_id), 100)
    moved = await tell(world, UPDATED, subscription(sub, "active", "scale", user_id=other.user_id), 200)
    assert moved["user_id"] == person.user_id
    assert await plan_of(other) == ("free", "none")


async def test_another_plan_replaces_the_one_before(world: World, provider: FakePayments):
    """The same plan is not sold twice; once another is paid, the one before is ended at the provider."""
    person, first, second = await world.sign_in(), new_id(), new_id()
    await tell(world, UPDATED, subscription(first, user_id=person.user_id), 100)
    refused(await person.post(CHECKOUT, {"plan": "pro"}), 400, "invalid_payload")
    ok(await person.post(CHECKOUT, {"plan": "scale"}))
    assert provider.sent("/v1/checkout/sessions")[0]["customer"] == f"cus_{first}"
    await world.wait(1)
    await tell(world, "checkout.session.completed", checkout(second, person.user_id, "scale"), 200)
    await until(lambda: first in provider.canceled)
    assert await plan_of(person) == ("scale", "active")
    assert second not in provider.canceled


async def until(holds: Any, seconds: float = 20) -> None:
    give_up = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < give_up
        await asyncio.sleep(0.05)


async def delete_account(person: Person, key: str) -> dict[str, Any]:
    answer = await person.post("/v1/auth/self_delete", {"confirm": "DELETE"}, key=key)
    assert answer.status_code in {200, 202}, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def gone(person: Person, key: str) -> dict[str, Any]:
    give_up = time.monotonic() + 30
    while (found := await delete_account(person, key))["status"] != "deleted":
        assert time.monotonic() < give_up, found
        await asyncio.sleep(0.2)
    return found


async def test_nobody_pays_for_an_account_that_is_gone(world: World, provider: FakePayments):
    """Its subscription is ended at the provider first; nothing of it is left, and nothing comes back."""
    person, sub = await world.sign_in(), new_id()
    await tell(world, UPDATED, subscription(sub, user_id=person.user_id), 100)
    receipt = await gone(person, "bye")
    assert provider.canceled.count(sub) == 1  # what other accounts left behind is ended by the same job
    assert receipt["external_follow_ups"] == []
    assert (await tell(world, DELETED, subscription(sub, user_id=person.user_id), 200))["handled"] is False
    assert await world.sql("select from subscriptions where project_id = %s", person.user_id) == []


async def test_what_cannot_be_ended_is_named_in_the_receipt(world: World, provider: FakePayments):
    """A provider that is away for ten minutes does not keep an account from going."""
    person, sub = await world.sign_in(), new_id()
    await tell(world, UPDATED, subscription(sub, user_id=person.user_id), 100)
    provider.fail[f"/v1/subscriptions/{sub}"] = 500
    assert (await delete_account(person, "bye"))["status"] == "deleting"
    await until(lambda: any(path.endswith(sub) for _, path, _ in provider.calls))
    # It goes on to wait: whatever is told of it now is not taken any more.
    assert (await tell(world, UPDATED, subscription(sub, "past_due"), 200))["handled"] is False
    assert (await delete_account(person, "bye"))["status"] == "deleting"
    await world.wait(601)
    [left] = (await gone(person, "bye"))["external_follow_ups"]
    assert (left["kind"], left["reference"]) == ("payment_subscription", sub)


async def test_a_rebuild_gives_the_same_rows(world: World):
    """What is shown of subscriptions follows from their events alone."""
    person = await world.sign_in()
    for standing in ("past_due", "unpaid", "canceled", "active"):  # what begins last has the job look at all
        await tell(world, UPDATED, subscription(new_id(), standing, user_id=person.user_id), 100)
    await settled(world)
    before = await world.sql("select * from subscriptions order by project_id, id")
    receipt = await asyncio.to_thread(rebuild, world.server.database_url, SUBSCRIPTIONS)
    assert await world.sql("select * from subscriptions order by project_id, id") == before
    assert len(before) >= 4
    assert receipt.old_digest == receipt.new_digest


async def settled(world: World) -> None:
    """Wait until nothing is left that the service ends by itself."""
    surplus = (
        "select count(*) from subscriptions t where exists (select from subscriptions n "
        "where n.status in ('active', 'past_due') and n.project_id = t.project_id "
        "and (n.created_at, n.id) > (t.created_at, t.id)) and t.status in ('active', 'past_due')"
    )
    give_up = time.monotonic() + 20
    while await world.sql(surplus) != [(0,)]:
        assert time.monotonic() < give_up
        await asyncio.sleep(0.1)
