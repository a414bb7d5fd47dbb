"""Memberships: a person's role in a project, given, changed and ended (R-PROJ-07, G-019, G-025).

All are fences of the project, because they may take authority away: what a person started before must not commit
afterwards. The exclusive gate is also what makes "one owner stays" hold, a rule across the streams of all members.
Whoever carries them out has read the project under the gate and refused a fenced one.
"""

from __future__ import annotations

from collections.abc import Sequence

from projections.accounts.membership import PROJECTION as MEMBERSHIPS
from projections.projects.project import PROJECTION as PROJECTS
from service.accounts import reads
from service.eventstore.commands import Lookup, Unit
from service.eventstore.intents import Intent
from service.eventstore.store import EventStore
from statemachines.accounts import membership as memberships
from statemachines.accounts import person as people
from statemachines.accounts.membership import Role


async def set_role(store: EventStore, project_id: str, user_id: str, role: Role) -> Intent[None]:
    """Add a person to a project or change the role; the DSN stays. A role that is held already records nothing.

    Raises PersonNotFound, AccountDeletionInProgress, SyntheticMember, LastOwner.
    """
    person, membership = people.stream(user_id), memberships.stream(project_id, user_id)
    others = await _others(store, project_id, user_id)

    def decide(unit: Unit) -> None:
        project = unit.row(PROJECTS.table, project_id, project_id)
        assert project is not None, "the authority check has read the project"
        memberships.check_may_join(unit.state(person), synthetic_project=project.synthetic)
        state, owners = unit.state(membership), _owners(unit, others)
        unit.append(membership, memberships.decide_set_role(state, user_id, role, unit.now, other_owners=owners))

    lookups = [*others, Lookup(PROJECTS.table, project_id, project_id)]
    return Intent([membership], decide, reads=[person], lookups=lookups, fence=True, saves=True)


async def remove(store: EventStore, project_id: str, user_id: str) -> Intent[None]:
    """End a membership; a repeat records nothing. Raises MemberNotFound, LastOwner."""
    membership = memberships.stream(project_id, user_id)
    others = await _others(store, project_id, user_id)

    def decide(unit: Unit) -> None:
        state, owners = unit.state(membership), _owners(unit, others)
        unit.append(membership, memberships.decide_remove(state, unit.now, other_owners=owners))

    return Intent([membership], decide, lookups=others, fence=True)


async def _others(store: EventStore, project_id: str, user_id: str) -> list[Lookup]:
    """The memberships to read again under the gate: who else could own the project.

    Somebody who becomes an owner between this read and the gate is not counted, which can only refuse too much.
    """
    rows = await reads.other_memberships(store, project_id, user_id)
    return [Lookup(MEMBERSHIPS.table, project_id, row.id) for row in rows]


def _owners(unit: Unit, members: Sequence[Lookup]) -> list[str]:
    rows = [unit.row(MEMBERSHIPS.table, member.project_id, member.id) for member in members]
    return [row.user_id for row in rows if row is not None and row.role == Role.OWNER.value]
