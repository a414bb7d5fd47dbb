"""Subscriptions by account: what the plan follows from (R-BILL-10). Scoped by the account's user id."""

from msgspec.structs import replace

from projections.kernel import Row, header, projection
from statemachines.billing import (
    Status,
    SubscriptionActivated,
    SubscriptionCanceled,
    SubscriptionFellBehind,
    SubscriptionSuspended,
)
from statemachines.kernel.machine import Recorded


class SubscriptionRow(Row, frozen=True, kw_only=True):
    """One subscription; the ids of it and of its customer are the payment provider's, times are epoch seconds.

    `plan` is empty for one of which nothing but its end was told.
    """

    subscription_id: str
    customer_id: str
    status: str
    plan: str
    current_period_end: int | None
    created_at: int
    updated_at: int


_STATUS = {
    SubscriptionActivated: Status.ACTIVE,
    SubscriptionFellBehind: Status.PAST_DUE,
    SubscriptionSuspended: Status.SUSPENDED,
}


def fold_subscription(row: SubscriptionRow | None, recorded: Recorded) -> SubscriptionRow | None:
    """Fold an event of a subscription into its row."""
    match recorded.event:
        case SubscriptionActivated() | SubscriptionFellBehind() | SubscriptionSuspended() as event:
            return SubscriptionRow(
                **header(recorded),
                subscription_id=event.subscription_id,
                customer_id=event.customer_id,
                status=_STATUS[type(event)].value,
                plan=event.plan,
                current_period_end=event.current_period_end,
                created_at=event.recorded_at if row is None else row.created_at,
                updated_at=event.recorded_at,
            )
        case SubscriptionCanceled() as event:
            ended = row or SubscriptionRow(
                **header(recorded),
                subscription_id=event.subscription_id,
                customer_id=event.customer_id,
                status="",
                plan="",
                current_period_end=None,
                created_at=event.recorded_at,
                updated_at=event.recorded_at,
            )
            return replace(
                ended,
                revision=recorded.revision,
                customer_id=event.customer_id,
                status=Status.CANCELED.value,
                plan="",
                current_period_end=None,
                updated_at=event.recorded_at,
            )
    return row


SUBSCRIPTIONS = projection("subscriptions", SubscriptionRow, ("sub",), fold_subscription)
