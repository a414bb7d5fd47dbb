"""The row of an identity shows its person."""

from __future__ import annotations

from projections.accounts.identity import PROJECTION
from statemachines.accounts.identity import IdentityBound
from statemachines.kernel.machine import Event
from tests.projections.rows import check_row

EVENTS: list[Event] = [IdentityBound("usr_1", "https://id.example", 5), IdentityBound("usr_2", "https://id.example", 9)]


def test_a_row_shows_its_stream():
    check_row(PROJECTION, EVENTS, {"revision": 2, "user_id": "usr_2", "issuer": "https://id.example", "bound_at": 9})
