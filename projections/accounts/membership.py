"""Members of projects and their roles. A removed membership has no row."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from projections.kernel.projection import Row, Table, projection
from statemachines.accounts.membership import MemberAdded, MembershipRemoved, OwnerAdded, Role
from statemachines.kernel.machine import Recorded


class MembershipRow(Row, frozen=True, kw_only=True):
    """A membership. `created_at` is when the person joined, whatever the role was then."""

    user_id: str
    role: str
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
        case MembershipRemoved():
            return None
    return row


OWNERSHIPS = Table("ownerships", OwnershipRow, ("project_id", "id"))
PROJECTION = projection("memberships", MembershipRow, ("mem",), fold)
