"""Queries about people, keys, memberships and sign-ins."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from projections.accounts.key import PROJECTION as KEYS
from projections.accounts.key import KeyRow
from projections.accounts.membership import PROJECTION as MEMBERSHIPS
from projections.accounts.membership import MembershipRow
from projections.accounts.person import PROJECTION as PEOPLE
from projections.accounts.person import PersonRow
from projections.accounts.sign_in import PROJECTION as SIGN_INS
from projections.accounts.sign_in import SignInRow
from projections.projects.project import PROJECTION as PROJECTS
from service.eventstore.clock import NOW_SECONDS
from service.eventstore.pages import Place
from service.eventstore.store import EventStore
from statemachines.accounts.membership import membership_id
from statemachines.accounts.person import PersonNotFound
from statemachines.projects.project import ProjectNotFound

_KEYS_OF = (
    "select row_to_json(t)::text, u.last_used_at from api_keys t left join key_uses u using (project_id, id) "
    "where t.project_id = %s and (t.created_at, t.id) < (%s, %s) order by t.created_at desc, t.id desc limit %s"
)
_ALL_KEYS = (
    "select row_to_json(t)::text, coalesce(p.email, ''), u.last_used_at from api_keys t "
    "left join people p on p.project_id = t.project_id and p.id = t.project_id "
    "left join key_uses u on u.project_id = t.project_id and u.id = t.id "
    "where %s::text is null or t.project_id = %s order by t.created_at desc, t.id desc"
)
_MEMBERS = (
    "select m.user_id, coalesce(p.email, ''), m.role, m.created_at from memberships m "
    "left join people p on p.project_id = m.user_id and p.id = m.user_id "
    "where m.project_id = %s order by m.created_at, m.user_id"
)


class UsedKey(NamedTuple):
    """A key, and when it was last used, in epoch seconds."""

    key: KeyRow
    last_used_at: int | None


class ListedKey(NamedTuple):
    """A key with its person's mail address ('' of a deleted account) and its last use, in epoch seconds."""

    key: KeyRow
    email: str
    last_used_at: int | None


class Member(NamedTuple):
    """A member of a project; joined at `created_at`, in epoch seconds."""

    user_id: str
    email: str
    role: str
    created_at: int


async def keys_of(store: EventStore, user_id: str, after: Place, limit: int) -> list[UsedKey]:
    """List at most `limit` keys of a person that come after a place, live and revoked, newest first."""
    rows = await store.fetch(_KEYS_OF, user_id, after.at, after.id, limit)
    return [UsedKey(msgspec.json.decode(text, type=KeyRow), used) for text, used in rows]


async def all_keys(store: EventStore, user_id: str | None = None) -> list[ListedKey]:
    """List the keys of a person, or of everybody, newest first."""
    rows = await store.fetch(_ALL_KEYS, user_id, user_id)
    return [ListedKey(msgspec.json.decode(text, type=KeyRow), email, used) for text, email, used in rows]


async def find_key(store: EventStore, key_id: str) -> KeyRow | None:
    """Find a key by its id, whoever's it is."""
    rows = await store.find(KEYS.table, "t.id = %s", key_id, limit=1)
    return rows[0] if rows else None


async def find_person(store: EventStore, text: str) -> PersonRow:
    """Find a person by user id or mail address. Raises PersonNotFound, also when several have the address."""
    rows = await store.find(PEOPLE.table, "t.id = %s or t.email = %s", text, text, limit=2)
    if len(rows) != 1:
        raise PersonNotFound(
            "Several people have this address." if rows else "There is no such person.",
            next_action="Name the person by user id." if rows else "Create a key for the person first.",
        )
    return rows[0]


async def members_of(store: EventStore, project_id: str) -> list[Member]:
    """List the members of a project, oldest first. Raises ProjectNotFound."""
    if await store.get(PROJECTS.table, project_id, project_id) is None:
        raise ProjectNotFound("There is no such project.")
    return [Member(*row) for row in await store.fetch(_MEMBERS, project_id)]


async def other_memberships(store: EventStore, project_id: str, user_id: str) -> list[MembershipRow]:
    """Read the memberships of a project but for one person's."""
    own = membership_id(project_id, user_id)
    return await store.find(MEMBERSHIPS.table, "t.project_id = %s and t.id <> %s", project_id, own)


async def find_sign_in(store: EventStore, device_code_hash: str) -> SignInRow | None:
    """Find the sign-in of a device by the SHA-256 of its code."""
    rows = await store.find(SIGN_INS.table, "t.device_code_hash = %s", device_code_hash, limit=1)
    return rows[0] if rows else None


async def live_sign_ins(store: EventStore) -> list[SignInRow]:
    """List the live sign-ins, newest first; their codes are not kept, so they cannot be shown."""
    return await store.find(SIGN_INS.table, f"t.expires_at > {NOW_SECONDS}", order_by="t.started_at desc, t.id desc")
