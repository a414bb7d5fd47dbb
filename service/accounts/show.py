"""People, keys, sessions, sign-ins and memberships on the wire (R-AUTH-14 to R-AUTH-18, G-020, G-021, G-027)."""

from collections.abc import Sequence
from typing import Any, cast

from projections.accounts import InvitationRow
from schemas import accounts as wire
from schemas.kernel.shape import Role
from service.accounts.membership import Invited, Joined
from service.accounts.person import KnownPerson, ListedMember, NewKey, Offered, UsedKey, UsedSession
from service.accounts.sign_in import Codes
from statemachines.accounts.sign_in import INTERVAL, LIFETIME

# Keys, sessions, sign-ins and people on the wire (R-AUTH-14 to R-AUTH-18, G-020, G-021, G-027).


def key_list(keys: Sequence[UsedKey], next_cursor: str | None) -> wire.KeyList:
    """A page of a person's keys."""
    return wire.KeyList(
        keys=[wire.KeyItem(**_members(used)) for used in keys],
        count=len(keys),
        next_cursor=next_cursor,
        next_action="Revoke a key that leaked or is no longer needed with POST /v1/keys/{key_id}/revoke.",
    )


def key_revoked(used: UsedKey) -> wire.KeyRevokedBody:
    """A key as it ended."""
    next_action = "Delete your copies of the key. Sign in again for a new one."
    return wire.KeyRevokedBody(**_members(used), next_action=next_action)


def session_list(sessions: Sequence[UsedSession], current: str | None, next_cursor: str | None) -> wire.SessionList:
    """A page of a person's open sessions. `current` is the id of the one that asks."""
    return wire.SessionList(
        sessions=[_session(used, current) for used in sessions],
        count=len(sessions),
        next_cursor=next_cursor,
        next_action="End a session that you do not know with DELETE /v1/auth/sessions/{session_id}.",
    )


def session_ended(used: UsedSession) -> wire.SessionEndedBody:
    """A session as it ended."""
    session = used.session
    assert session.ended_at is not None, "it has just ended"
    return wire.SessionEndedBody(
        session_id=session.id,
        ended_at=session.ended_at,
        next_action="Nothing to do. The browser that was signed in has to sign in again.",
    )


def device_started(base_url: str, codes: Codes) -> wire.DeviceStarted:
    """A sign-in that began, with the secret of its device."""
    return wire.DeviceStarted(
        device_code=codes.device_code,
        user_code=codes.user_code,
        verification_uri=f"{base_url}/device",
        verification_uri_complete=f"{base_url}/device?user_code={codes.user_code}",
        expires_in=LIFETIME,
        interval=INTERVAL,
        next_action="Show the user code and the verification address, then poll with the device code.",
    )


def device_authorized(key: NewKey) -> wire.DeviceAuthorized:
    """The key of a sign-in, with its secret."""
    return wire.DeviceAuthorized(
        user_id=key.user_id,
        api_key=key.api_key,
        key_prefix=key.key_prefix,
        is_new=key.is_new,
        next_action="Store the key in SERVICE_API_KEY. It is not shown again. Then list or create a project.",
    )


def sign_in_authorized(person: KnownPerson) -> wire.SignInAuthorizedBody:
    """The person who stands behind a code."""
    return wire.SignInAuthorizedBody(user_id=person.user_id)


def synthetic_sign_in(test_run_id: str, email: str, person: KnownPerson) -> wire.SyntheticSignInBody:
    """The person of a test run who stands behind a code."""
    return wire.SyntheticSignInBody(
        user_id=person.user_id,
        is_new=person.is_new,
        test_run_id=test_run_id,
        email=email,
        next_action="Poll with the device code to receive the key.",
    )


def identity_resolved(person: KnownPerson) -> wire.IdentityResolved:
    """The person of an identity."""
    return wire.IdentityResolved(user_id=person.user_id, is_new=person.is_new)


def _members(used: UsedKey) -> dict[str, Any]:
    """The members of KeyItem."""
    key, last_used_at = used
    return {
        "id": key.id,
        "key_prefix": key.key_prefix,
        "created_at": key.created_at,
        "last_used_at": last_used_at,
        "revoked_at": key.revoked_at,
    }


def _session(used: UsedSession, current: str | None) -> wire.SessionItem:
    session, last_used_at = used
    return wire.SessionItem(
        session_id=session.id,
        signed_in_by=session.by,  # type: ignore[arg-type] # a row has no other
        created_at=session.created_at,
        authenticated_at=session.authenticated_at,
        last_used_at=last_used_at,
        expires_at=session.expires_at,
        current=session.id == current,
    )


# Members and invitations on the wire (G-177).

_CONSEQUENCES = {
    "auditor": ["You can read all of the project but its raw DSN, and change nothing. Owners see your mail address."],
    "member": ["You can read the project and work on its cases. Owners see your mail address."],
    "owner": [
        "You can do everything in the project, also delete it. Other owners see your mail address.",
        "If the owners before you leave, your account pays for the project.",
    ],
}


def invited(made: Invited) -> wire.MemberInvited:
    """What an owner is told of an invitation."""
    return wire.MemberInvited(invitation_id=made.invitation_id, expires_at=made.expires_at)


def member_list(
    project_id: str, members: Sequence[ListedMember], invitations: Sequence[InvitationRow], next_cursor: str | None
) -> wire.MemberList:
    """A page of members, and the open invitations."""
    return wire.MemberList(
        project_id=project_id,
        members=[
            wire.MemberItem(user_id=one.user_id, email=one.email, role=_role(one.role), created_at=one.created_at)
            for one in members
        ],
        invitations=[
            wire.InvitationItem(
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


def member_removed(project_id: str, user_id: str) -> wire.MemberRemoved:
    """A membership as it ended."""
    next_action = "Revoke the credentials this person may know, and rotate the DSN if necessary."
    return wire.MemberRemoved(project_id=project_id, user_id=user_id, next_action=next_action)


def invitation_revoked(invitation_id: str) -> wire.InvitationRevokedBody:
    """An invitation as it ended."""
    next_action = "Invite the address again if this was a mistake."
    return wire.InvitationRevokedBody(invitation_id=invitation_id, next_action=next_action)


def offered(found: Offered) -> wire.InvitationBody:
    """An invitation as the person with its address sees it."""
    row = found.invitation
    accept = f"Accept it with POST /v1/members/invitations/{row.id}/accept, or ignore it."
    done = f"Read the project with GET /v1/projects/{row.project_id}/health."
    return wire.InvitationBody(
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


def invitation_accepted(joined: Joined) -> wire.InvitationAcceptedBody:
    """What somebody who accepted is in the project now."""
    return wire.InvitationAcceptedBody(
        project_id=joined.project_id,
        user_id=joined.user_id,
        role=_role(joined.role),
        next_action=f"Read the project with GET /v1/projects/{joined.project_id}/health.",
    )


def _role(text: str) -> Role:
    return cast("Role", text)
