"""The row of an erasure is what its answers show, with the receipts of the rounds before (G-197)."""

from __future__ import annotations

import msgspec

from projections.deletion import DELETIONS, ERASURES
from statemachines.deletion.erasure import ErasureBegan, ErasureCompleted
from statemachines.deletion.removal import DeletionCompleted, DeletionReceiptLapsed
from tests.projections.rows import check_ended, check_middle, check_row
from tests.statemachines.deletion.test_erasure import FENCED as ERASURE_FENCED
from tests.statemachines.deletion.test_removal import BEGAN, MANIFEST
from tests.statemachines.deletion.test_removal import FENCED as DELETION_FENCED

ERASURE_EVENTS = [ERASURE_FENCED, ErasureBegan(11), ErasureCompleted(7, 12)]


def test_an_erasure_shows_how_far_it_has_come():
    known = {
        "deletion_id": "del_1", "person_hash": "b" * 64, "command_key_sha256": "a" * 64, "names": 2, "fenced_at": 10,
        "records": None, "deleted_at": None, "receipts": [],
    }  # fmt: skip
    receipt = {
        "deletion_id": "del_1", "command_key_sha256": "a" * 64, "names": 2, "records": 7, "fenced_at": 10,
        "deleted_at": 12,
    }  # fmt: skip
    check_row(ERASURES, ERASURE_EVENTS[:1], {**known, "revision": 1, "phase": "fenced"})
    check_row(ERASURES, ERASURE_EVENTS[:2], {**known, "revision": 2, "phase": "purging"})
    over = {**known, "revision": 3, "phase": "deleted", "records": 7, "deleted_at": 12, "receipts": [receipt]}
    check_row(ERASURES, ERASURE_EVENTS, over)
    check_row(
        ERASURES, [*ERASURE_EVENTS, ERASURE_FENCED], {**known, "revision": 4, "phase": "fenced", "receipts": [receipt]}
    )


def test_an_erasure_from_its_middle_on_has_no_row():
    check_middle(ERASURES, ERASURE_EVENTS)


# The row of a deletion is what its answers show; a lapsed receipt has none (G-130).

REMOVAL_EVENTS = [DELETION_FENCED, BEGAN, DeletionCompleted(12)]


def test_a_deletion_shows_how_far_it_has_come():
    known = {
        "kind": "project",
        "scope_id": "proj_1",
        "account_id": "usr_1",
        "parent_id": None,
        "command_key_sha256": "a" * 64,
        "api_key_sha256": "",
        "fenced_at": 10,
        "cascaded": DELETION_FENCED.cascaded,
        "manifest": MANIFEST,
    }
    known = msgspec.to_builtins(known)
    fenced = {**known, "revision": 1, "phase": "fenced", "deleted_at": None, "external_follow_ups": []}
    follow_ups = msgspec.to_builtins(BEGAN.external_follow_ups)
    purging = {**fenced, "revision": 2, "phase": "purging", "external_follow_ups": follow_ups}
    check_row(DELETIONS, REMOVAL_EVENTS[:1], fenced)
    check_row(DELETIONS, REMOVAL_EVENTS[:2], purging)
    check_row(DELETIONS, REMOVAL_EVENTS, {**purging, "revision": 3, "phase": "deleted", "deleted_at": 12})


def test_a_receipt_that_lapsed_is_gone():
    check_middle(DELETIONS, REMOVAL_EVENTS[1:])
    check_ended(DELETIONS, [*REMOVAL_EVENTS, DeletionReceiptLapsed(13)])
