"""Queries about people, keys, sessions, memberships, invitations and sign-ins."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from projections.accounts import (
    INVITATIONS,
    KEYS,
    MEMBERSHIPS,
    PEOPLE,
    SESSIONS,
    SIGN_INS,
    FeedbackRow,
    InvitationRow,
    KeyRow,
    MembershipRow,
    PersonRow,
    SessionRow,
    SignInRow,
)
from projections.projects import PROJECTS
from service.eventstore.connect.facts import NOW_SECONDS
from service.eventstore.read.reader import PageEnd
from service.eventstore.store import EventStore
from service.sql import load_query
from statemachines.accounts.invitation import normalized, proves
from statemachines.accounts.person import Identity, Person, PersonNotFound, Status, person_id
from statemachines.accounts.sign_in import sign_in_id
from statemachines.projects.project import ProjectNotFound

_KEYS_OF = load_query("accounts", "keys_of")
_SESSIONS_OF = load_query("accounts", "sessions_of")
_ALL_KEYS = load_query("accounts", "all_keys")
_FEEDBACK = load_query("accounts", "feedback")
_MEMBERS = load_query("accounts", "members")
_MEMBERS_PAGE = load_query("accounts", "members_page")
_OFFERED = load_query("accounts", "offered")
_STANDS = "invitation_stands(project => t.project_id, invitation => t.id)"


class UsedKey(NamedTuple):
    """A key, and when it was last used, in epoch seconds."""

    key: KeyRow
    last_used_at: int | None


class UsedSession(NamedTuple):
    """A session, and when it was last used, in epoch seconds."""

    session: SessionRow
    last_used_at: int | None


class ListedKey(NamedTuple):
    """A key with its person's mail address ('' of a deleted account) and its last use, in epoch seconds."""

    key: KeyRow
    email: str
    last_used_at: int | None


class Member(NamedTuple):
    """A member of a project, joined at `created_at`, in epoch seconds."""

    user_id: str
    email: str
    role: str
    created_at: int


class ListedMember(NamedTuple):
    """A member of a project on a page; joined at `created_at`, in epoch seconds, by the membership `id`."""

    user_id: str
    email: str
    role: str
    created_at: int
    id: str


class Offered(NamedTuple):
    """An invitation as the person with its address may see it, and the project's name."""

    invitation: InvitationRow
    project_name: str


async def keys_of(store: EventStore, user_id: str, after: PageEnd, limit: int) -> list[UsedKey]:
    """List at most `limit` keys of a person that come after a place, live and revoked, newest first."""
    rows = await store.fetch(_KEYS_OF, user_id=user_id, at=after.at, id=after.id, limit=limit)
    return [UsedKey(msgspec.json.decode(text, type=KeyRow), used) for text, used in rows]


async def sessions_of(store: EventStore, user_id: str, after: PageEnd, limit: int) -> list[UsedSession]:
    """List at most `limit` open sessions of a person that come after a place, newest first."""
    rows = await store.fetch(_SESSIONS_OF, user_id=user_id, at=after.at, id=after.id, limit=limit)
    return [UsedSession(msgspec.json.decode(text, type=SessionRow), used) for text, used in rows]


async def find_link(store: EventStore, link_hash: str) -> SessionRow | None:
    """Find the unused link of a secret by its SHA-256."""
    rows = await store.find(SESSIONS, "t.link_hash = %s and t.status = 'offered'", link_hash, limit=1)
    return rows[0] if rows else None


async def all_keys(store: EventStore, user_id: str | None = None) -> list[ListedKey]:
    """List the keys of a person, or of everybody, newest first."""
    rows = await store.fetch(_ALL_KEYS, user_id=user_id)
    return [ListedKey(msgspec.json.decode(text, type=KeyRow), email, used) for text, email, used in rows]


async def latest_feedback(store: EventStore, limit: int) -> list[FeedbackRow]:
    """List at most `limit` feedback of everybody, the latest first."""
    rows = await store.fetch(_FEEDBACK, limit=limit)
    return [msgspec.json.decode(text, type=FeedbackRow) for (text,) in rows]


async def find_key(store: EventStore, key_id: str) -> KeyRow | None:
    """Find a key by its id, whoever's it is."""
    rows = await store.find(KEYS, "t.id = %s", key_id, limit=1)
    return rows[0] if rows else None


async def find_person(store: EventStore, text: str) -> PersonRow:
    """Find a person by user id or mail address. Raises PersonNotFound, also when several have the address."""
    rows = await store.find(PEOPLE, "t.id = %s or t.email = %s", text, text, limit=2)
    if len(rows) != 1:
        raise PersonNotFound(
            "Several people have this address." if rows else "There is no such person.",
            next_action="Name the person by user id." if rows else "Create a key for the person first.",
        )
    return rows[0]


