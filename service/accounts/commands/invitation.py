"""Invitations: an owner offers a role to an address, the person behind it accepts, an owner takes it back (G-177).

All are fences of the project, as what they lead to is. The inviter's ownership, and whether the address is proven, are
read again under the gate.
"""

from __future__ import annotations

from typing import NamedTuple

from projections.accounts.invitation import PROJECTION as INVITATIONS
from projections.accounts.invitation import STANDINGS, InvitationRow
from projections.accounts.membership import PROJECTION as MEMBERSHIPS
from projections.projects.project import PROJECTION as PROJECTS
from service.accounts import reads
from service.accounts.commands.membership import owners_of, withdraw
from service.eventstore.declare.commands import Lookup, Unit
from service.eventstore.declare.intents import Intent
from service.eventstore.store import EventStore
from statemachines.accounts import invitation as invitations
from statemachines.accounts import membership as memberships
from statemachines.accounts import person as people
from statemachines.accounts.invitation import Offer
from statemachines.accounts.membership import Membership, Role
from statemachines.kernel.machine import Stream


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
    named = {one: memberships.stream(project_id, one) for one in await reads.members_with(store, project_id, email)}
    own = Lookup(MEMBERSHIPS.table, project_id, memberships.membership_id(project_id, invited_by))
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
        inviter = unit.row(MEMBERSHIPS.table, own.project_id, own.id)
        assert inviter is not None, "the authority check has read the membership"
        stands, total = _standing(unit, stream), unit.row(STANDINGS, project_id, project_id)
        others_open = (total.open_count if total else 0) - stands
        offer = Offer(email, role, invited_by, inviter.revision)
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
        project = unit.row(PROJECTS.table, project_id, project_id)
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

    standing, project = Lookup(STANDINGS, project_id, row.id), Lookup(PROJECTS.table, project_id, project_id)
    lookups = [standing, project]
    return Intent([stream, membership], decide, reads=[person], lookups=lookups, fence=project_id, saves=True)


async def revoke(store: EventStore, project_id: str, made_id: str) -> Intent[str]:
    """Revoke an invitation. After the answer nobody can accept it. Raises InvitationNotFound."""
    if await store.get(INVITATIONS.table, project_id, made_id) is None:
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
