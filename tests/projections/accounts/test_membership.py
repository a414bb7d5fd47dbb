"""The row of a membership shows the role, and is gone with the membership."""

from __future__ import annotations

from projections.accounts.membership import AUDITORS, PROJECTION
from statemachines.accounts import membership
from statemachines.kernel.machine import Event
from tests.projections.rows import check_ended, check_row, fold

EVENTS: list[Event] = [membership.OwnerAdded("usr_1", 5), membership.MemberAdded("usr_1", 6)]


def test_a_row_shows_its_stream():
    check_row(
        PROJECTION,
        EVENTS,
        {"revision": 2, "user_id": "usr_1", "role": "member", "created_at": 5},
    )


def test_a_removed_member_has_no_row_and_may_begin_again():
    check_ended(PROJECTION, [*EVENTS, membership.MembershipRemoved(8)])


def test_an_auditor_has_a_row_beside_the_members_and_never_among_them():
    audits = [*EVENTS, membership.AuditorAdded("usr_1", 7)]
    check_row(AUDITORS, audits, {"revision": 3, "user_id": "usr_1", "created_at": 7})
    check_ended(PROJECTION, audits)
    for role, joined in (("owner", membership.OwnerAdded), ("member", membership.MemberAdded)):
        after = [*audits, joined("usr_1", 8)]
        assert fold(AUDITORS, after) is None
        check_row(PROJECTION, after, {"revision": 4, "user_id": "usr_1", "role": role, "created_at": 8})
        again = [*after, membership.AuditorAdded("usr_1", 9)]
        check_row(AUDITORS, again, {"revision": 5, "user_id": "usr_1", "created_at": 9})
    assert fold(AUDITORS, [*audits, membership.MembershipRemoved(8)]) is None
