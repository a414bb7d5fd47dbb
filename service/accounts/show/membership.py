"""Members and invitations on the wire (G-177)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from projections.accounts.invitation import InvitationRow
from schemas.accounts.membership import (
    InvitationAcceptedBody,
    InvitationBody,
    InvitationItem,
    InvitationRevokedBody,
    MemberInvited,
    MemberItem,
    MemberList,
    MemberRemoved,
    Role,
)
from service.accounts.commands.invitation import Invited, Joined
from service.accounts.reads import ListedMember, Offered

_CONSEQUENCES = {
    "auditor": ["You can read all of the project but its raw DSN, and change nothing. Owners see your mail address."],
    "member": ["You can read the project and work on its cases. Owners see your mail address."],
    "owner": [
        "You can do everything in the project, also delete it. Other owners see your mail address.",
        "If the owners before you leave, your account pays for the project.",
    ],
}


def invited(made: Invited) -> MemberInvited:
    """What an owner is told of an invitation."""
    return MemberInvited(invitation_id=made.invitation_id, expires_at=made.expires_at)


def member_list(
    project_id: str, members: Sequence[ListedMember], invitations: Sequence[InvitationRow], next_cursor: str | None
) -> MemberList:
    """A page of members, and the open invitations."""
    return MemberList(
        project_id=project_id,
        members=[
            MemberItem(user_id=one.user_id, email=one.email, role=_role(one.role), created_at=one.created_at)
            for one in members
        ],
        invitations=[
            InvitationItem(
                invitation_id=one.id,
                email=one.email,
                role=_role(one.role),
                invited_by=one.invited_by,
                invited_at=one.invited_at,
                expires_at=one.expires_at,
            )
            for one in invitations
        ],
        count=len(members),
        next_cursor=next_cursor,
        next_action="Hand each invitation's id over to the person yourself: the service sends no mail.",
    )


def member_removed(project_id: str, user_id: str) -> MemberRemoved:
    """A membership as it ended."""
    next_action = "Revoke the credentials this person may know, and rotate the DSN if necessary."
    return MemberRemoved(project_id=project_id, user_id=user_id, next_action=next_action)


def invitation_revoked(invitation_id: str) -> InvitationRevokedBody:
    """An invitation as it ended."""
    next_action = "Invite the address again if this was a mistake."
    return InvitationRevokedBody(invitation_id=invitation_id, next_action=next_action)


def offered(found: Offered) -> InvitationBody:
    """An invitation as the person with its address sees it."""
    row = found.invitation
    accept = f"Accept it with POST /v1/members/invitations/{row.id}/accept, or ignore it."
    done = f"Read the project with GET /v1/projects/{row.project_id}/health."
    return InvitationBody(
        invitation_id=row.id,
        status="open" if row.status == "open" else "accepted",
        project_id=row.project_id,
        project_name=found.project_name,
        role=_role(row.role),
        invited_at=row.invited_at,
        expires_at=row.expires_at,
        consequences=_CONSEQUENCES[row.role],
        next_action=accept if row.status == "open" else done,
    )


def invitation_accepted(joined: Joined) -> InvitationAcceptedBody:
    """What somebody who accepted is in the project now."""
    return InvitationAcceptedBody(
        project_id=joined.project_id,
        user_id=joined.user_id,
        role=_role(joined.role),
        next_action=f"Read the project with GET /v1/projects/{joined.project_id}/health.",
    )


def _role(text: str) -> Role:
    return cast("Role", text)
