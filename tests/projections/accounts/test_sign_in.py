"""The row of a sign-in shows the stream, and of the device code only its hash."""

from __future__ import annotations

from projections.accounts.sign_in import PROJECTION
from statemachines.accounts import sign_in
from statemachines.kernel.machine import Event
from tests.projections.rows import check_middle, check_row, fold

EVENTS: list[Event] = [
    sign_in.SignInStarted("0" * 64, "laptop", 5, 905),
    sign_in.SignInAuthorized("usr_1", True, 6),
    sign_in.SignInRedeemed("key_1", 7),
]


def test_a_row_shows_its_stream():
    check_row(
        PROJECTION,
        EVENTS,
        {
            "revision": 3,
            "device_code_hash": "0" * 64,
            "client_name": "laptop",
            "status": "redeemed",
            "started_at": 5,
            "expires_at": 905,
            "user_id": "usr_1",
            "is_new": True,
        },
    )


def test_a_history_that_begins_in_the_middle_folds():
    check_middle(PROJECTION, EVENTS)


def test_a_later_sign_in_takes_the_row_over():
    row = fold(PROJECTION, [*EVENTS, sign_in.SignInStarted("1" * 64, None, 2_000, 2_900)])
    assert (row.status, row.user_id, row.is_new, row.device_code_hash) == ("pending", None, False, "1" * 64)
    assert fold(PROJECTION, [EVENTS[0], sign_in.SignInDenied(6)]).status == "denied"
