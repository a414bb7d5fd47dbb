"""The row of a person shows the stream, and is gone with the account."""

from __future__ import annotations

from projections.accounts.person import PROJECTION
from statemachines.accounts import person
from statemachines.kernel.machine import Event
from tests.projections.rows import check_ended, check_middle, check_row

EVENTS: list[Event] = [
    person.PersonRegistered("email", "a@b.c", True, "A", False, 5),
    person.PersonProfileChanged("a@b.d", False, None),
    person.PersonFenced(7),
]


def test_a_row_shows_its_stream():
    check_row(
        PROJECTION,
        EVENTS,
        {
            "revision": 3,
            "provider": "email",
            "email": "a@b.d",
            "email_verified": False,
            "name": None,
            "synthetic": False,
            "status": "fenced",
            "created_at": 5,
            "fenced_at": 7,
        },
    )


def test_a_history_that_begins_in_the_middle_folds():
    check_middle(PROJECTION, EVENTS)


def test_a_deleted_person_has_no_row_and_may_begin_again():
    check_ended(PROJECTION, [*EVENTS, person.PersonDeleted(8)])
