"""Deletions as their answers show them (G-130)."""

from __future__ import annotations

from typing import Literal

import msgspec

from projections.deletion.removal import DeletionRow
from schemas.deletion.removal import (
    AccountDeleted,
    AccountDeleting,
    AutomationDeletionManifest,
    CascadedCounts,
    DeletionProgress,
    FollowUpOutside,
    ProjectDeleted,
    ProjectDeleting,
)
from service.deletion.reads import DeletionLeft
from statemachines.deletion.removal import Manifest

POLL_AFTER = 1
_AGAIN = "Repeat this request with the same Idempotency-Key until it answers 200."
_OUTSIDE = "Check the external follow-ups. This service cannot end them."
_OVER = "Keep this receipt. Nothing is left to do here."
_NOTE = "Projects with another owner stay. The same identity may sign in again, as a new person."


def project(row: DeletionRow, left: DeletionLeft | None = None) -> ProjectDeleting | ProjectDeleted:
    """Show the deletion of a project, and what is `left` of it where that was counted."""
    if row.deleted_at is None:
        return ProjectDeleting(
            status="deleting",
            phase=_phase(row),
            poll_after_seconds=POLL_AFTER,
            project_id=row.scope_id,
            deletion_id=row.id,
            fenced_at=row.fenced_at,
            automation_deletion_manifest=manifest(row.manifest),
            progress=_progress(left),
            next_action=_AGAIN,
        )
    return ProjectDeleted(
        status="deleted",
        phase="deleted",
        project_id=row.scope_id,
        deletion_id=row.id,
        fenced_at=row.fenced_at,
        deleted_at=row.deleted_at,
        automation_deletion_manifest=manifest(row.manifest),
        external_follow_ups=_follow_ups(row),
        next_action=_OUTSIDE if row.external_follow_ups else _OVER,
    )


def account(row: DeletionRow, left: DeletionLeft | None = None) -> AccountDeleting | AccountDeleted:
    """Show the deletion of an account, and what is `left` of it where that was counted.

    Its manifest is shown once all of its projects are fenced: it is their sum.
    """
    cascaded = msgspec.convert(msgspec.to_builtins(row.cascaded), CascadedCounts)
    if row.deleted_at is None:
        return AccountDeleting(
            status="deleting",
            phase=_phase(row),
            poll_after_seconds=POLL_AFTER,
            user_id=row.scope_id,
            deletion_id=row.id,
            fenced_at=row.fenced_at,
            cascaded=cascaded,
            automation_deletion_manifest=None if row.phase == "fenced" else manifest(row.manifest),
            progress=_progress(left),
            next_action=_AGAIN,
        )
    return AccountDeleted(
        status="deleted",
        user_id=row.scope_id,
        deletion_id=row.id,
        fenced_at=row.fenced_at,
        deleted_at=row.deleted_at,
        cascaded=cascaded,
        automation_deletion_manifest=manifest(row.manifest),
        external_follow_ups=_follow_ups(row),
        note=_NOTE,
        next_action=_OUTSIDE if row.external_follow_ups else _OVER,
    )


def _follow_ups(row: DeletionRow) -> list[FollowUpOutside]:
    return msgspec.convert(msgspec.to_builtins(row.external_follow_ups), list[FollowUpOutside])


def _progress(left: DeletionLeft | None) -> DeletionProgress | msgspec.UnsetType:
    return msgspec.UNSET if left is None else DeletionProgress(left.projects, left.open, left.telemetry)


def _phase(row: DeletionRow) -> Literal["fenced", "purging"]:
    return "purging" if row.phase == "purging" else "fenced"


def manifest(found: Manifest) -> AutomationDeletionManifest:
    """Show a manifest."""
    return msgspec.convert({**msgspec.to_builtins(found), "sample_limit": 20}, AutomationDeletionManifest)
