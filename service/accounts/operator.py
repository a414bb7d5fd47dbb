"""What an operator does from the command line: keys, links, members and sign-ins, by the commands that every door uses.

The document has no operation for refusing a sign-in, and owners can only invite people (G-019, G-023, G-177); whoever
may run the service's command line refuses, and adds members without asking them. Every function takes a started
EventStore, and its commands are recorded with the actor "system:operator". Each raises what the store raises besides
the refusals it names.
"""

from __future__ import annotations

from service.accounts import membership as memberships
from service.accounts import person as keys
from service.accounts import sign_in as sessions
from service.accounts import sign_in as sign_ins
from service.accounts.person import NewKey
from service.accounts.sign_in import NewLink
from service.auth.authority import carry_out
from service.eventstore.store import EventStore
from statemachines.accounts.membership import Role
from statemachines.accounts.person import Identity, person_id

ACTOR = "operator"


def email_identity(email: str, name: str | None = None) -> Identity:
    """Identity of a person whom the operator knows by mail address."""
    return Identity("email", email, email, name=name)


async def create_key(store: EventStore, identity: Identity) -> NewKey:
    """Make a key for the person of an identity, and the person if need be. Raises AccountDeletionInProgress."""
    salt = store.installation_salt
    intent = keys.create(salt, identity)
    return await carry_out(store, ACTOR, "keys create", intent, gates=[person_id(salt, identity)])


async def revoke_key(store: EventStore, key_id: str) -> None:
    """Revoke a key. After the return nothing commits under it. Raises KeyNotFound."""
    await carry_out(store, ACTOR, "keys revoke", await keys.revoke_anyones(store, key_id))


async def offer_session(store: EventStore, user_id: str) -> NewLink:
    """Make a link that signs a person in to the console. Raises PersonNotFound and AccountDeletionInProgress."""
    return await carry_out(store, ACTOR, "console open", sessions.offer_to(user_id), gates=[user_id])


async def offer_first_session(store: EventStore, identity: Identity) -> NewLink:
    """Make such a link for the person of an identity, and the person if need be. Raises AccountDeletionInProgress."""
    salt = store.installation_salt
    intent = sessions.offer(salt, identity)
    return await carry_out(store, ACTOR, "console open", intent, gates=[person_id(salt, identity)])


async def set_member(store: EventStore, project_id: str, user_id: str, role: Role) -> None:
    """Add a person to a project or change the role; the DSN stays (R-PROJ-07).

    Raises ProjectNotFound, ProjectDeletionInProgress, PersonNotFound, SyntheticMember, LastOwner.
    """
    intent = await memberships.set_role(store, project_id, user_id, role)
    await carry_out(store, ACTOR, "members add", intent, project=project_id)


async def remove_member(store: EventStore, project_id: str, user_id: str) -> None:
    """End a membership; from the return on nothing that rests on it commits.

    Raises ProjectNotFound, ProjectDeletionInProgress, MemberNotFound, LastOwner.
    """
    intent = await memberships.remove(store, project_id, user_id)
    await carry_out(store, ACTOR, "members remove", intent, project=project_id)


async def authorize_sign_in(store: EventStore, user_code: str, identity: Identity) -> str:
    """Authorize a user code as an identity; returns the user id. Raises UserCodeNotFound."""
    salt = store.installation_salt
    intent = sign_ins.authorize(salt, user_code, identity)
    known = await carry_out(store, ACTOR, "keys authorize", intent, gates=[person_id(salt, identity)])
    return known.user_id


async def deny_sign_in(store: EventStore, user_code: str) -> None:
    """Refuse a user code: its device is told access_denied. Raises UserCodeNotFound."""
    await carry_out(store, ACTOR, "keys deny", sign_ins.deny(store.installation_salt, user_code))
