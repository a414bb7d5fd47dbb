"""Memberships: a person's role in a project, given, changed and ended (R-PROJ-07, G-025, G-177).

All are fences of the project, because they may take authority away: what a person started before must not commit
afterwards. The exclusive gate is also what makes "one owner stays" hold, a rule across the streams of all members.
Whoever carries them out has read the project under the gate and refused a fenced one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from projections.accounts.membership import PROJECTION as MEMBERSHIPS
from projections.accounts.membership import MembershipRow
from projections.accounts.person import PROJECTION as PEOPLE
from projections.projects.project import PROJECTION as PROJECTS
from service.accounts import reads
from service.eventstore.declare.commands import Lookup, Unit
from service.eventstore.declare.intents import Intent
from service.eventstore.store import EventStore
from statemachines.accounts import invitation as invitations
from statemachines.accounts import membership as memberships
from statemachines.accounts import person as people
from statemachines.accounts.membership import Role
from statemachines.kernel.machine import Stream


async def set_role(store: EventStore, project_id: str, user_id: str, role: Role) -> Intent[None]:
    """Add a person to a project or change the role; the DSN stays. A role that is held already records nothing.

    Raises PersonNotFound, AccountDeletionInProgress, SyntheticMember, LastOwner.
    """
    person, membership = people.stream(user_id), memberships.stream(project_id, user_id)
    owners = await owners_of(store, project_id)
    open_one = await _invitations_of(store, project_id, user_id)

    def decide(unit: Unit) -> None:
        project = unit.row(PROJECTS.table, project_id, project_id)
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

    lookups = [*owners.lookups, Lookup(PROJECTS.table, project_id, project_id)]
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
        found = [Lookup(MEMBERSHIPS.table, member.project_id, member.id) for member in self.members]
        return [*found, *(Lookup(PEOPLE.table, member.user_id, member.user_id) for member in self.members)]

    def active(self, unit: Unit, *, besides: str) -> list[str]:
        """Who of them, besides one, owns the project and is not being deleted."""
        found = []
        for member in self.members:
            if member.user_id == besides:
                continue
            membership = unit.row(MEMBERSHIPS.table, member.project_id, member.id)
            person = unit.row(PEOPLE.table, member.user_id, member.user_id)
            owns = membership is not None and membership.role == Role.OWNER.value
            if owns and person is not None and person.status == "active":
                found.append(member.user_id)
        return found


async def owners_of(store: EventStore, project_id: str) -> Owners:
    """Read who could own a project."""
    return Owners(await reads.memberships_in(store, project_id))


async def _invitations_of(store: EventStore, project_id: str, user_id: str) -> list[Stream]:
    """Name the invitation of a person's address, if it has one."""
    person = await store.get(PEOPLE.table, user_id, user_id)
    if person is None:
        return []
    made_id = invitations.invitation_id(store.installation_salt, project_id, person.email)
    return [invitations.stream(project_id, made_id)]
