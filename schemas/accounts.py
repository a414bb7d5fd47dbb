"""Wire contracts of people: keys, sessions, sign-ins, memberships, invitations, feedback."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.kernel import patterns
from schemas.kernel.shape import Closed, Epoch, Identifier, Role

# Wire contracts of a person's own API keys (G-027).


class KeyItem(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret."""

    id: str
    key_prefix: str
    created_at: Epoch
    last_used_at: Epoch | None
    revoked_at: Epoch | None


class KeyList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the caller's keys, newest first."""

    keys: list[KeyItem]
    count: int
    next_cursor: str | None
    next_action: str


class RevokeKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Revoke a key. The body is an empty object."""


class KeyRevokedBody(KeyItem, frozen=True, kw_only=True):
    """The revoked key."""

    next_action: str


# Wire contracts of a person's own sessions in the console.


class SessionItem(msgspec.Struct, frozen=True, kw_only=True):
    """An open session without its secret."""

    session_id: str
    signed_in_by: Literal["link", "oidc"]
    created_at: Epoch
    authenticated_at: Epoch
    last_used_at: Epoch | None
    expires_at: Epoch
    current: bool


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the caller's open sessions, newest first."""

    sessions: list[SessionItem]
    count: int
    next_cursor: str | None
    next_action: str


class SessionEndedBody(msgspec.Struct, frozen=True, kw_only=True):
    """A session that has ended."""

    session_id: str
    ended_at: Epoch
    next_action: str


# Wire contracts of the device flow and of identities (R-AUTH-14 to R-AUTH-18, G-020, G-021).

UserId = Annotated[str, Meta(description="The id of a person.")]
UserCode = Annotated[str, Meta(min_length=1, max_length=40, description="XXXX-XXXX. Case and dash are ignored.")]


class StartDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Begin a sign-in on a device without a browser."""

    client_name: Annotated[str, Meta(min_length=1, max_length=100)] | None = None


class DeviceStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The codes of a sign-in. The device code is a secret of the device. Durations are in seconds."""

    device_code: Annotated[str, Meta(min_length=40)]
    user_code: Annotated[str, Meta(pattern="^[A-Z]{4}-[A-Z]{4}$")]
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int
    next_action: str


class PollDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Poll a sign-in."""

    device_code: Annotated[str, Meta(min_length=1, max_length=200)]


class DeviceAuthorized(msgspec.Struct, frozen=True, kw_only=True):
    """The key of an authorized sign-in, shown once."""

    status: Literal["authorized"] = "authorized"
    user_id: UserId
    api_key: Annotated[str, Meta(pattern="^service_sk_[0-9A-Za-z]{43}$")]
    key_prefix: str
    env_var: Literal["SERVICE_API_KEY"] = "SERVICE_API_KEY"
    is_new: bool
    next_action: str


class IdentityBody(msgspec.Struct, frozen=True):
    """An identity as its provider describes it. Other members are ignored (G-003)."""

    provider: Annotated[str, Meta(min_length=1, max_length=50)]
    subject: Annotated[str, Meta(min_length=1, max_length=200)]
    email: Annotated[str, Meta(min_length=3, max_length=320)] | None = None
    email_verified: bool = False
    name: Annotated[str, Meta(max_length=200)] | None = None


class AuthorizeDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Authorize the sign-in of a user code as this identity."""

    user_code: UserCode
    identity: IdentityBody


class SignInAuthorizedBody(msgspec.Struct, frozen=True, kw_only=True):
    """The person of the authorized sign-in."""

    status: Literal["ok"] = "ok"
    user_id: UserId


class AuthorizeTestDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Authorize the sign-in of a user code as the synthetic identity of a test run."""

    user_code: UserCode
    test_run_id: Annotated[str, Meta(pattern=patterns.SHORT_TOKEN)]


class SyntheticSignInBody(msgspec.Struct, frozen=True, kw_only=True):
    """The synthetic person of the authorized sign-in."""

    status: Literal["ok"] = "ok"
    user_id: UserId
    is_new: bool
    test_run_id: str
    email: str
    next_action: str


class ResolveIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Find or create the person of an identity."""

    identity: IdentityBody


class IdentityResolved(msgspec.Struct, frozen=True, kw_only=True):
    """The person of an identity, and whether this call made the account."""

    user_id: UserId
    is_new: bool


class DevicePageQuery(msgspec.Struct, frozen=True):
    """The code that the page shows, when the link contains one."""

    user_code: Annotated[str, Meta(max_length=40)] | None = None


# Wire contracts of the members of a project and of invitations to it (G-177).

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


# Wire contract of feedback (G-063, G-158).

FeedbackKind = Literal["agent_discovered_bug", "bug", "question", "idea"]
Reference = Annotated[str, Meta(min_length=1, max_length=200)]


class SendFeedback(Closed, frozen=True, kw_only=True):
    """Feedback. The same kind and fingerprint again is a repeat: it is counted, and the first texts stay."""

    kind: FeedbackKind
    fingerprint: Annotated[str, Meta(min_length=8, max_length=200)]
    title: Annotated[str, Meta(min_length=1, max_length=200)]
    body_md: Annotated[str, Meta(max_length=16384)] | UnsetType = UNSET
    severity: Literal["low", "medium", "high"] | UnsetType = UNSET
    project_id: Identifier | UnsetType = UNSET
    operation: Reference | UnsetType = UNSET
    request_id: Reference | UnsetType = UNSET
    details: dict[str, Any] | UnsetType = UNSET


class FeedbackReceived(msgspec.Struct, frozen=True, kw_only=True):
    """Received feedback. `occurrences` counts the first one and its repeats."""

    id: str
    kind: FeedbackKind
    fingerprint: str
    status: Literal["received"] = "received"
    occurrences: Annotated[int, Meta(ge=1)]
    created_at: Epoch
    next_action: str
