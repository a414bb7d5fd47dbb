"""What the provider told in vain is read there, and recorded as if it had been heard (R-BILL-10, G-073)."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from projections.billing import SUBSCRIPTIONS, SubscriptionRow
from service.auth.authority import carry_out
from service.billing import payments
from service.billing import subscription as subscriptions
from service.billing.payments import SETTLING_SECONDS, PaymentProviderUnavailable, Payments, read, whose
from service.billing.subscription import Reconciled, reconcile
from service.egress import lookups as looking_up
from service.egress.lookups import Lookups
from service.eventstore.declare.commands import Answer, Command, Origin, Unit
from service.eventstore.store import EventStore
from service.ids import new_id
from service.settingvalues import PLANS, plans
from statemachines.accounts import person
from statemachines.accounts.person import PersonRegistered
from tests.support.ingest_store import store as store  # noqa: PLC0414 (a fixture is found by name)
from tests.support.payments import KEY, LIST, FakePayments, notification, running_payments, subscription

OURS = plans(PLANS)
UPDATED, DELETED = "customer.subscription.updated", "customer.subscription.deleted"


@pytest.fixture(scope="module")
def running() -> Iterator[FakePayments]:
    with running_payments() as fake:
        yield fake


@pytest.fixture
def provider(running: FakePayments, monkeypatch: pytest.MonkeyPatch) -> FakePayments:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    running.forget()
    running.page = 100
    return running


def speaking_to(provider: FakePayments, key: str | None = KEY) -> Payments:
    settings = SimpleNamespace(payment_api_key=key, payment_api_base=provider.url, payment_webhook_secret=None)
    return Payments(cast("Any", settings))


async def look(store: EventStore, provider: FakePayments) -> Reconciled:
    return await reconcile(store, speaking_to(provider), OURS)


async def register(store: EventStore) -> str:
    """Make a person; returns their id."""
    user_id = new_id("usr")
    stream = person.stream(user_id)

    def decide(unit: Unit) -> Answer:
        unit.append(stream, [PersonRegistered("email", "a@example.com", True, None, False, unit.now)])
        return Answer(204, None)

    origin = Origin("system", "test", "register", new_id("req"))
    await store.execute(Command(origin=origin, decide=decide, streams=[stream]))
    return user_id


async def tell(store: EventStore, kind: str, about: dict[str, Any], created: int) -> None:
    """What the webhook does with a notification."""
    found = read(notification(kind, about, created), OURS)
    assert found is not None
    user_id = await whose(store, found)
    assert user_id is not None
    await carry_out(store, "payment provider", "tell", subscriptions.tell(user_id, found.said))


async def held(store: EventStore, user_id: str) -> list[tuple[Any, ...]]:
    rows: list[SubscriptionRow] = await store.find(SUBSCRIPTIONS, "t.project_id = %s", user_id, order_by="t.id")
    return [(row.subscription_id, row.status, row.plan, row.current_period_end) for row in rows]


async def test_a_purchase_nobody_was_told_of_is_there_after_a_look(store: EventStore, provider: FakePayments) -> None:
    """Neither its checkout nor its beginning was heard; nor is what the provider sells beside our plans of account."""
    user_id = await register(store)
    provider.subscriptions = [
        subscription("sub_socks", plan="socks", user_id=user_id, metadata={"user_id": user_id}),
        subscription("sub_lost", plan="scale", user_id=user_id, until=7),
        subscription("sub_nobody", user_id="usr_gone"),
        subscription("sub_over", "canceled", user_id=user_id),
        subscription("sub_not_yet", "incomplete", user_id=user_id),
    ]
    assert await look(store, provider) == Reconciled(read=5, corrected=1)
    assert await held(store, user_id) == [("sub_lost", "active", "scale", 7)]
    assert await look(store, provider) == Reconciled(read=5), "what is as recorded is left alone"


@pytest.mark.parametrize(
    ("now", "shown"),
    [
        (subscription("sub_1", "past_due"), ("past_due", "pro", 1_900_000_000)),
        (subscription("sub_1", "unpaid"), ("suspended", "pro", 1_900_000_000)),
        (subscription("sub_1", plan="scale"), ("active", "scale", 1_900_000_000)),
        (subscription("sub_1", until=2_000_000_000), ("active", "pro", 2_000_000_000)),
        (subscription("sub_1", "canceled"), ("canceled", "", None)),
    ],
    ids=["past due", "unpaid", "another plan", "another period", "ended"],
)
async def test_a_lost_notification_is_made_up_for(
    store: EventStore, provider: FakePayments, now: dict[str, Any], shown: tuple[Any, ...]
) -> None:
    """And when it comes late after all, or an older one does, nothing goes back."""
    user_id = await register(store)
    at = int(time.time()) - 3600
    await tell(store, UPDATED, subscription("sub_1", user_id=user_id), at)
    provider.subscriptions = [now]
    assert await look(store, provider) == Reconciled(read=1, corrected=1)
    assert await held(store, user_id) == [("sub_1", *shown)]
    await tell(store, UPDATED, now, at + 60)
    await tell(store, UPDATED, subscription("sub_1", "paused"), at + 30)
    assert await held(store, user_id) == [("sub_1", *shown)]
    assert await look(store, provider) == Reconciled(read=1)


async def test_what_was_told_since_stands(store: EventStore, provider: FakePayments) -> None:
    """A notification about the seconds in which the provider was read is later than the reading."""
    user_id = await register(store)
    now = int(time.time())
    await tell(store, UPDATED, subscription("sub_1", user_id=user_id), now - 3600)
    provider.subscriptions = [subscription("sub_1", "past_due")]
    assert (await look(store, provider)).corrected == 1
    await tell(store, UPDATED, subscription("sub_1", "active"), now)
    assert await held(store, user_id) == [("sub_1", "active", "pro", 1_900_000_000)]
    assert await look(store, provider) == Reconciled(read=1), "the provider's list is behind what it has told"
    assert await held(store, user_id) == [("sub_1", "active", "pro", 1_900_000_000)]
    assert SETTLING_SECONDS > 1, "or this test tells nothing"


async def test_raced_with_late_notifications_it_ends_as_the_provider_has_it(
    store: EventStore, provider: FakePayments
) -> None:
    """Looks and notifications of the last hour, in any order and at once."""
    draw, began = random.Random(14), int(time.time()) - 3600
    people = [await register(store) for _ in range(8)]
    words = ["active", "past_due", "unpaid", "active", "past_due"]
    lives = {
        f"sub_{number}": [
            subscription(f"sub_{number}", word, draw.choice(["pro", "scale"]), user_id=user_id, until=1_900_000_000 + n)
            for n, word in enumerate(draw.sample(words, len(words)))
        ]
        for number, user_id in enumerate(people)
    }
    provider.subscriptions = [life[-1] for life in lives.values()]
    late = [(about, began + n) for life in lives.values() for n, about in enumerate(life) if draw.random() < 0.7]
    draw.shuffle(late)

    async def tell_late(about: dict[str, Any], at: int) -> None:
        await asyncio.sleep(draw.random() / 10)
        await tell(store, UPDATED, about, at)

    await asyncio.gather(*(tell_late(*one) for one in late), *(look(store, provider) for _ in range(3)))
    await look(store, provider)
    words_of = {"active": "active", "past_due": "past_due", "unpaid": "suspended"}
    for user_id, (id_, life) in zip(people, lives.items(), strict=True):
        last = life[-1]
        [(found, status, plan, until)] = await held(store, user_id)
        [item] = last["items"]["data"]
        expected = (id_, words_of[last["status"]], item["price"]["lookup_key"], item["current_period_end"])
        assert (found, status, plan, until) == expected


async def test_a_look_is_bounded_and_the_next_one_goes_on(
    store: EventStore, provider: FakePayments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest are in every look, of the others each comes in its turn; a round that has ended begins anew."""
    monkeypatch.setattr(subscriptions, "PAGES", 3)
    user_id = await register(store)
    provider.page = 2
    provider.subscriptions = [subscription(f"sub_{n:02}", "past_due", user_id=user_id) for n in range(11)]
    seen: list[tuple[int, int]] = []
    for _ in range(3):
        found = await look(store, provider)
        seen.append((found.read, len(await held(store, user_id))))
    assert seen == [(6, 6), (6, 10), (3, 11)]
    monkeypatch.setattr(payments, "SETTLING_SECONDS", SETTLING_SECONDS - 1)  # a second later
    provider.subscriptions[2:4] = [subscription(f"sub_{n:02}", user_id=user_id) for n in (2, 3)]
    assert await look(store, provider) == Reconciled(read=6, corrected=2)


