"""Wire contracts of the members of a project and of invitations to it (G-177)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.accounts.sign_in import UserId
from schemas.kernel import patterns
from schemas.kernel.shape import Epoch

Role = Literal["owner", "member", "auditor"]
InvitationId = Annotated[str, Meta(description="The id of an invitation.")]


class InviteMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Invite an address into the project, or change the role of the member who has it."""

    email: Annotated[str, Meta(min_length=3, max_length=320, pattern=patterns.MAIL, description="A mail address.")]
    role: Role


class MemberInvited(msgspec.Struct, frozen=True, kw_only=True):
    """The invitation to hand over. The answer does not show whether the address is known."""

    invitation_id: InvitationId
    expires_at: Epoch


class MemberItem(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the project, with a mail address ("" when none is known)."""

    user_id: UserId
    email: str
    role: Role
    created_at: Epoch


class InvitationItem(msgspec.Struct, frozen=True, kw_only=True):
    """An invitation that can still be accepted."""

    invitation_id: InvitationId
    email: str
    role: Role
    invited_by: UserId
    invited_at: Epoch
    expires_at: Epoch


class MemberList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the project's members, newest first, and on each page all open invitations."""

    project_id: str
    members: list[MemberItem]
    invitations: list[InvitationItem]
    count: Annotated[int, Meta(ge=0, description="Members on this page.")]
    next_cursor: str | None
    next_action: str


class MemberRemoved(msgspec.Struct, frozen=True, kw_only=True):
    """A membership that ended."""

    status: Literal["removed"] = "removed"
    project_id: str
    user_id: UserId
    next_action: str


class InvitationRevokedBody(msgspec.Struct, frozen=True, kw_only=True):
    """A revoked or expired invitation."""

    status: Literal["revoked"] = "revoked"
    invitation_id: InvitationId
    next_action: str


class InvitationBody(msgspec.Struct, frozen=True, kw_only=True):
    """The invitation, as the person with the invited address sees it."""

    invitation_id: InvitationId
    status: Literal["open", "accepted"]
    project_id: str
    project_name: str
    role: Role
    invited_at: Epoch
    expires_at: Epoch
    consequences: list[str]
    next_action: str


class AcceptInvitation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Accept an invitation. The body is an empty object."""


class InvitationAcceptedBody(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's role in the project."""

    status: Literal["accepted"] = "accepted"
    project_id: str
    user_id: UserId
    role: Role
    next_action: str
