"""People as rows, with their identities, keys, sessions, sign-ins, memberships, invitations and feedback."""

import msgspec
from msgspec.structs import replace

from projections.kernel import Row, Table, UseRow, header, projection
from statemachines.accounts.identity import IdentityBound
from statemachines.accounts.invitation import InvitationAccepted, InvitationMade, InvitationRevoked
from statemachines.accounts.key import KeyMinted, KeyRevoked
from statemachines.accounts.membership import AuditorAdded, MemberAdded, MembershipRemoved, OwnerAdded, Role
from statemachines.accounts.person import PersonDeleted, PersonFenced, PersonProfileChanged, PersonRegistered
from statemachines.accounts.session import LIFETIME, SessionAuthenticated, SessionEnded, SessionOffered, SessionOpened
from statemachines.accounts.sign_in import SignInAuthorized, SignInDenied, SignInRedeemed, SignInStarted
from statemachines.kernel.machine import Recorded

# People. The row's scope is the user id.


class PersonRow(Row, frozen=True, kw_only=True):
    """A person. `status` is active or fenced; a deleted account has no row."""

    provider: str
    email: str
    email_verified: bool
    name: str | None
    synthetic: bool
    status: str
    created_at: int
    fenced_at: int | None = None


def fold_person(row: PersonRow | None, recorded: Recorded) -> PersonRow | None:
    """Fold an event of a person into their row."""
    match recorded.event:
        case PersonRegistered() as event:
            return PersonRow(
                **header(recorded),
                provider=event.provider,
                email=event.email,
                email_verified=event.email_verified,
                name=event.name,
                synthetic=event.synthetic,
                status="active",
                created_at=event.registered_at,
            )
        case PersonProfileChanged(email, email_verified, name) if row:
            revision = recorded.revision
            return replace(row, revision=revision, email=email, email_verified=email_verified, name=name)
        case PersonFenced(fenced_at) if row:
            return replace(row, revision=recorded.revision, status="fenced", fenced_at=fenced_at)
        case PersonDeleted():
            return None
    return row


PEOPLE = projection("people", PersonRow, ("usr",), fold_person)


# Identities at OIDC issuers, each with its person. The row's scope is the id itself.


class IdentityRow(Row, frozen=True, kw_only=True):
    """An identity, bound to a person."""

    user_id: str
    issuer: str
    bound_at: int


def fold_identity(row: IdentityRow | None, recorded: Recorded) -> IdentityRow | None:
    """Fold an event of an identity into its row."""
    match recorded.event:
        case IdentityBound(user_id, issuer, bound_at):
            return IdentityRow(
                **header(recorded),
                user_id=user_id,
                issuer=issuer,
                bound_at=bound_at,
            )
    return row


IDENTITIES = projection("identities", IdentityRow, ("idn",), fold_identity)


# API keys: what authentication looks up and their holders list. The row's scope is the user id (G-027).


class KeyRow(Row, frozen=True, kw_only=True):
    """A key, live or revoked; of its secret only the SHA-256 and the first characters."""

    key_hash: str
    key_prefix: str
    sign_in_id: str | None
    created_at: int
    revoked_at: int | None = None

    @property
    def user_id(self) -> str:
        """The person it belongs to."""
        return self.project_id

    @property
    def status(self) -> str:
        """Its status: live or revoked."""
        return "live" if self.revoked_at is None else "revoked"


def fold_key(row: KeyRow | None, recorded: Recorded) -> KeyRow | None:
    """Fold an event of a key into its row."""
    match recorded.event:
        case KeyMinted() as event:
            return KeyRow(
                **header(recorded),
                key_hash=event.key_hash,
                key_prefix=event.key_prefix,
                sign_in_id=event.sign_in_id,
                created_at=event.minted_at,
            )
        case KeyRevoked(revoked_at) if row:
            return replace(row, revision=recorded.revision, revoked_at=revoked_at)
    return row


KEYS = projection("api_keys", KeyRow, ("key",), fold_key)
KEY_USES = Table("key_uses", UseRow)


# Sessions and their links: what the console looks up and people list. The row's scope is the user id.

KEPT = 3600
"""Seconds for which a session, sign-in or invitation keeps its row after its time."""
LONGEST_USE = LIFETIME + KEPT
"""Seconds after its last use at which a session has no row."""


class SessionRow(Row, frozen=True, kw_only=True):
    """A link or a session; of their secrets only the SHA-256. `status` is offered, open or ended.

    `authenticated_at` is when the person signed in last, `by` what with.
    """

    status: str
    link_hash: str
    secret_hash: str
    by: str
    created_at: int
    authenticated_at: int
    expires_at: int
    ended_at: int | None = None

    @property
    def user_id(self) -> str:
        """The person it belongs to."""
        return self.project_id

    def open(self, now: int) -> bool:
        """Whether somebody can be signed in by it."""
        return self.status == "open" and now < self.expires_at


