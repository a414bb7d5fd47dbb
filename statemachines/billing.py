"""A subscription of an account, as the payment provider tells of it (R-BILL-10, G-073).

One stream for each subscription at the provider, in the scope of the account: an account may have had several, and
what is told of one says nothing about another. The provider tells in no order, and more than once. So what arrives is
judged by when the provider says that it happened, the type of the notification and its id decide between two of one
second, and an end is final: whatever the order and the repetitions, the same state comes out. A checkout that has
been paid stands only until something is told of the subscription itself.
"""

from enum import Enum
from typing import Any

import msgspec

from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)


def stream(user_id: str, subscription_id: str) -> Stream:
    """History of a subscription, by its id at the provider."""
    return Stream(MACHINE, user_id, derived_id("sub", subscription_id))


class Status(Enum):
    """Where a subscription stands."""

    ABSENT = "absent"
    ACTIVE = "active"
    PAST_DUE = "past_due"  # the provider still tries to collect what is due; the plan holds
    SUSPENDED = "suspended"  # it has given up for now, and the plan does not hold
    CANCELED = "canceled"


class Standing(Enum):
    """What a notification says of a subscription."""

    PAID = "paid"  # a checkout ended well
    ACTIVE = "active"
    PAST_DUE = "past_due"
    SUSPENDED = "suspended"
    CANCELED = "canceled"


class Moment(msgspec.Struct, frozen=True, order=True):
    """The place of a notification among those of its subscription; `created` in the provider's epoch seconds.

    `rank` orders types within a second. Nothing told of the subscription itself comes before what is.
    """

    created: int = -1
    rank: int = 0
    notification_id: str = ""


BEFORE_ALL = Moment()


class SubscriptionActivated(Event, frozen=True):
    """The account has the plan; `told` is null for a checkout, which knows nothing of periods."""

    TOPIC = "billing.subscription_activated.v1"
    subscription_id: str
    customer_id: str
    plan: str
    current_period_end: int | None
    told: Moment | None
    recorded_at: int


class SubscriptionFellBehind(Event, frozen=True):
    """A payment is due; the account keeps the plan while the provider tries again."""

    TOPIC = "billing.subscription_fell_behind.v1"
    subscription_id: str
    customer_id: str
    plan: str
    current_period_end: int | None
    told: Moment
    recorded_at: int


class SubscriptionSuspended(Event, frozen=True):
    """The provider no longer tries to collect, or collecting is paused."""

    TOPIC = "billing.subscription_suspended.v1"
    subscription_id: str
    customer_id: str
    plan: str
    current_period_end: int | None
    told: Moment
    recorded_at: int


class SubscriptionCanceled(Event, frozen=True):
    """It has ended, and never comes back."""

    TOPIC = "billing.subscription_canceled.v1"
    subscription_id: str
    customer_id: str
    recorded_at: int


_ALIVE = [Status.ABSENT, Status.ACTIVE, Status.PAST_DUE, Status.SUSPENDED]

TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        # event                           from    to
        [SubscriptionActivated.TOPIC, _ALIVE, Status.ACTIVE],
        [SubscriptionFellBehind.TOPIC, _ALIVE, Status.PAST_DUE],
        [SubscriptionSuspended.TOPIC, _ALIVE, Status.SUSPENDED],
        [SubscriptionCanceled.TOPIC, _ALIVE, Status.CANCELED],
    ],
)


class Subscription(msgspec.Struct, frozen=True):
    """What the decisions depend on; `told` is the latest that was told of the subscription itself."""

    status: Status = Status.ABSENT
    told: Moment = BEFORE_ALL


class SubscriptionConflict(Rejection):
    """Something was to be recorded of a subscription that has ended."""

    code = "internal_error"


class Notification(msgspec.Struct, frozen=True):
    """What the provider tells of a subscription: its standing at a moment. `plan` is of no account once it ends."""

    subscription_id: str
    customer_id: str
    standing: Standing
    plan: str
    current_period_end: int | None
    told: Moment


def decide_tell(state: Subscription, said: Notification, now: int) -> list[Event]:
    """Record what was told, unless something later is known, or it is known; nothing follows an end."""
    known = {
        Standing.CANCELED: False,
        Standing.PAID: state.status is not Status.ABSENT,
    }.get(said.standing, said.told <= state.told)
    return [] if known or state.status is Status.CANCELED else [_event(said, now)]


def _event(said: Notification, now: int) -> Event:
    what = (said.subscription_id, said.customer_id, said.plan, said.current_period_end, said.told, now)
    match said.standing:
        case Standing.PAID:
            return SubscriptionActivated(said.subscription_id, said.customer_id, said.plan, None, None, now)
        case Standing.ACTIVE:
            return SubscriptionActivated(*what)
        case Standing.PAST_DUE:
            return SubscriptionFellBehind(*what)
        case Standing.SUSPENDED:
            return SubscriptionSuspended(*what)
        case Standing.CANCELED:
            return SubscriptionCanceled(said.subscription_id, said.customer_id, now)


def evolve(state: Subscription, event: Any) -> Subscription:
    """Fold an event. Never refuses."""
    status = Status[destination(TABLE, event, state.status)]
    match event:
        case (
            SubscriptionActivated(told=Moment() as told)
            | SubscriptionFellBehind(told=told)
            | SubscriptionSuspended(told=told)
        ):
            return Subscription(status, told)
    return Subscription(status, state.told)


MACHINE = StateMachine("sub", TABLE, Subscription(), evolve, SubscriptionConflict, Subscription)
