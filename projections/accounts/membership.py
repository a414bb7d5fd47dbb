"""Members of projects and their roles. A removed membership has no row.

Auditors are rows of a table of their own. A release that does not know the role finds nobody there: it takes every
row of `memberships` that is not an owner's for a member's, who may write.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from projections.kernel.projection import Row, Table, projection
from statemachines.accounts.membership import AuditorAdded, MemberAdded, MembershipRemoved, OwnerAdded, Role
from statemachines.kernel.machine import Recorded


class MembershipRow(Row, frozen=True, kw_only=True):
    """An owner or a member. `created_at` is when the person became either."""

    user_id: str
    role: str
    created_at: int


class AuditorRow(Row, frozen=True, kw_only=True):
    """An auditor, since `created_at`."""

    user_id: str
    created_at: int


class OwnershipRow(msgspec.Struct, frozen=True, kw_only=True):
    """A person, by both ids, and the projects that they own, but for those that are going."""

    project_id: str
    id: str
    projects: list[str]


def fold(row: MembershipRow | None, recorded: Recorded) -> MembershipRow | None:
    """Fold an event of a membership into its row."""
    match recorded.event:
        case OwnerAdded(user_id, added_at) | MemberAdded(user_id, added_at):
            role = (Role.OWNER if isinstance(recorded.event, OwnerAdded) else Role.MEMBER).value
            if row:
                return replace(row, revision=recorded.revision, role=role)
            return MembershipRow(
                project_id=recorded.project_id,
                id=recorded.originator_id,
                revision=recorded.revision,
                user_id=user_id,
                role=role,
                created_at=added_at,
            )
        case AuditorAdded() | MembershipRemoved():
            return None
    return row


def fold_auditor(row: AuditorRow | None, recorded: Recorded) -> AuditorRow | None:
    """Fold an event of a membership into the row of an auditor."""
    match recorded.event:
        case AuditorAdded(user_id, added_at):
            return AuditorRow(
                project_id=recorded.project_id,
                id=recorded.originator_id,
                revision=recorded.revision,
                user_id=user_id,
                created_at=added_at,
            )
        case OwnerAdded() | MemberAdded() | MembershipRemoved():
            return None
    return row


OWNERSHIPS = Table("ownerships", OwnershipRow, ("project_id", "id"))
PROJECTION = projection("memberships", MembershipRow, ("mem",), fold)
AUDITORS = projection("auditors", AuditorRow, ("mem",), fold_auditor)