def fold_session(row: SessionRow | None, recorded: Recorded) -> SessionRow | None:
    """Fold an event of a session into its row."""
    match recorded.event:
        case SessionOffered() as event:
            return SessionRow(
                **header(recorded),
                status="offered",
                link_hash=event.link_hash,
                secret_hash="",
                by="",
                created_at=event.offered_at,
                authenticated_at=0,
                expires_at=event.expires_at,
            )
        case SessionOpened() as event:
            return SessionRow(
                **header(recorded),
                status="open",
                link_hash="",  # A link that was used is found by nobody.
                secret_hash=event.secret_hash,
                by=event.by,
                created_at=event.opened_at,
                authenticated_at=event.opened_at,
                expires_at=event.expires_at,
            )
        case SessionAuthenticated(secret_hash, by, authenticated_at) if row:
            revision = recorded.revision
            return replace(row, revision=revision, secret_hash=secret_hash, by=by, authenticated_at=authenticated_at)
        case SessionEnded(_, ended_at) if row:
            return replace(row, revision=recorded.revision, status="ended", ended_at=ended_at)
    return row


def session_lasts(row: SessionRow, now: int) -> bool:
    """Whether a row is kept: until an hour after its time."""
    return now <= row.expires_at + KEPT


SESSIONS = projection("sessions", SessionRow, ("ses",), fold_session, session_lasts)
SESSION_USES = Table("session_uses", UseRow)


# Device sign-ins: what a poll looks up by its device code. The row's scope is the sign-in itself.


class SignInRow(Row, frozen=True, kw_only=True):
    """A sign-in by its current user code; a later one with the same user code replaces the row."""

    device_code_hash: str
    client_name: str | None
    status: str
    started_at: int
    expires_at: int
    user_id: str | None = None
    is_new: bool = False


class PollRow(msgspec.Struct, frozen=True, kw_only=True):
    """A fact outside streams: when a device last polled, and its interval in seconds (G-020)."""

    project_id: str
    id: str
    device_code_hash: str
    last_polled_at: int
    interval_seconds: int


def fold_sign_in(row: SignInRow | None, recorded: Recorded) -> SignInRow | None:
    """Fold an event of a sign-in into its row."""
    match recorded.event:
        case SignInStarted() as event:
            return SignInRow(
                **header(recorded),
                device_code_hash=event.device_code_hash,
                client_name=event.client_name,
                status="pending",
                started_at=event.started_at,
                expires_at=event.expires_at,
            )
        case SignInAuthorized(user_id, is_new) if row:
            return replace(row, revision=recorded.revision, status="authorized", user_id=user_id, is_new=is_new)
        case SignInDenied() if row:
            return replace(row, revision=recorded.revision, status="denied")
        case SignInRedeemed() if row:
            return replace(row, revision=recorded.revision, status="redeemed")
    return row


def sign_in_lasts(row: SignInRow, now: int) -> bool:
    """Whether a row is kept: until an hour after the code expired; a poll gets the same answer without it."""
    return now <= row.expires_at + KEPT


SIGN_INS = projection("sign_ins", SignInRow, ("dev",), fold_sign_in, sign_in_lasts)
SIGN_IN_POLLS = Table("sign_in_polls", PollRow)


# Members of projects and their roles. A removed membership has no row. Auditors are rows of a table of their own. A
# release that does not know the role finds nobody there: it takes every row of `memberships` that is not an owner's
# for a member's, who may write.


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


def fold_membership(row: MembershipRow | None, recorded: Recorded) -> MembershipRow | None:
    """Fold an event of a membership into its row."""
    match recorded.event:
        case OwnerAdded(user_id, added_at) | MemberAdded(user_id, added_at):
            role = (Role.OWNER if isinstance(recorded.event, OwnerAdded) else Role.MEMBER).value
            if row:
                return replace(row, revision=recorded.revision, role=role)
            return MembershipRow(
                **header(recorded),
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
                **header(recorded),
                user_id=user_id,
                created_at=added_at,
            )
        case OwnerAdded() | MemberAdded() | MembershipRemoved():
            return None
    return row


OWNERSHIPS = Table("ownerships", OwnershipRow)
MEMBERSHIPS = projection("memberships", MembershipRow, ("mem",), fold_membership)
AUDITORS = projection("auditors", AuditorRow, ("mem",), fold_auditor)


# Invitations to projects. A row stays for an hour after its time, whatever became of the invitation.


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


def fold_invitation(row: InvitationRow | None, recorded: Recorded) -> InvitationRow | None:
    """Fold an event of an invitation into its row."""
    match recorded.event:
        case InvitationMade() as event:
            return InvitationRow(
                **header(recorded),
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


def invitation_lasts(row: InvitationRow, now: int) -> bool:
    """Whether a row is kept: until an hour after its time; whoever asks later is told that there is none."""
    return now <= row.expires_at + KEPT


INVITATIONS = projection("invitations", InvitationRow, ("inv",), fold_invitation, invitation_lasts)
STANDINGS = Table("invitation_standings", StandingRow)


# Feedback of a person: facts outside streams, in the scope of the person (G-158).


class FeedbackRow(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback as it was first sent. `project_id` is the scope, the user id; `about_project` the project, if any.

    `details` is JSON. `occurrences` counts the first one too. Times are in epoch seconds.
    """

    project_id: str
    id: str
    kind: str
    fingerprint: str
    title: str
    body_md: str | None
    severity: str | None
    about_project: str | None
    operation: str | None
    request_id: str | None
    details: str | None
    occurrences: int
    created_at: int
    last_at: int


class FeedbackCountRow(msgspec.Struct, frozen=True, kw_only=True):
    """The number of rows of a person, by the stream of the person. A view, no table."""

    project_id: str
    id: str
    kept: int


FEEDBACK = Table("feedback", FeedbackRow)
FEEDBACK_COUNTS = Table("feedback_counts", FeedbackCountRow)
