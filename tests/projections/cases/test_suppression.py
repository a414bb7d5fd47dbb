"""One row holds the rules of a project, in the order in which they were made (G-053)."""

from __future__ import annotations

from projections.cases.suppression import SuppressionRule, fold
from statemachines.cases.suppression import SuppressionCreated
from statemachines.kernel.machine import Recorded


def test_rules_are_kept_oldest_first():
    row = None
    for revision in (1, 2):
        event = SuppressionCreated(f"sup_{revision}", "*", "auto_ignore", "noise", None, revision)
        row = fold(row, Recorded("sups_1", revision, event, "proj_1", 5, "key:key_1"))
    assert row.revision == 2
    assert row.rules == [
        SuppressionRule(
            id=f"sup_{n}",
            fingerprint_pattern="*",
            action="auto_ignore",
            reason="noise",
            hint_text=None,
            created_at=n,
        )
        for n in (1, 2)
    ]
    assert fold(row, Recorded("sups_1", 3, object(), "proj_1", 5, "key:key_1")) is row
