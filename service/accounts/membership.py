"""Memberships and invitations to them (R-PROJ-07, G-025, G-177).

All are fences of the project, because they may take authority away: what a person started before must not commit
afterwards. The exclusive gate is also what makes "one owner stays" hold, a rule across the streams of all members.
Whoever carries them out has read the project under the gate and refused a fenced one.
"""

from collections.abc import Sequence
from typing import NamedTuple

from projections.accounts import INVITATIONS, MEMBERSHIPS, PEOPLE, STANDINGS, InvitationRow, MembershipRow
from projections.projects import PROJECTS
from service.accounts import person as keys
from service.accounts import person as persons
from service.accounts import sign_in as sessions
from service.accounts import sign_in as sign_ins
from service.auth.authority import carry_out
from service.eventstore.declare.commands import Intent, Lookup, Unit
from service.eventstore.store import EventStore
from statemachines.accounts import invitation as invitations
from statemachines.accounts import membership as memberships
from statemachines.accounts import person as people
from statemachines.accounts.membership import Membership, Role
from statemachines.kernel.machine import Stream

# Memberships: a person's role in a project, given, changed and ended (R-PROJ-07, G-025, G-177).


async def set_role(store: EventStore, project_id: str, user_id: str, role: Role) -> Intent[None]:
    """Add a person to a project or change the role; the DSN stays. A role that is held already records nothing.

    Raises PersonNotFound, AccountDeletionInProgress, SyntheticMember, LastOwner.
    """
    person, membership = people.stream(user_id), memberships.stream(project_id, user_id)
    owners = await owners_of(store, project_id)
    open_one = await _invitations_of(store, project_id, user_id)

    def decide(unit: Unit) -> None:
        project = unit.row(PROJECTS, project_id, project_id)
        assert project is not None, "the authority check has read the project"
        memberships.check_may_join(unit.state(person), synthetic_project=project.synthetic)
        state = unit.state(membership)
        unit.append(
            membership,
            memberships.decide_set_role(
                state, user_id, role, unit.now, other_owners=owners.active(unit, besides=user_id)
            ),
        )
        withdraw(unit, open_one)

    lookups = [*owners.lookups, Lookup(PROJECTS, project_id, project_id)]
    return Intent([membership, *open_one], decide, reads=[person], lookups=lookups, fence=True, saves=True)


async def remove(store: EventStore, project_id: str, user_id: str) -> Intent[None]:
    """End a membership, and what is still offered to the person; a repeat records nothing.

    Raises MemberNotFound, LastOwner.
    """
    membership = memberships.stream(project_id, user_id)
    owners = await owners_of(store, project_id)
    open_one = await _invitations_of(store, project_id, user_id)

    def decide(unit: Unit) -> None:
        state = unit.state(membership)
        unit.append(
            membership, memberships.decide_remove(state, unit.now, other_owners=owners.active(unit, besides=user_id))
        )
        withdraw(unit, open_one)

    return Intent([membership, *open_one], decide, lookups=owners.lookups, fence=True)


def withdraw(unit: Unit, streams: Sequence[Stream]) -> None:
    """Take back what is still offered, as a step of a command that writes these streams and settles the role."""
    for stream in streams:
        state = unit.state(stream)
        if state.status is invitations.Status.OPEN:
            unit.append(stream, invitations.decide_revoke(state, unit.now))


class Owners(NamedTuple):
    """Memberships to read again under the gate: who could own the project.

    Somebody who becomes an owner between the first look and the gate is not counted, which can only refuse too much.
    """

    members: Sequence[MembershipRow]

    @property
    def lookups(self) -> list[Lookup]:
        """The rows that `active` reads."""
        found = [Lookup(MEMBERSHIPS, member.project_id, member.id) for member in self.members]
        return [*found, *(Lookup(PEOPLE, member.user_id, member.user_id) for member in self.members)]

    def active(self, unit: Unit, *, besides: str) -> list[str]:
        """Who of them, besides one, owns the project and is not being deleted."""
        found = []
        for member in self.members:
            if member.user_id == besides:
                continue
            membership = unit.row(MEMBERSHIPS, member.project_id, member.id)
            person = unit.row(PEOPLE, member.user_id, member.user_id)
            owns = membership is not None and membership.role == Role.OWNER.value
            if owns and person is not None and person.status == "active":
                found.append(member.user_id)
        return found


