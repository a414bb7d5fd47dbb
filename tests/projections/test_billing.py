"""The row of a subscription shows its stream, also of one of which nothing but the end is known."""

from __future__ import annotations

from projections.billing import SUBSCRIPTIONS
from statemachines import billing
from statemachines.billing import Moment
from statemachines.kernel.machine import Event
from tests.projections.rows import check_row, fold, shown

TOLD = Moment(4, 1, "evt_1")
EVENTS: list[Event] = [
    billing.SubscriptionActivated("sub_x", "cus_x", "pro", None, None, 5),
    billing.SubscriptionFellBehind("sub_x", "cus_x", "pro", 90, TOLD, 6),
    billing.SubscriptionSuspended("sub_x", "cus_x", "scale", 91, TOLD, 7),
]
ROW = {
    "revision": 3,
    "subscription_id": "sub_x",
    "customer_id": "cus_x",
    "status": "suspended",
    "plan": "scale",
    "current_period_end": 91,
    "created_at": 5,
    "updated_at": 7,
}
END = billing.SubscriptionCanceled("sub_x", "cus_x", 8)
ENDED = {**ROW, "status": "canceled", "plan": "", "current_period_end": None, "updated_at": 8}


def test_a_row_shows_its_stream():
    check_row(SUBSCRIPTIONS, EVENTS, ROW)
    check_row(SUBSCRIPTIONS, [*EVENTS, END], {**ENDED, "revision": 4})


def test_a_history_that_begins_in_the_middle_folds():
    assert shown(fold(SUBSCRIPTIONS, [END])) == {**ENDED, "revision": 1, "created_at": 8}
    assert shown(fold(SUBSCRIPTIONS, EVENTS[2:])) == {**ROW, "revision": 1, "created_at": 7}