async def find_proven(store: EventStore, email: str) -> PersonRow | None:
    """Find the person with a proven address: by the identity of the address itself first, else by a verified one."""
    texts = sorted({email, normalized(email)})
    ids = [person_id(store.installation_salt, Identity("email", text, text)) for text in texts]
    where = "not t.synthetic and (t.id = any(%s) or (t.email = any(%s) and t.email_verified))"
    order = "t.provider <> 'email', t.created_at, t.id"
    rows = await store.find(PEOPLE, where, ids, texts, order_by=order, limit=1)
    return rows[0] if rows else None


async def find_signed_in_otherwise(store: EventStore, identity: Identity) -> PersonRow | None:
    """Find the person who has the address of an identity and signs in at an issuer, unless the identity has its own."""
    own = person_id(store.installation_salt, identity)
    if await store.get(PEOPLE, own, own) is not None:
        return None
    where = "not t.synthetic and t.provider <> 'email' and lower(t.email) = lower(%s)"
    rows = await store.find(PEOPLE, where, identity.email, order_by="t.created_at, t.id", limit=1)
    return rows[0] if rows else None


async def members_of(store: EventStore, project_id: str) -> list[Member]:
    """List the members of a project, oldest first. Raises ProjectNotFound."""
    if await store.get(PROJECTS, project_id, project_id) is None:
        raise ProjectNotFound("There is no such project.")
    return [Member(*row) for row in await store.fetch(_MEMBERS, project_id=project_id)]


async def other_memberships(store: EventStore, project_id: str, user_id: str) -> list[MembershipRow]:
    """Read the memberships of a project but for one person's."""
    return [row for row in await memberships_in(store, project_id) if row.user_id != user_id]


async def find_sign_in(store: EventStore, device_code_hash: str) -> SignInRow | None:
    """Find the sign-in of a device by the SHA-256 of its code."""
    rows = await store.find(SIGN_INS, "t.device_code_hash = %s", device_code_hash, limit=1)
    return rows[0] if rows else None


async def pending_sign_in(store: EventStore, user_code: str) -> SignInRow | None:
    """Find the live sign-in that shows a user code and waits for somebody."""
    wanted = sign_in_id(store.installation_salt, user_code)
    where = f"t.project_id = %s and t.id = %s and t.status = 'pending' and t.expires_at > {NOW_SECONDS}"
    rows = await store.find(SIGN_INS, where, wanted, wanted, limit=1)
    return rows[0] if rows else None


async def live_sign_ins(store: EventStore) -> list[SignInRow]:
    """List the live sign-ins, newest first. Their codes are not stored, so they cannot be shown."""
    return await store.find(SIGN_INS, f"t.expires_at > {NOW_SECONDS}", order_by="t.started_at desc, t.id desc")


async def memberships_in(store: EventStore, project_id: str) -> list[MembershipRow]:
    """Read the memberships of a project."""
    return await store.find(MEMBERSHIPS, "t.project_id = %s", project_id)


async def members_with(store: EventStore, project_id: str, email: str) -> list[str]:
    """Name the members of a project by the user id whose address is this one."""
    return [one.user_id for one in await members_of(store, project_id) if normalized(one.email) == normalized(email)]


async def members_page(store: EventStore, project_id: str, after: PageEnd, limit: int) -> list[ListedMember]:
    """List at most `limit` members of a project that come after a place, newest first."""
    rows = await store.fetch(_MEMBERS_PAGE, project_id=project_id, at=after.at, id=after.id, limit=limit)
    return [ListedMember(*row) for row in rows]


async def open_invitations(store: EventStore, project_id: str) -> list[InvitationRow]:
    """List the open invitations of a project, newest first. Their number is bounded."""
    where = f"t.project_id = %s and t.status = 'open' and {_STANDS}"
    return await store.find(INVITATIONS, where, project_id, order_by="t.invited_at desc, t.id desc")


async def find_offered(store: EventStore, made_id: str, user_id: str) -> Offered | None:
    """Find an invitation that a person could accept or has accepted; None for everybody else."""
    for text, name, shown in await store.fetch(_OFFERED, user_id=user_id, invitation_id=made_id):
        invitation, row = msgspec.json.decode(text, type=InvitationRow), msgspec.json.decode(shown, type=PersonRow)
        person = Person(Status(row.status), row.email, row.email_verified, row.name, row.synthetic)
        return Offered(invitation, name) if proves(person, invitation.email) else None
    return None
