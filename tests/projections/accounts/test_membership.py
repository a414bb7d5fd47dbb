"""The row of a membership shows the role, and is gone with the membership."""

from __future__ import annotations

from projections.accounts.membership import PROJECTION
from statemachines.accounts import membership
from statemachines.kernel.machine import Event
from tests.projections.rows import check_ended, check_row

EVENTS: list[Event] = [membership.OwnerAdded("usr_1", 5), membership.MemberAdded("usr_1", 6)]


def test_a_row_shows_its_stream():
    check_row(
        PROJECTION,
        EVENTS,
        {"revision": 2, "user_id": "usr_1", "role": "member", "created_at": 5},
    )


def test_a_removed_member_has_no_row_and_may_begin_again():
    check_ended(PROJECTION, [*EVENTS, membership.MembershipRemoved(8)])
