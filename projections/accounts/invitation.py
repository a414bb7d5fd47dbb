"""Invitations to projects. A row stays for an hour after its time, whatever became of the invitation."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from projections.kernel.projection import Row, Table, projection
from statemachines.accounts.invitation import InvitationAccepted, InvitationMade, InvitationRevoked
from statemachines.kernel.machine import Recorded

KEPT = 3600  # seconds


class InvitationRow(Row, frozen=True, kw_only=True):
    """The latest invitation of an address; `standing` is the revision of its maker's membership then."""

    email: str
    role: str
    status: str
    invited_by: str
    standing: int
    invited_at: int
    expires_at: int
    accepted_by: str | None = None


class StandingRow(msgspec.Struct, frozen=True, kw_only=True):
    """What is open, by the stream of a project or an invitation, as it is when it is read: a view, no table.

    `stands`: the invitation is open and rests on an owner; `open_count`: of the project, how many do.
    """

    project_id: str
    id: str
    stands: bool
    open_count: int


def fold(row: InvitationRow | None, recorded: Recorded) -> InvitationRow | None:
    """Fold an event of an invitation into its row."""
    match recorded.event:
        case InvitationMade() as event:
            return InvitationRow(
                project_id=recorded.project_id,
                id=recorded.originator_id,
                revision=recorded.revision,
                email=event.email,
                role=event.role,
                status="open",
                invited_by=event.invited_by,
                standing=event.standing,
                invited_at=event.invited_at,
                expires_at=event.expires_at,
            )
        case InvitationAccepted(user_id) if row:
            return replace(row, revision=recorded.revision, status="accepted", accepted_by=user_id)
        case InvitationRevoked() if row:
            return replace(row, revision=recorded.revision, status="revoked")
    return row


def lasts(row: InvitationRow, now: int) -> bool:
    """Whether a row is kept: until an hour after its time; whoever asks later is told that there is none."""
    return now <= row.expires_at + KEPT


PROJECTION = projection("invitations", InvitationRow, ("inv",), fold)._replace(lasts=lasts)
STANDINGS = Table("invitation_standings", StandingRow, ("project_id", "id"))
