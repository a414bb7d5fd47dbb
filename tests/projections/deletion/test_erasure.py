"""The row of an erasure is what its answers show, with the receipts of the rounds before (G-197)."""

from __future__ import annotations

from projections.deletion.erasure import PROJECTION
from statemachines.deletion.erasure import ErasureBegan, ErasureCompleted
from tests.projections.rows import check_middle, check_row
from tests.statemachines.deletion.test_erasure import FENCED

EVENTS = [FENCED, ErasureBegan(11), ErasureCompleted(7, 12)]


def test_an_erasure_shows_how_far_it_has_come():
    known = {
        "deletion_id": "del_1", "person_hash": "b" * 64, "command_key_sha256": "a" * 64, "names": 2, "fenced_at": 10,
        "records": None, "deleted_at": None, "receipts": [],
    }  # fmt: skip
    receipt = {
        "deletion_id": "del_1", "command_key_sha256": "a" * 64, "names": 2, "records": 7, "fenced_at": 10,
        "deleted_at": 12,
    }  # fmt: skip
    check_row(PROJECTION, EVENTS[:1], {**known, "revision": 1, "phase": "fenced"})
    check_row(PROJECTION, EVENTS[:2], {**known, "revision": 2, "phase": "purging"})
    over = {**known, "revision": 3, "phase": "deleted", "records": 7, "deleted_at": 12, "receipts": [receipt]}
    check_row(PROJECTION, EVENTS, over)
    check_row(PROJECTION, [*EVENTS, FENCED], {**known, "revision": 4, "phase": "fenced", "receipts": [receipt]})


def test_an_erasure_from_its_middle_on_has_no_row():
    check_middle(PROJECTION, EVENTS)