async def owners_of(store: EventStore, project_id: str) -> Owners:
    """Read who could own a project."""
    return Owners(await persons.memberships_in(store, project_id))


async def _invitations_of(store: EventStore, project_id: str, user_id: str) -> list[Stream]:
    """Name the invitation of a person's address, if it has one."""
    person = await store.get(PEOPLE, user_id, user_id)
    if person is None:
        return []
    made_id = invitations.invitation_id(store.installation_salt, project_id, person.email)
    return [invitations.stream(project_id, made_id)]


# Invitations: an owner offers a role to an address, the person behind it accepts, an owner takes it back (G-177). All
# are fences of the project, as what they lead to is. The inviter's ownership, and whether the address is proven, are
# read again under the gate.


class Invited(NamedTuple):
    """What an owner is told, whoever was invited: times in epoch seconds."""

    invitation_id: str
    expires_at: int


class Joined(NamedTuple):
    """What somebody who accepted is in the project now."""

    project_id: str
    user_id: str
    role: str


async def invite(store: EventStore, project_id: str, email: str, role: Role, *, invited_by: str) -> Intent[Invited]:
    """Offer a role to an address. For members it is their role that is to change (G-177).

    A lesser role takes effect at once. A greater one waits for consent, because an owner may come to pay. What is so
    already records nothing. Raises LastOwner, TooManyInvitations.
    """
    stream = invitations.stream(project_id, invitations.invitation_id(store.installation_salt, project_id, email))
    owners = await owners_of(store, project_id)
    named = {one: memberships.stream(project_id, one) for one in await persons.members_with(store, project_id, email)}
    own = Lookup(MEMBERSHIPS, project_id, memberships.membership_id(project_id, invited_by))
    standings = [Lookup(STANDINGS, project_id, project_id), Lookup(STANDINGS, project_id, stream.id)]

    def decide(unit: Unit) -> Invited:
        states = {user_id: unit.state(one) for user_id, one in named.items()}
        less = {user_id: state for user_id, state in states.items() if memberships.is_less(role, state.status)}
        if less or any(state.status.value == role.value for state in states.values()):
            for user_id, state in less.items():
                others = owners.active(unit, besides=user_id)
                unit.append(
                    named[user_id], memberships.decide_set_role(state, user_id, role, unit.now, other_owners=others)
                )
            withdraw(unit, [stream])
            return Invited(stream.id, unit.now + invitations.LIFETIME)
        inviter = unit.row(MEMBERSHIPS, own.project_id, own.id)
        assert inviter is not None, "the authority check has read the membership"
        stands, total = _standing(unit, stream), unit.row(STANDINGS, project_id, project_id)
        others_open = (total.open_count if total else 0) - stands
        offer = invitations.Offer(email, role, invited_by, inviter.revision)
        state = unit.state(stream)
        state = unit.append(
            stream, invitations.decide_make(state, offer, unit.now, stands=stands, others_open=others_open)
        )
        return Invited(stream.id, state.expires_at)

    lookups = [*owners.lookups, own, *standings]
    return Intent([stream, *named.values()], decide, lookups=lookups, fence=True, saves=True)


def accept(row: InvitationRow, user_id: str) -> Intent[Joined]:
    """Take up an invitation that was found for this person; a repeat records nothing.

    Nobody loses a role by it. Raises InvitationNotFound, SyntheticMember.
    """
    project_id, person = row.project_id, people.stream(user_id)
    stream, membership = invitations.stream(project_id, row.id), memberships.stream(project_id, user_id)

    def decide(unit: Unit) -> Joined:
        project = unit.row(PROJECTS, project_id, project_id)
        if project is None or project.status != "active":
            raise invitations.no_invitation()
        invitation, joining, member = unit.state(stream), unit.state(person), unit.state(membership)
        stands = _standing(unit, stream)
        events = invitations.decide_accept(invitation, user_id, joining, unit.now, stands=stands)
        if events:
            memberships.check_may_join(joining, synthetic_project=project.synthetic)
            unit.append(stream, events)
            role = Role(invitation.role)
            if not memberships.is_less(role, member.status):
                member = unit.append(membership, memberships.decide_set_role(member, user_id, role, unit.now))
        return Joined(project_id, user_id, _role(member))

    standing, project = Lookup(STANDINGS, project_id, row.id), Lookup(PROJECTS, project_id, project_id)
    lookups = [standing, project]
    return Intent([stream, membership], decide, reads=[person], lookups=lookups, fence=project_id, saves=True)


