"""Answers about erasures (G-197)."""

from __future__ import annotations

from schemas.deletion.erasure import UserDeleted, UserDeleting
from service.deletion.people.reads import ErasureRound

POLL_AFTER = 1
_AGAIN = "Repeat this request with the same Idempotency-Key until it answers 200."
_OVER = "Keep this receipt. Records under one of the names from now on are those of a new person."


def erasure(found: ErasureRound) -> UserDeleting | UserDeleted:
    """Show a round of an erasure."""
    if found.deleted_at is None:
        return UserDeleting(
            status="deleting",
            phase="purging" if found.phase == "purging" else "fenced",
            project_id=found.project_id,
            deletion_id=found.deletion_id,
            person_hash=found.person_hash,
            names=found.names,
            fenced_at=found.fenced_at,
            poll_after_seconds=POLL_AFTER,
            next_action=_AGAIN,
        )
    return UserDeleted(
        status="deleted",
        phase="deleted",
        project_id=found.project_id,
        deletion_id=found.deletion_id,
        person_hash=found.person_hash,
        names=found.names,
        records=found.records or 0,
        fenced_at=found.fenced_at,
        deleted_at=found.deleted_at,
        next_action=_OVER,
    )
