"""The row of a deletion is what its answers show; a lapsed receipt has none (G-130)."""

from __future__ import annotations

import msgspec

from projections.deletion.removal import PROJECTION
from statemachines.deletion.removal import DeletionCompleted, DeletionReceiptLapsed
from tests.projections.rows import check_ended, check_middle, check_row
from tests.statemachines.deletion.test_removal import BEGAN, FENCED, MANIFEST

EVENTS = [FENCED, BEGAN, DeletionCompleted(12)]


def test_a_deletion_shows_how_far_it_has_come():
    known = {
        "kind": "project",
        "scope_id": "proj_1",
        "account_id": "usr_1",
        "parent_id": None,
        "command_key_sha256": "a" * 64,
        "api_key_sha256": "",
        "fenced_at": 10,
        "cascaded": FENCED.cascaded,
        "manifest": MANIFEST,
    }
    known = msgspec.to_builtins(known)
    fenced = {**known, "revision": 1, "phase": "fenced", "deleted_at": None, "external_follow_ups": []}
    follow_ups = msgspec.to_builtins(BEGAN.external_follow_ups)
    purging = {**fenced, "revision": 2, "phase": "purging", "external_follow_ups": follow_ups}
    check_row(PROJECTION, EVENTS[:1], fenced)
    check_row(PROJECTION, EVENTS[:2], purging)
    check_row(PROJECTION, EVENTS, {**purging, "revision": 3, "phase": "deleted", "deleted_at": 12})


def test_a_receipt_that_lapsed_is_gone():
    check_middle(PROJECTION, EVENTS[1:])
    check_ended(PROJECTION, [*EVENTS, DeletionReceiptLapsed(13)])
