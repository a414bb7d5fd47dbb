"""The row of a key shows the stream, and of the secret only its hash."""

from __future__ import annotations

from projections.accounts.key import PROJECTION
from statemachines.accounts import key
from statemachines.kernel.machine import Event
from tests.projections.rows import check_middle, check_row

EVENTS: list[Event] = [key.KeyMinted("usr_1", "0" * 64, "service_sk_abcde", "dev_1", 5), key.KeyRevoked(6)]


def test_a_row_shows_its_stream():
    check_row(
        PROJECTION,
        EVENTS,
        {
            "revision": 2,
            "key_hash": "0" * 64,
            "key_prefix": "service_sk_abcde",
            "sign_in_id": "dev_1",
            "created_at": 5,
            "revoked_at": 6,
        },
    )


def test_a_history_that_begins_in_the_middle_folds():
    check_middle(PROJECTION, EVENTS)
