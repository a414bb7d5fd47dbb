"""What the payment provider tells is read whole or not at all, and in any order alike (R-BILL-10, G-073)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.billing.payments import CHECKOUT, read
from service.settingvalues import PLANS, plans
from statemachines.billing import BEFORE_ALL, MACHINE, Moment, Notification, Standing, decide_tell
from statemachines.kernel.machine import apply
from tests.support.payments import checkout, notification, subscription

OURS = plans(PLANS)
AT = 1_700_000_000
UPDATED = "customer.subscription.updated"


def told(kind: str, about: dict[str, Any]) -> Notification | None:
    found = read(notification(kind, about, AT, "evt_1"), OURS)
    return None if found is None else found.said


def test_a_paid_checkout_gives_the_plan():
    found = read(notification(CHECKOUT, checkout("sub_1", "usr_1", "scale"), AT, "evt_1"), OURS)
    assert found is not None
    assert found.user_id == "usr_1"
    assert found.said == Notification("sub_1", "cus_sub_1", Standing.PAID, "scale", None, BEFORE_ALL)


@pytest.mark.parametrize(
    "more",
    [{"payment_status": "unpaid"}, {"payment_status": ["paid"]}, {"payment_status": None}, {"subscription": None},
     {"customer": 7}, {"metadata": {"plan": "gold"}},
     {"metadata": {"plan": "free"}}, {"metadata": []}],
)  # fmt: skip
def test_a_checkout_that_says_nothing_of_a_plan_is_left(more: dict[str, Any]):
    assert told(CHECKOUT, checkout("sub_1", "usr_1", **more)) is None


@pytest.mark.parametrize(
    ("status", "standing"),
    [("active", Standing.ACTIVE), ("trialing", Standing.ACTIVE), ("past_due", Standing.PAST_DUE),
     ("unpaid", Standing.SUSPENDED), ("paused", Standing.SUSPENDED), ("canceled", Standing.CANCELED),
     ("incomplete_expired", Standing.CANCELED), ("incomplete", None), ("new_word", None), (None, None), ([], None)],
)  # fmt: skip
def test_each_word_of_the_provider_has_one_meaning(status: Any, standing: Standing | None):
    said = told(UPDATED, subscription("sub_1", status))
    assert (None if said is None else said.standing) is standing


def test_an_end_counts_whatever_else_it_says():
    said = told("customer.subscription.deleted", subscription("sub_1", "active", items=None, metadata=None))
    assert said is not None
    assert said.standing is Standing.CANCELED


def test_the_price_says_the_plan_and_the_period_is_found_where_either_version_has_it():
    said = told(UPDATED, subscription("sub_1", plan="scale", metadata={"plan": "pro"}))
    assert said is not None
    assert (said.plan, said.current_period_end, said.told) == ("scale", 1_900_000_000, Moment(AT, 1, "evt_1"))
    older = subscription("sub_1", metadata={"plan": "pro"}, items={"data": [{"price": {}}]}, current_period_end=7)
    said = told(UPDATED, older)
    assert said is not None
    assert (said.plan, said.current_period_end) == ("pro", 7)


@pytest.mark.parametrize("kind", ["paused", "resumed", "trial_will_end"])
@pytest.mark.parametrize("status", ["paused", "active", "trialing"])
def test_further_moments_of_a_life_are_read(kind: str, status: str):
    """Each shows the subscription as it stands, as an update does (R-BILL-10)."""
    about = subscription("sub_1", status)
    said = told(f"customer.subscription.{kind}", about)
    assert said is not None
    assert said == told(UPDATED, about)


@pytest.mark.parametrize(
    ("key", "plan"),
    [("service_pro_month", "pro"), ("pro", "pro"), ("service_scale_month", "scale"), ("service_free_month", None),
     ("service_gold_month", None), ("month", None), (7, None), (None, None)],
)  # fmt: skip
def test_a_key_of_a_price_names_its_plan(key: Any, plan: str | None):
    """Ours, and the one of earlier releases."""
    items = {"data": [{"price": {"lookup_key": key}}]}
    said = told(UPDATED, subscription("sub_1", items=items, metadata={}))
    assert (None if said is None else said.plan) == plan


def test_what_is_sold_beside_the_plans_is_left():
    assert told(UPDATED, subscription("sub_1", plan="socks")) is None
    assert told("invoice.paid", subscription("sub_1")) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab\n\u00e9", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab\n\u00e9", max_size=8), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = ["id", "customer", "status", "metadata", "items", "subscription", "payment_status", "client_reference_id"]


@given(
    st.sampled_from([CHECKOUT, UPDATED, "customer.subscription.deleted"]),
    st.sampled_from([subscription("sub_1"), checkout("sub_1", "usr_1")]),
    st.dictionaries(st.sampled_from(MEMBERS), JSON, max_size=3),
    st.dictionaries(st.sampled_from(["id", "created", "type", "data"]), JSON, max_size=1),
)
def test_odd_shapes_are_read_or_left(kind: str, about: Any, odd: dict[str, Any], around: dict[str, Any]):
    """Never an error, and nothing but text and numbers in their bounds comes through."""
    found = read({**notification(kind, {**about, **odd}, AT), **around}, OURS)
    if found is not None:
        assert 0 < len(found.said.subscription_id) <= 255
        assert 0 < len(found.said.customer_id) <= 255
        assert found.said.plan in {"", "pro", "scale"}


LIFE = [
    notification("customer.subscription.created", subscription("sub_1", "incomplete"), AT, "evt_1"),
    notification(CHECKOUT, checkout("sub_1", "usr_1"), AT + 2, "evt_2"),
    notification(UPDATED, subscription("sub_1", "active", until=AT + 100), AT, "evt_3"),
    notification(UPDATED, subscription("sub_1", "past_due", until=AT + 100), AT + 100, "evt_4"),
    notification(UPDATED, subscription("sub_1", "active", "scale", until=AT + 200), AT + 101, "evt_5"),
]
END = notification("customer.subscription.deleted", subscription("sub_1", "canceled"), AT + 150, "evt_6")


@pytest.mark.parametrize(("life", "expected"), [(LIFE, "active"), ([*LIFE, END], "canceled")])
@given(data=st.data())
def test_a_life_told_in_any_order_ends_alike(life: list[dict[str, Any]], expected: str, data: st.DataObject):
    """Also when it is told again, in part."""
    order = data.draw(st.permutations(life))
    state, last = MACHINE.initial, None
    for body in [*order, *data.draw(st.lists(st.sampled_from(life), max_size=3))]:
        found = read(body, OURS)
        for event in [] if found is None else decide_tell(state, found.said, AT):
            state, last = apply(MACHINE, state, event), event
    assert state.status.value == expected
    if expected == "active":
        assert last is not None
        assert (last.plan, last.current_period_end) == ("scale", AT + 200)  # type: ignore[attr-defined]
