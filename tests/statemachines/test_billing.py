"""A subscription comes out alike in whatever order, and however often, the provider tells of it (R-BILL-10, G-073)."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from projections.billing import SUBSCRIPTIONS, SubscriptionRow
from statemachines.billing import (
    BEFORE_ALL,
    MACHINE,
    Moment,
    Notification,
    Standing,
    Status,
    SubscriptionActivated,
    SubscriptionCanceled,
    SubscriptionFellBehind,
    SubscriptionSuspended,
    decide_tell,
)
from statemachines.kernel.machine import Event, Recorded, replay
from tests.statemachines.tables import History, check_released, check_table

NOW = 1_700_000_000
SUB, CUS = "sub_at_provider_1", "cus_at_provider_1"
TOLD = Moment(NOW, 1, "evt_2")
EVENTS: list[Event] = [
    SubscriptionActivated(SUB, CUS, "pro", NOW + 86400, TOLD, NOW + 1),
    SubscriptionFellBehind(SUB, CUS, "pro", NOW + 86400, TOLD, NOW + 1),
    SubscriptionSuspended(SUB, CUS, "pro", NOW + 86400, TOLD, NOW + 1),
    SubscriptionCanceled(SUB, CUS, NOW + 1),
]
ENDS = dict(
    zip(
        [event.TOPIC for event in EVENTS],
        [Status.ACTIVE, Status.PAST_DUE, Status.SUSPENDED, Status.CANCELED],
        strict=True,
    )
)


def test_every_event_in_every_status() -> None:
    """Whatever is alive may become anything; what has ended stays so."""
    alive = [status for status in Status if status is not Status.CANCELED]
    edges = [(topic, source, dest) for topic, dest in ENDS.items() for source in alive]
    check_table(MACHINE, edges, {event.TOPIC: event for event in EVENTS})


def test_released_events_keep_their_shape() -> None:
    """What was once written decodes to the same event, and is written the same way today."""
    made = Moment(1, 1, "notification_id_1")
    what = ("subscription_id_1", "customer_id_1", "plan_1", 1, made, 1_800_000_000)
    check_released(
        MACHINE,
        [
            SubscriptionActivated(*what),
            SubscriptionFellBehind(*what),
            SubscriptionSuspended(*what),
            SubscriptionCanceled("subscription_id_1", "customer_id_1", 1_800_000_000),
        ],
    )


def said(standing: Standing, created: int = NOW, rank: int = 1, id_: str = "evt_1", **more: Any) -> Notification:
    told = BEFORE_ALL if standing is Standing.PAID else Moment(created, rank, id_)
    until = None if standing is Standing.PAID else created + 100
    return Notification(SUB, CUS, standing, more.get("plan", "pro"), until, told)


def outcome(heard: list[Notification]) -> tuple[Any, ...]:
    """What an account sees of a subscription after all this."""
    history = History(MACHINE)
    for one in heard:
        history.carry_out(lambda state, one=one: decide_tell(state, one, NOW))
    assert replay(MACHINE, history.events) == history.state
    row: SubscriptionRow | None = None
    for revision, event in enumerate(history.events, 1):
        row = SUBSCRIPTIONS.fold(row, Recorded("sub_1", revision, event, "usr_1", NOW, "system:x"))
    if row is None:
        return (Status.ABSENT.value,)
    assert row.status == history.state.status.value
    return row.status, row.plan, row.current_period_end, row.customer_id


@pytest.mark.parametrize(
    ("heard", "expected"),
    [
        ([said(Standing.PAID)], "active"),
        ([said(Standing.PAID), said(Standing.ACTIVE, NOW, 0, "evt_1")], "active"),
        ([said(Standing.ACTIVE, NOW), said(Standing.PAST_DUE, NOW + 1, id_="evt_2")], "past_due"),
        ([said(Standing.PAST_DUE, NOW), said(Standing.ACTIVE, NOW + 1, id_="evt_2")], "active"),
        ([said(Standing.SUSPENDED, NOW + 9), said(Standing.PAST_DUE, NOW, id_="evt_2")], "suspended"),
        ([said(Standing.CANCELED, NOW), said(Standing.ACTIVE, NOW + 9, id_="evt_2")], "canceled"),
        ([said(Standing.ACTIVE, NOW, 1, "evt_9"), said(Standing.PAST_DUE, NOW, 0, "evt_1")], "active"),
    ],
)
def test_the_latest_counts_and_an_end_is_final(heard: list[Notification], expected: str) -> None:
    """By the provider's time, then by the type; in every order."""
    assert {outcome(list(order))[0] for order in permutations(heard)} == {expected}


LIVE = [Standing.ACTIVE, Standing.PAST_DUE, Standing.SUSPENDED]
NOTIFICATIONS = st.builds(
    lambda standing, created, rank, number, plan: said(standing, NOW + created, rank, f"evt_{number}", plan=plan),
    st.sampled_from([*LIVE, *LIVE, Standing.PAID, Standing.CANCELED]),
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(0, 9),
    st.sampled_from(["pro", "scale"]),
)
HEARD = st.lists(
    NOTIFICATIONS, max_size=6, unique_by=lambda one: one.told if one.standing is not Standing.PAID else "paid"
)


@given(HEARD, st.data())
def test_every_order_with_any_repetition_ends_alike(heard: list[Notification], data: st.DataObject) -> None:
    """A notification has one id, so that no two that differ are of one moment."""
    order = data.draw(st.permutations(heard))
    repeated = [*order, *data.draw(st.lists(st.sampled_from(order), max_size=4))] if order else []
    assert outcome(heard) == outcome(list(order)) == outcome(repeated)


class Walk(RuleBasedStateMachine):
    """Any notifications on one stream, beside the plainest model: the latest of all that were told, an end first."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(MACHINE)
        self.heard: list[Notification] = []

    @rule(one=NOTIFICATIONS)
    def tell(self, one: Notification) -> None:
        if all(one.told != other.told or one.standing is Standing.PAID for other in self.heard):
            self.heard.append(one)
            self.history.carry_out(lambda state: decide_tell(state, one, NOW))

    @invariant()
    def is_the_latest(self) -> None:
        standings = {one.standing for one in self.heard}
        told = [one for one in self.heard if one.standing is not Standing.PAID]
        if Standing.CANCELED in standings:
            expected = "canceled"
        elif told:
            expected = max(told, key=lambda one: one.told).standing.value
        else:
            expected = "active" if standings else "absent"
        assert self.history.state.status.value == expected


test_walk = Walk.TestCase
