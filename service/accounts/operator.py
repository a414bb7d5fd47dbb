"""What an operator does from the command line: keys, members and sign-ins, through the same command loop.

The document has no operation for members and none for refusing a sign-in (G-019, G-023); whoever may run the
service's command line may do both. Every function takes a started EventStore, and its commands are recorded with the
actor "system:operator". Each raises what the loop raises besides the refusals it names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from service.accounts.units import (
    authorize,
    mint_key,
    register,
)
from service.auth.authority import check_fence
from service.auth.secrets import SecretKind, make
from service.eventstore.commands import Answer, Command, Lookup, Origin, Unit
from service.eventstore.store import EventStore
from service.ids import new_id
from statemachines.accounts import key as keys
from statemachines.accounts import membership as memberships
from statemachines.accounts import person as people
from statemachines.accounts import sign_in as sign_ins
from statemachines.accounts.key import KeyNotFound
from statemachines.accounts.membership import Role, check_may_join
from statemachines.accounts.person import Identity, PersonNotFound
from statemachines.kernel.machine import Stream
from statemachines.projects.project import ProjectNotFound


class CreatedKey(NamedTuple):
    """A key made by the operator; `api_key` is shown once."""

    user_id: str
    key_id: str
    api_key: str
    key_prefix: str
    is_new: bool


class ListedKey(NamedTuple):
    """A key with its person and its last use."""

    key: KeyRow
    email: str
    last_used_at: int | None


class Member(NamedTuple):
    """A member of a project."""

    user_id: str
    email: str
    role: str
    created_at: int


def email_identity(email: str, name: str | None = None) -> Identity:
    """Identity of a person whom the operator knows by mail address."""
    return Identity("email", email, email, name=name)


async def create_key(store: EventStore, identity: Identity) -> CreatedKey:
    """Make a key for the person of an identity, and the person if need be. Raises AccountDeletionInProgress."""
    person = people.stream(people.person_id(store.installation_salt, identity))
    secret, key = make(SecretKind.KEY), keys.stream(person.id, new_id("key"))
    made: list[bool] = []

    def decide(unit: Unit) -> Answer:
        made.append(register(unit, person, identity))
        mint_key(unit, key, secret, None)
        return _done()

    await _execute(store, "keys create", decide, [person, key], gates=[person.id])
    return CreatedKey(person.id, key.id, secret.text, secret.prefix, made[-1])


async def list_keys(store: EventStore, user_id: str | None = None) -> list[ListedKey]:
    """List the keys of a person, or of everybody, newest first."""
    rows = await store.fetch(
        "select row_to_json(t)::text, coalesce(p.email, ''), u.last_used_at from api_keys t "
        "left join people p on p.project_id = t.project_id and p.id = t.project_id "
        "left join key_uses u on u.project_id = t.project_id and u.id = t.id "
        "where %s::text is null or t.project_id = %s order by t.created_at desc, t.id desc",
        user_id,
        user_id,
    )
    return [ListedKey(msgspec.json.decode(text, type=KeyRow), email, used) for text, email, used in rows]


async def revoke_key(store: EventStore, key_id: str) -> None:
    """End a key; from the return on nothing that rests on it commits. Raises KeyNotFound."""
    rows = await store.find(KEYS.table, "t.id = %s", key_id, limit=1)
    if not rows:
        raise KeyNotFound("There is no such key.", next_action="List the keys.")
    stream = keys.stream(rows[0].user_id, key_id)

    def decide(unit: Unit) -> Answer:
        unit.append(stream, keys.decide_revoke(unit.state(stream), unit.now))
        return _done()

    await _execute(store, "keys revoke", decide, [stream], exclusive=[stream.project_id])


async def find_person(store: EventStore, text: str) -> PersonRow:
    """Find a person by user id or mail address. Raises PersonNotFound, also when several have the address."""
    rows = await store.find(PEOPLE.table, "t.id = %s or t.email = %s", text, text, limit=2)
    if len(rows) != 1:
        raise PersonNotFound(
            "Several people have this address." if rows else "There is no such person.",
            next_action="Name the person by user id." if rows else "Create a key for the person first.",
        )
    return rows[0]


async def set_member(store: EventStore, project_id: str, user_id: str, role: Role) -> None:
    """Add a person to a project or change the role; the DSN stays (R-PROJ-07).

    Raises ProjectNotFound, ProjectDeletionInProgress, PersonNotFound, SyntheticMember, LastOwner.
    """
    person, membership = people.stream(user_id), memberships.stream(project_id, user_id)
    others = await _other_members(store, project_id, user_id)

    def decide(unit: Unit) -> Answer:
        project = _check_project(unit, project_id)
        check_may_join(unit.state(person), synthetic_project=project)
        owners = _owners(unit, others)
        state = unit.state(membership)
        unit.append(membership, memberships.decide_set_role(state, user_id, role, unit.now, other_owners=owners))
        return _done()

    # Exclusive because it may take the owner's role away: what that person started must not commit afterwards.
    await _execute(store, "members add", decide, [membership], reads=[person], lookups=others, exclusive=[project_id])


async def list_members(store: EventStore, project_id: str) -> list[Member]:
    """List the members of a project, oldest first. Raises ProjectNotFound."""
    if await store.get(PROJECTS.table, project_id, project_id) is None:
        raise ProjectNotFound("There is no such project.")
    rows = await store.fetch(
        "select m.user_id, coalesce(p.email, ''), m.role, m.created_at from memberships m "
        "left join people p on p.project_id = m.user_id and p.id = m.user_id "
        "where m.project_id = %s order by m.created_at, m.user_id",
        project_id,
    )
    return [Member(*row) for row in rows]


async def remove_member(store: EventStore, project_id: str, user_id: str) -> None:
    """End a membership; from the return on nothing that rests on it commits.

    Raises ProjectNotFound, ProjectDeletionInProgress, MemberNotFound, LastOwner.
    """
    membership = memberships.stream(project_id, user_id)
    others = await _other_members(store, project_id, user_id)

    def decide(unit: Unit) -> Answer:
        _check_project(unit, project_id)
        owners = _owners(unit, others)
        unit.append(membership, memberships.decide_remove(unit.state(membership), unit.now, other_owners=owners))
        return _done()

    await _execute(store, "members remove", decide, [membership], lookups=others, exclusive=[project_id])


async def list_sign_ins(store: EventStore) -> list[SignInRow]:
    """List the live sign-ins, newest first; their codes are not kept, so they cannot be shown."""
    where = "t.expires_at > floor(extract(epoch from service_now()))"
    return await store.find(SIGN_INS.table, where, order_by="t.started_at desc, t.id desc")


async def authorize_sign_in(store: EventStore, user_code: str, identity: Identity) -> str:
    """Let an identity stand behind a user code; returns the user id. Raises UserCodeNotFound."""
    salt = store.installation_salt
    code = sign_ins.stream(sign_ins.sign_in_id(salt, user_code))
    person = people.stream(people.person_id(salt, identity))

    def decide(unit: Unit) -> Answer:
        authorize(unit, code, person, identity)
        return _done()

    await _execute(store, "keys authorize", decide, [code, person], gates=[person.id])
    return person.id


async def deny_sign_in(store: EventStore, user_code: str) -> None:
    """Refuse a user code: its device is told access_denied. Raises UserCodeNotFound."""
    code = sign_ins.stream(sign_ins.sign_in_id(store.installation_salt, user_code))

    def decide(unit: Unit) -> Answer:
        unit.append(code, sign_ins.decide_deny(unit.state(code), unit.now))
        return _done()

    await _execute(store, "keys deny", decide, [code])


async def _other_members(store: EventStore, project_id: str, user_id: str) -> list[Lookup]:
    """The memberships to read again under the gate: who else could own the project.

    Somebody who becomes an owner between this read and the gate is not counted, which can only refuse too much.
    """
    rows: Sequence[MembershipRow] = await store.find(
        MEMBERSHIPS.table,
        "t.project_id = %s and t.id <> %s",
        project_id,
        memberships.stream(project_id, user_id).id,
    )
    return [Lookup(MEMBERSHIPS.table, project_id, row.id) for row in rows]


def _owners(unit: Unit, members: Sequence[Lookup]) -> list[str]:
    rows = [unit.row(MEMBERSHIPS.table, member.project_id, member.id) for member in members]
    return [row.user_id for row in rows if row is not None and row.role == Role.OWNER.value]


def _check_project(unit: Unit, project_id: str) -> bool:
    """Whether the project is one of a test run. Raises ProjectNotFound, ProjectDeletionInProgress."""
    project = unit.row(PROJECTS.table, project_id, project_id)
    if project is None:
        raise ProjectNotFound("There is no such project.")
    check_fence(project)
    return project.synthetic


def _done() -> Answer:
    return Answer(204, None)


async def _execute(
    store: EventStore,
    operation: str,
    decide: Callable[[Unit], Answer],
    streams: Sequence[Stream],
    *,
    reads: Sequence[Stream] = (),
    lookups: Sequence[Lookup] = (),
    gates: Sequence[str] = (),
    exclusive: Sequence[str] = (),
) -> None:
    projects = [Lookup(PROJECTS.table, scope, scope) for scope in exclusive]
    origin = Origin(actor_kind="system", actor_id="operator", operation=operation, request_id=new_id("req"))
    await store.execute(
        Command(
            origin=origin,
            decide=decide,
            streams=streams,
            reads=reads,
            lookups=[*lookups, *projects],
            gates=gates,
            exclusive=exclusive,
        )
    )
