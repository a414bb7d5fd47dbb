"""The row of a session shows the stream, and of its secrets only the hashes."""

from __future__ import annotations

from projections.accounts.session import KEPT, PROJECTION, lasts
from statemachines.accounts import session
from statemachines.accounts.session import LIFETIME
from statemachines.kernel.machine import Event
from tests.projections.rows import check_middle, check_row, fold

EVENTS: list[Event] = [
    session.SessionOffered("usr_1", "0" * 64, 5, 125),
    session.SessionOpened("usr_1", "1" * 64, "link", 6, 6 + LIFETIME),
    session.SessionAuthenticated("2" * 64, "oidc", 7),
    session.SessionEnded("revoked", 8),
]


def test_a_row_shows_its_stream():
    check_row(
        PROJECTION,
        EVENTS,
        {
            "revision": 4,
            "status": "ended",
            "link_hash": "",
            "secret_hash": "2" * 64,
            "by": "oidc",
            "created_at": 6,
            "authenticated_at": 7,
            "expires_at": 6 + LIFETIME,
            "ended_at": 8,
        },
    )


def test_a_history_that_begins_in_the_middle_folds():
    check_middle(PROJECTION, [EVENTS[0], *EVENTS[2:]])  # The second is also a beginning: of a session without a link.


def test_a_link_and_a_session_end_by_time():
    link, opened = fold(PROJECTION, EVENTS[:1]), fold(PROJECTION, EVENTS[:2])
    assert (link.status, link.link_hash, link.expires_at) == ("offered", "0" * 64, 125)
    assert not link.open(5)
    assert opened.open(5 + LIFETIME)
    assert not opened.open(6 + LIFETIME)
    assert lasts(link, 125 + KEPT)
    assert not lasts(link, 126 + KEPT)
