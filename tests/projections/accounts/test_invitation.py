"""The row of an invitation shows its latest offer and what became of it, until an hour after its time."""

from __future__ import annotations

from projections.accounts.invitation import KEPT, PROJECTION, InvitationRow, lasts
from statemachines.accounts import invitation
from statemachines.kernel.machine import Event
from tests.projections.rows import check_row

MADE = invitation.InvitationMade("a@example.com", "owner", "usr_1", 2, 5, 605)
OFFER = {"email": "a@example.com", "role": "owner", "invited_by": "usr_1", "standing": 2, "invited_at": 5}


def test_a_row_shows_its_stream():
    accepted: list[Event] = [MADE, invitation.InvitationAccepted("usr_2", 6)]
    known = OFFER | {"expires_at": 605}
    check_row(PROJECTION, accepted, known | {"revision": 2, "status": "accepted", "accepted_by": "usr_2"})
    revoked: list[Event] = [MADE, invitation.InvitationRevoked(6)]
    check_row(PROJECTION, revoked, known | {"revision": 2, "status": "revoked", "accepted_by": None})
    again: list[Event] = [*accepted, MADE]
    check_row(PROJECTION, again, known | {"revision": 3, "status": "open", "accepted_by": None})


def test_a_row_lasts_an_hour_longer_than_its_invitation():
    row = InvitationRow(project_id="p", id="inv_1", revision=1, status="open", expires_at=605, **OFFER)
    assert lasts(row, 605 + KEPT)
    assert not lasts(row, 606 + KEPT)
