"""Deletions: the fence of a project or an account, the beginning of the purge, its end, the end of its receipt (G-130).

One transaction holds the flag, the events and the manifest, under the exclusive gate: no earlier command of the scope
is still to come, and none that comes later finds it open. What was open in a project (receipts, claims, runs, grants,
requests) is shown as ended from then on, and recorded as ended step by step before the rows go: that many objects
could be open must not make the fence wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from msgspec.structs import asdict, replace

from projections.accounts.membership import OWNERSHIPS
from projections.accounts.membership import PROJECTION as MEMBERSHIPS
from projections.accounts.person import PROJECTION as PEOPLE
from projections.deletion.removal import DELETIONS, INVENTORY, DeletionRow
from service.eventstore.declare.commands import Lookup, Unit
from service.eventstore.declare.intents import Intent
from statemachines.accounts import membership as memberships
from statemachines.accounts import person as people
from statemachines.accounts.membership import Role
from statemachines.deletion import removal as deletions
from statemachines.deletion.removal import (
    AskForDeletion,
    Cascaded,
    ExternalFollowUp,
    PurgingBegan,
    make_manifest,
    sum_manifests,
)
from statemachines.kernel.machine import Stream
from statemachines.kernel.moved import Moved
from statemachines.projects import project as projects
from statemachines.projects.project import ProjectNotFound

Member = tuple[str, str]
"""A membership by its id and its person's: who else could own a project, as read before the gate."""


def fence_project(wish: AskForDeletion, deletion_id: str, others: Sequence[Member] = ()) -> Intent[DeletionRow]:
    """Accept the deletion of a project, with the manifest of what there is (R-DEL-02, R-DEL-04).

    With `others` it goes because the account of its last owner does. A repeat of the request records nothing. Raises
    OtherDeletion, ProjectNotFound, and Moved when another deletion of it has begun, or somebody else owns it by now.
    """
    project, deletion = projects.stream(wish.scope_id), deletions.stream(deletion_id)

    def decide(unit: Unit) -> DeletionRow:
        state = unit.state(project)
        if state.deletion_id not in {"", deletion_id} or _owners(unit, wish.scope_id, others):
            raise Moved
        if state.status in {projects.Status.ABSENT, projects.Status.PURGED}:
            raise ProjectNotFound("There is no such project.")
        unit.append(project, projects.decide_fence(state, deletion_id, unit.now))
        return _accept(unit, deletion, wish)

    return Intent([project, deletion], decide, lookups=_lookups(wish, others), fence=wish.scope_id)


def fence_account(wish: AskForDeletion, deletion_id: str, owned: Sequence[str]) -> Intent[DeletionRow]:
    """Accept the deletion of an account; its projects follow one by one.

    It holds the gates of the projects that the person owns, the `owned` as read before: one that no other active owner
    has is fenced for whoever comes under its gate from then on, and nothing that was under way there is still to come.
    A repeat of the request records nothing. Raises OtherDeletion, and Moved when another deletion of it has begun, or
    the person owns a project by now whose gate is not held.
    """
    person, deletion = people.stream(wish.scope_id), deletions.stream(deletion_id)

    def decide(unit: Unit) -> DeletionRow:
        if unit.state(person).status is not people.Status.ACTIVE and not unit.revision(deletion):
            raise Moved
        held = unit.row(OWNERSHIPS, wish.scope_id, wish.scope_id)
        if held is not None and not set(held.projects) <= set(owned):
            raise Moved
        unit.append(person, people.decide_fence(unit.state(person), unit.now))
        return _accept(unit, deletion, wish)

    lookups = [*_lookups(wish, ()), Lookup(OWNERSHIPS, wish.scope_id, wish.scope_id)]
    return Intent([person, deletion], decide, lookups=lookups, fence=wish.scope_id, drains=owned)


def leave_project(project_id: str, user_id: str, others: Sequence[Member]) -> Intent[None]:
    """End the membership of somebody whose account goes in a project that stays.

    Raises Moved when nobody would own it: then it goes too.
    """
    membership = memberships.stream(project_id, user_id)

    def decide(unit: Unit) -> None:
        state = unit.state(membership)
        owners = _owners(unit, project_id, others)
        if state.status is memberships.Status.OWNER and not owners:
            raise Moved
        if state.status is not memberships.Status.ABSENT:
            unit.append(membership, memberships.decide_remove(state, unit.now, other_owners=owners))

    return Intent([membership], decide, lookups=_of(project_id, others), fence=project_id)