async def revoke(store: EventStore, project_id: str, made_id: str) -> Intent[str]:
    """Revoke an invitation. After the answer nobody can accept it. Raises InvitationNotFound."""
    if await store.get(INVITATIONS, project_id, made_id) is None:
        raise invitations.none_to_revoke()
    stream = invitations.stream(project_id, made_id)

    def decide(unit: Unit) -> str:
        unit.append(stream, invitations.decide_revoke(unit.state(stream), unit.now))
        return made_id

    return Intent([stream], decide, fence=True)


def _role(member: Membership) -> str:
    """The role that somebody has. Raises InvitationNotFound for one who was removed since."""
    role = memberships.role_of(member.status)
    if role is None:
        raise invitations.no_invitation()
    return role.value


def _standing(unit: Unit, stream: Stream) -> bool:
    row = unit.row(STANDINGS, *stream.name)
    return row is not None and row.stands


# What an operator does from the command line: keys, links, members and sign-ins, by the commands that every door
# uses. The document has no operation for refusing a sign-in, and owners can only invite people (G-019, G-023,
# G-177); whoever may run the service's command line refuses, and adds members without asking them. Every function
# takes a started EventStore, and its commands are recorded with the actor "system:operator". Each raises what the
# store raises besides the refusals it names.

ACTOR = "operator"


def email_identity(email: str, name: str | None = None) -> people.Identity:
    """Identity of a person whom the operator knows by mail address."""
    return people.Identity("email", email, email, name=name)


async def create_key(store: EventStore, identity: people.Identity) -> persons.NewKey:
    """Make a key for the person of an identity, and the person if need be. Raises AccountDeletionInProgress."""
    salt = store.installation_salt
    intent = keys.create(salt, identity)
    return await carry_out(store, ACTOR, "keys create", intent, gates=[people.person_id(salt, identity)])


async def revoke_key(store: EventStore, key_id: str) -> None:
    """Revoke a key. After the return nothing commits under it. Raises KeyNotFound."""
    await carry_out(store, ACTOR, "keys revoke", await keys.revoke_anyones(store, key_id))


async def offer_session(store: EventStore, user_id: str) -> sign_ins.NewLink:
    """Make a link that signs a person in to the console. Raises PersonNotFound and AccountDeletionInProgress."""
    return await carry_out(store, ACTOR, "console open", sessions.offer_to(user_id), gates=[user_id])


async def offer_first_session(store: EventStore, identity: people.Identity) -> sign_ins.NewLink:
    """Make such a link for the person of an identity, and the person if need be. Raises AccountDeletionInProgress."""
    salt = store.installation_salt
    intent = sessions.offer(salt, identity)
    return await carry_out(store, ACTOR, "console open", intent, gates=[people.person_id(salt, identity)])


async def set_member(store: EventStore, project_id: str, user_id: str, role: Role) -> None:
    """Add a person to a project or change the role; the DSN stays (R-PROJ-07).

    Raises ProjectNotFound, ProjectDeletionInProgress, PersonNotFound, SyntheticMember, LastOwner.
    """
    intent = await set_role(store, project_id, user_id, role)
    await carry_out(store, ACTOR, "members add", intent, project=project_id)


async def remove_member(store: EventStore, project_id: str, user_id: str) -> None:
    """End a membership; from the return on nothing that rests on it commits.

    Raises ProjectNotFound, ProjectDeletionInProgress, MemberNotFound, LastOwner.
    """
    intent = await remove(store, project_id, user_id)
    await carry_out(store, ACTOR, "members remove", intent, project=project_id)


async def authorize_sign_in(store: EventStore, user_code: str, identity: people.Identity) -> str:
    """Authorize a user code as an identity; returns the user id. Raises UserCodeNotFound."""
    salt = store.installation_salt
    intent = sign_ins.authorize(salt, user_code, identity)
    known = await carry_out(store, ACTOR, "keys authorize", intent, gates=[people.person_id(salt, identity)])
    return known.user_id


async def deny_sign_in(store: EventStore, user_code: str) -> None:
    """Refuse a user code: its device is told access_denied. Raises UserCodeNotFound."""
    await carry_out(store, ACTOR, "keys deny", sign_ins.deny(store.installation_salt, user_code))
