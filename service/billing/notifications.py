"""What the payment provider tells, in the words of the machine, and whom it is about (R-BILL-10, G-073).

A provider's account may sell other things too, and its notifications may be of any kind: what is not about a plan of
this service is acknowledged, and nothing is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from projections.accounts.person import PROJECTION as PEOPLE
from projections.billing.subscription import SUBSCRIPTIONS
from service.eventstore.store import EventStore
from service.settingvalues import FREE_PLAN, Plan
from statemachines.billing.subscription import BEFORE_ALL, Moment, Notification, Standing

CHECKOUT = "checkout.session.completed"
RANKS: Mapping[str, int] = {
    "customer.subscription.created": 0,
    "customer.subscription.updated": 1,
    "customer.subscription.paused": 1,
    "customer.subscription.resumed": 1,
    "customer.subscription.trial_will_end": 1,
    "customer.subscription.deleted": 2,
}
"""Types about a subscription, in the order in which they can happen within a second."""
SEEN_RANK = min(RANKS.values()) - 1
_STANDINGS: Mapping[str, Standing] = {
    "active": Standing.ACTIVE,
    "trialing": Standing.ACTIVE,
    "past_due": Standing.PAST_DUE,
    "unpaid": Standing.SUSPENDED,
    "paused": Standing.SUSPENDED,
    "canceled": Standing.CANCELED,
    "incomplete_expired": Standing.CANCELED,
}
"""By the provider's word; what is `incomplete` has not begun."""
_PAID = frozenset({"paid", "no_payment_required"})
_MOST_TEXT = 255
_MOST_SECONDS = 1 << 40


class ReadNotification(NamedTuple):
    """A notification about a plan of this service; `user_id` is who it says that it is about."""

    said: Notification
    user_id: str | None


def read(body: Mapping[str, Any], plans: Mapping[str, Plan]) -> ReadNotification | None:
    """Read a notification; None for one that says nothing about a plan of this service."""
    kind, happened = body.get("type"), _dict(body.get("data"))
    about, id_, created = _dict(happened.get("object")), _text(body.get("id")), _seconds(body.get("created"))
    if id_ is None or created is None:
        return None
    if kind == CHECKOUT:
        return _checkout(about, plans)
    if not isinstance(kind, str) or kind not in RANKS:
        return None
    told = Moment(created, RANKS[kind], id_)
    return _subscription(about, plans, told, ended=kind == "customer.subscription.deleted")


def read_seen(about: Any, plans: Mapping[str, Plan], seen_at: int) -> ReadNotification | None:
    """Read a subscription as the provider shows it; None for one that has no plan of this service.

    `seen_at` (the provider's epoch seconds): whatever was told of it since then is later than what is seen.
    """
    return _subscription(_dict(about), plans, Moment(seen_at, SEEN_RANK, ""), ended=False)


def _checkout(session: Mapping[str, Any], plans: Mapping[str, Plan]) -> ReadNotification | None:
    metadata = _dict(session.get("metadata"))
    subscription, customer = _id_of(session.get("subscription")), _id_of(session.get("customer"))
    plan = _plan_named(metadata.get("plan"), plans)
    if subscription is None or customer is None or plan is None or _text(session.get("payment_status")) not in _PAID:
        return None
    user_id = _text(metadata.get("user_id")) or _text(session.get("client_reference_id"))
    return ReadNotification(Notification(subscription, customer, Standing.PAID, plan, None, BEFORE_ALL), user_id)


def _subscription(
    about: Mapping[str, Any], plans: Mapping[str, Plan], told: Moment, *, ended: bool
) -> ReadNotification | None:
    subscription, customer = _id_of(about.get("id")), _id_of(about.get("customer"))
    status = about.get("status")
    standing = Standing.CANCELED if ended else _STANDINGS.get(status) if isinstance(status, str) else None
    items = _dict(about.get("items")).get("data")
    item = next((item for item in map(_dict, items) if _plan_of(item, plans)), {}) if isinstance(items, list) else {}
    metadata = _dict(about.get("metadata"))
    plan = _plan_of(item, plans) or _plan_named(metadata.get("plan"), plans)
    if subscription is None or customer is None or standing is None:
        return None
    if plan is None and standing is not Standing.CANCELED:
        return None
    until = _seconds(item.get("current_period_end"))  # on the subscription itself in older versions of the API
    until = _seconds(about.get("current_period_end")) if until is None else until
    said = Notification(subscription, customer, standing, plan or "", until, told)
    return ReadNotification(said, _text(metadata.get("user_id")))


def _plan_of(item: Mapping[str, Any], plans: Mapping[str, Plan]) -> str | None:
    """The plan that a price of the provider stands for: what the price says itself, else its lookup key.

    Prices of earlier releases have the name of the plan as their key.
    """
    price = _dict(item.get("price"))
    key = price.get("lookup_key")
    by_key = next((name for name in plans if key in {name, lookup_key(name)}), None) if isinstance(key, str) else None
    return _plan_named(_dict(price.get("metadata")).get("plan"), plans) or _plan_named(by_key, plans)


def lookup_key(plan: str) -> str:
    """The key of a plan's monthly price: one of ours, which nothing else in the provider's account has by chance."""
    return f"service_{plan}_month"


def _plan_named(name: Any, plans: Mapping[str, Plan]) -> str | None:
    return name if isinstance(name, str) and name in plans and name != FREE_PLAN else None


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _MOST_TEXT and value.isprintable() else None


def _id_of(value: Any) -> str | None:
    """An object's id, where the provider gives either it or the object."""
    return _text(value.get("id") if isinstance(value, dict) else value)


def _seconds(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_SECONDS else None


async def whose(store: EventStore, found: ReadNotification) -> str | None:
    """Find the account that a notification is about; None for nobody's.

    What is known of the subscription goes first, then what the provider was given to remember, then the customer.
    """
    for where, value in (
        ("t.subscription_id = %s", found.said.subscription_id),
        (None, found.user_id),
        ("t.customer_id = %s", found.said.customer_id),
    ):
        if where is not None:
            rows = await store.find(SUBSCRIPTIONS, where, value, limit=1)
            if rows:
                return rows[0].project_id
        elif value is not None and await store.get(PEOPLE.table, value, value) is not None:
            return value
    return None