def begin_purging_project(row: DeletionRow, follow_ups: Sequence[ExternalFollowUp]) -> Intent[None]:
    """Let the rows of a project go: from here on it is not there for anybody, and its payloads may be erased.

    The project's own stream ends in the same unit, before its history does.
    """
    project, deletion = projects.stream(row.scope_id), deletions.stream(row.id)

    def decide(unit: Unit) -> None:
        event = PurgingBegan(row.scope_id, row.manifest, row.cascaded, list(follow_ups), unit.now)
        events = deletions.decide_begin_purging(unit.state(deletion), event)
        if events:
            unit.append(project, projects.decide_purge(unit.state(project), unit.now))
        unit.append(deletion, events)

    return Intent([project, deletion], decide, fence=row.scope_id)


def begin_purging_account(
    row: DeletionRow, taken: Sequence[DeletionRow], follow_ups: Sequence[ExternalFollowUp]
) -> Intent[None]:
    """Let the rows of an account go, with the sums over the projects that it takes along.

    The person stays fenced until nothing is left: who signs in again meanwhile is told to wait.
    """
    deletion = deletions.stream(row.id)
    manifest = sum_manifests([row.manifest, *(child.manifest for child in taken)])
    cascaded = reduce(_plus, (child.cascaded for child in taken), row.cascaded)
    # One's own membership of each project that goes was counted on both sides.
    cascaded = replace(cascaded, memberships=cascaded.memberships - len(taken))

    def decide(unit: Unit) -> None:
        event = PurgingBegan(row.scope_id, manifest, cascaded, list(follow_ups), unit.now)
        unit.append(deletion, deletions.decide_begin_purging(unit.state(deletion), event))

    return Intent([deletion], decide, fence=row.scope_id)


def complete(row: DeletionRow) -> Intent[None]:
    """End a deletion of which nothing is left; with an account's the person's own stream ends."""
    deletion = deletions.stream(row.id)
    person = people.stream(row.scope_id) if row.kind == "account" else None

    def decide(unit: Unit) -> None:
        events = deletions.decide_complete(unit.state(deletion), unit.now)
        if person is not None and events:
            unit.append(person, people.decide_delete(unit.state(person), unit.now))
        unit.append(deletion, events)

    return Intent([deletion] if person is None else [deletion, person], decide, fence=row.scope_id)


def lapse(row: DeletionRow) -> Intent[None]:
    """End the time of a receipt that has been kept for as long as was promised."""
    deletion = deletions.stream(row.id)

    def decide(unit: Unit) -> None:
        unit.append(deletion, deletions.decide_lapse(unit.state(deletion), unit.now))

    return Intent([deletion], decide)


def _lookups(wish: AskForDeletion, others: Sequence[Member]) -> list[Lookup]:
    return [Lookup(INVENTORY, wish.scope_id, wish.scope_id), *_of(wish.scope_id, others)]


def _of(project_id: str, others: Sequence[Member]) -> list[Lookup]:
    found = [Lookup(MEMBERSHIPS.table, project_id, membership_id) for membership_id, _ in others]
    return [*found, *(Lookup(PEOPLE.table, user_id, user_id) for _, user_id in others)]


def _owners(unit: Unit, project_id: str, others: Sequence[Member]) -> list[str]:
    """Who owns the project besides, and is not being deleted: a person's own fence comes before this is asked."""
    found = []
    for membership_id, user_id in others:
        membership = unit.row(MEMBERSHIPS.table, project_id, membership_id)
        person = unit.row(PEOPLE.table, user_id, user_id)
        if membership is not None and membership.role == Role.OWNER.value and person and person.status == "active":
            found.append(user_id)
    return found


def _accept(unit: Unit, deletion: Stream, wish: AskForDeletion) -> DeletionRow:
    counted = unit.row(INVENTORY, wish.scope_id, wish.scope_id)
    assert counted is not None, "a stream that is fenced has a head"
    found = counted.inventory
    manifest = make_manifest(found.counts, found.samples)
    unit.append(deletion, deletions.decide_fence(unit.state(deletion), wish, manifest, found.cascaded, unit.now))
    row = unit.row(DELETIONS, *deletion.name)
    assert row is not None, "a deletion that was accepted has a row"
    return row


def _plus(one: Cascaded, other: Cascaded) -> Cascaded:
    return Cascaded(*(a + b for a, b in zip(asdict(one).values(), asdict(other).values(), strict=True)))