async def test_a_provider_that_is_away_is_asked_again(store: EventStore, provider: FakePayments) -> None:
    """What was read until then counts; a place that the provider does not know any more begins a round."""
    user_id = await register(store)
    provider.subscriptions = [subscription("sub_1", user_id=user_id)]
    provider.fail[LIST] = 503
    assert await look(store, provider) == Reconciled(complete=False)
    provider.fail.clear()
    assert await look(store, provider) == Reconciled(read=1, corrected=1)
    provider.page = 1
    provider.subscriptions = [subscription(f"sub_{n}", user_id=user_id) for n in range(9)]
    assert (await look(store, provider)).read == subscriptions.PAGES
    del provider.subscriptions[3]  # where the look has ended
    assert (await look(store, provider)).read == 1
    assert (await look(store, provider)).read == subscriptions.PAGES


async def test_a_hanging_name_server_takes_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """More requests than threads are refused by the deadline of look-ups, and no thread is begun."""
    monkeypatch.setattr(looking_up, "LOOKUP_SECONDS", 0.2)
    release, asked = threading.Event(), list[str]()

    def resolve(host: str) -> list[str]:
        asked.append(host)
        release.wait(60)
        return ["127.0.0.1"]

    settings = SimpleNamespace(payment_api_key=KEY, payment_api_base="https://pay.example", payment_webhook_secret=None)
    there = Payments(cast("Any", settings), Lookups(resolve))
    refusals = await asyncio.gather(
        *(there.cancel("sub_1") for _ in range(2 * payments.MOST_WAITING)), return_exceptions=True
    )
    assert {type(refusal) for refusal in refusals} == {PaymentProviderUnavailable}
    assert asked == ["pay.example"]
    assert "_threads" not in vars(there), "no thread was begun"
    release.set()


async def test_odd_answers_are_no_page(store: EventStore, provider: FakePayments) -> None:
    user_id = await register(store)
    provider.answer_as[LIST] = {"object": "list", "data": [7, None, {}], "has_more": True}
    assert await look(store, provider) == Reconciled(complete=False)
    for odd in ({}, {"data": 7, "has_more": False}, [], {"data": [], "has_more": True}):
        provider.answer_as[LIST] = odd
        assert await look(store, provider) == Reconciled(complete=False)
    listed = [7, None, {}, subscription("sub_1", user_id=user_id)]
    provider.answer_as[LIST] = {"object": "list", "data": listed, "has_more": False}
    assert await look(store, provider) == Reconciled(read=4, corrected=1)


async def test_without_a_key_nothing_is_read(store: EventStore, provider: FakePayments) -> None:
    assert await reconcile(store, speaking_to(provider, None), OURS) == Reconciled()
    assert provider.looks == 0
