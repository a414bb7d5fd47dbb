"""Deletions: fence, purge, end and receipt, read and shown (G-130).

One transaction holds the flag, the events and the manifest, under the exclusive gate: no earlier command of the scope
is still to come, and none that comes later finds it open. What was open in a project (receipts, claims, runs, grants,
requests) is shown as ended from then on, and recorded as ended step by step before the rows go: that many objects
could be open must not make the fence wait.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import asdict, replace

from projections.accounts import AUDITORS, MEMBERSHIPS, OWNERSHIPS, PEOPLE, AuditorRow, MembershipRow
from projections.deletion import DELETIONS, INVENTORY, DeletionRow
from schemas import deletion as wire
from service.accounts.person import other_memberships
from service.eventstore.connect.facts import NOW_SECONDS
from service.eventstore.declare.commands import Intent, Lookup, Unit
from service.eventstore.store import EventStore
from service.sql import load_query
from statemachines.accounts import membership as memberships
from statemachines.accounts import person as people
from statemachines.deletion import removal
from statemachines.deletion import removal as deletions
from statemachines.kernel.machine import Moved, Stream
from statemachines.projects import project as projects
from statemachines.projects.project import ProjectNotFound

# Deletions: the fence of a project or an account, the beginning of the purge, its end, the end of its receipt (G-130).

Member = tuple[str, str]
"""A membership by its id and its person's: who else could own a project, as read before the gate."""


def fence_project(wish: removal.AskForDeletion, deletion_id: str, others: Sequence[Member] = ()) -> Intent[DeletionRow]:
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


def fence_account(wish: removal.AskForDeletion, deletion_id: str, owned: Sequence[str]) -> Intent[DeletionRow]:
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


def begin_purging_project(row: DeletionRow, follow_ups: Sequence[removal.ExternalFollowUp]) -> Intent[None]:
    """Let the rows of a project go: from here on it is not there for anybody, and its payloads may be erased.

    The project's own stream ends in the same unit, before its history does.
    """
    project, deletion = projects.stream(row.scope_id), deletions.stream(row.id)

    def decide(unit: Unit) -> None:
        event = removal.PurgingBegan(row.scope_id, row.manifest, row.cascaded, list(follow_ups), unit.now)
        events = deletions.decide_begin_purging(unit.state(deletion), event)
        if events:
            unit.append(project, projects.decide_purge(unit.state(project), unit.now))
        unit.append(deletion, events)

    return Intent([project, deletion], decide, fence=row.scope_id)


def begin_purging_account(
    row: DeletionRow, taken: Sequence[DeletionRow], follow_ups: Sequence[removal.ExternalFollowUp]
) -> Intent[None]:
    """Let the rows of an account go, with the sums over the projects that it takes along.

    The person stays fenced until nothing is left: who signs in again meanwhile is told to wait.
    """
    deletion = deletions.stream(row.id)
    manifest = removal.sum_manifests([row.manifest, *(child.manifest for child in taken)])
    cascaded = reduce(_plus, (child.cascaded for child in taken), row.cascaded)
    # One's own membership of each project that goes was counted on both sides.
    cascaded = replace(cascaded, memberships=cascaded.memberships - len(taken))

    def decide(unit: Unit) -> None:
        event = removal.PurgingBegan(row.scope_id, manifest, cascaded, list(follow_ups), unit.now)
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


def _lookups(wish: removal.AskForDeletion, others: Sequence[Member]) -> list[Lookup]:
    return [Lookup(INVENTORY, wish.scope_id, wish.scope_id), *_of(wish.scope_id, others)]


def _of(project_id: str, others: Sequence[Member]) -> list[Lookup]:
    found = [Lookup(MEMBERSHIPS, project_id, membership_id) for membership_id, _ in others]
    return [*found, *(Lookup(PEOPLE, user_id, user_id) for _, user_id in others)]


def _owners(unit: Unit, project_id: str, others: Sequence[Member]) -> list[str]:
    """Who owns the project besides, and is not being deleted: a person's own fence comes before this is asked."""
    found = []
    for membership_id, user_id in others:
        membership = unit.row(MEMBERSHIPS, project_id, membership_id)
        person = unit.row(PEOPLE, user_id, user_id)
        if (
            membership is not None
            and membership.role == memberships.Role.OWNER.value
            and person
            and person.status == "active"
        ):
            found.append(user_id)
    return found


def _accept(unit: Unit, deletion: Stream, wish: removal.AskForDeletion) -> DeletionRow:
    counted = unit.row(INVENTORY, wish.scope_id, wish.scope_id)
    assert counted is not None, "a stream that is fenced has a head"
    found = counted.inventory
    manifest = removal.make_manifest(found.counts, found.samples)
    unit.append(deletion, deletions.decide_fence(unit.state(deletion), wish, manifest, found.cascaded, unit.now))
    row = unit.row(DELETIONS, *deletion.name)
    assert row is not None, "a deletion that was accepted has a row"
    return row


def _plus(one: removal.Cascaded, other: removal.Cascaded) -> removal.Cascaded:
    return removal.Cascaded(*(a + b for a, b in zip(asdict(one).values(), asdict(other).values(), strict=True)))


# Queries about deletions, and about what they have to take along.


class DeletionLeft(NamedTuple):
    """What is left of a deletion: projects of an account, open objects of automation, records of telemetry.

    `copy`: it waits for the copy of telemetry.
    """

    projects: int
    open: int
    telemetry: int
    copy: bool


_SHOWN = f"(t.deleted_at is null or t.deleted_at > {NOW_SECONDS} - {removal.KEPT_SECONDS})"
_LATEST = "t.fenced_at desc, t.revision desc"
MOST_COUNTED = 10_000
_LEFT = load_query("deletion", "left")
_UNTOLD = load_query("deletion", "untold")
_LAPSED = f"t.phase = 'deleted' and t.deleted_at <= {NOW_SECONDS} - {removal.KEPT_SECONDS}"


async def find_deletion(store: EventStore, scope_id: str) -> DeletionRow | None:
    """Find the latest deletion of a project or an account whose receipt can still be read."""
    rows = await store.find(DELETIONS, f"t.scope_id = %s and {_SHOWN}", scope_id, order_by=_LATEST, limit=1)
    return rows[0] if rows else None


async def is_untold(store: EventStore, project_id: str) -> bool:
    """Whether a webhook of a fenced project has still to be told of the fence."""
    [[untold]] = await store.fetch(_UNTOLD, project_id=project_id)
    return bool(untold)


async def get_deletion(store: EventStore, deletion_id: str) -> DeletionRow | None:
    """Read a deletion by its id."""
    return await store.get(DELETIONS, deletion_id, deletion_id)


async def open_deletions(store: EventStore, most: int) -> list[DeletionRow]:
    """Read the deletions that are not done, the oldest first: an account's come after those of its projects."""
    return await store.find(DELETIONS, "t.phase <> 'deleted'", order_by="t.fenced_at, t.id", limit=most)


async def lapsed_receipts(store: EventStore, most: int) -> list[DeletionRow]:
    """Read the deletions whose receipts have been kept for as long as was promised."""
    return await store.find(DELETIONS, _LAPSED, order_by="t.deleted_at, t.id", limit=most)


async def taken_along(store: EventStore, deletion_id: str) -> list[DeletionRow]:
    """Read the deletions of projects that go with an account."""
    return await store.find(DELETIONS, "t.parent_id = %s", deletion_id, order_by="t.id")


async def memberships_of(store: EventStore, user_id: str, most: int) -> list[MembershipRow | AuditorRow]:
    """Read a person's memberships of projects that are not going already. Those with a role to write come first."""
    where = (
        "t.user_id = %s and exists (select from projects p where p.project_id = t.project_id and p.id = t.project_id "
        "and p.status = 'active')"
    )
    members = await store.find(MEMBERSHIPS, where, user_id, order_by="t.project_id", limit=most)
    if len(members) == most:
        return [*members]
    auditing = await store.find(AUDITORS, where, user_id, order_by="t.project_id", limit=most - len(members))
    return [*members, *auditing]


async def owned_by(store: EventStore, user_id: str) -> list[str]:
    """Name the projects that a person owns, alone or with others, but for those that are going."""
    row = await store.get(OWNERSHIPS, user_id, user_id)
    return [] if row is None else row.projects


async def others_in(store: EventStore, project_id: str, user_id: str) -> list[Member]:
    """Name the other memberships of a project."""
    return [(row.id, row.user_id) for row in await other_memberships(store, project_id, user_id)]


async def progress_of(store: EventStore, row: DeletionRow) -> DeletionLeft:
    """Count what is left of a deletion, each number up to MOST_COUNTED."""
    [[projects, open_left, telemetry, copy]] = await store.fetch(
        _LEFT, scope_id=row.scope_id, deletion_id=row.id, most=MOST_COUNTED
    )
    return DeletionLeft(projects, open_left, telemetry, copy)


async def find_account_deletion(store: EventStore, user_id: str, api_key_sha256: str) -> DeletionRow | None:
    """Find the deletion of an account that a key may see: the one under way, or the one that the key asked for.

    Whoever has signed in again since is somebody new, and finds none.
    """
    where = f"t.scope_id = %s and t.kind = 'account' and {_SHOWN} and (t.phase <> 'deleted' or t.api_key_sha256 = %s)"
    rows = await store.find(DELETIONS, where, user_id, api_key_sha256, order_by=_LATEST, limit=1)
    return rows[0] if rows else None


# Deletions as their answers show them (G-130).

POLL_AFTER = 1
_AGAIN = "Repeat this request with the same Idempotency-Key until it answers 200."
_OUTSIDE = "Check the external follow-ups. This service cannot end them."
_OVER = "Keep this receipt. Nothing is left to do here."
_NOTE = "Projects with another owner stay. The same identity may sign in again, as a new person."


def project(row: DeletionRow, left: DeletionLeft | None = None) -> wire.ProjectDeleting | wire.ProjectDeleted:
    """Show the deletion of a project, and what is `left` of it where that was counted."""
    if row.deleted_at is None:
        return wire.ProjectDeleting(
            status="deleting",
            phase=_phase(row),
            poll_after_seconds=POLL_AFTER,
            project_id=row.scope_id,
            deletion_id=row.id,
            fenced_at=row.fenced_at,
            automation_deletion_manifest=manifest(row.manifest),
            progress=_progress(left),
            next_action=_AGAIN,
        )
    return wire.ProjectDeleted(
        status="deleted",
        phase="deleted",
        project_id=row.scope_id,
        deletion_id=row.id,
        fenced_at=row.fenced_at,
        deleted_at=row.deleted_at,
        automation_deletion_manifest=manifest(row.manifest),
        external_follow_ups=_follow_ups(row),
        next_action=_OUTSIDE if row.external_follow_ups else _OVER,
    )


def account(row: DeletionRow, left: DeletionLeft | None = None) -> wire.AccountDeleting | wire.AccountDeleted:
    """Show the deletion of an account, and what is `left` of it where that was counted.

    Its manifest is shown once all of its projects are fenced: it is their sum.
    """
    cascaded = msgspec.convert(msgspec.to_builtins(row.cascaded), wire.CascadedCounts)
    if row.deleted_at is None:
        return wire.AccountDeleting(
            status="deleting",
            phase=_phase(row),
            poll_after_seconds=POLL_AFTER,
            user_id=row.scope_id,
            deletion_id=row.id,
            fenced_at=row.fenced_at,
            cascaded=cascaded,
            automation_deletion_manifest=None if row.phase == "fenced" else manifest(row.manifest),
            progress=_progress(left),
            next_action=_AGAIN,
        )
    return wire.AccountDeleted(
        status="deleted",
        user_id=row.scope_id,
        deletion_id=row.id,
        fenced_at=row.fenced_at,
        deleted_at=row.deleted_at,
        cascaded=cascaded,
        automation_deletion_manifest=manifest(row.manifest),
        external_follow_ups=_follow_ups(row),
        note=_NOTE,
        next_action=_OUTSIDE if row.external_follow_ups else _OVER,
    )


def _follow_ups(row: DeletionRow) -> list[wire.FollowUpOutside]:
    return msgspec.convert(msgspec.to_builtins(row.external_follow_ups), list[wire.FollowUpOutside])


def _progress(left: DeletionLeft | None) -> wire.DeletionProgress | msgspec.UnsetType:
    if left is None:
        return msgspec.UNSET
    waits_for: wire.WaitsFor | msgspec.UnsetType = "copy" if left.copy else msgspec.UNSET
    return wire.DeletionProgress(left.projects, left.open, left.telemetry, waits_for)


def _phase(row: DeletionRow) -> Literal["fenced", "purging"]:
    return "purging" if row.phase == "purging" else "fenced"


def manifest(found: removal.Manifest) -> wire.AutomationDeletionManifest:
    """Show a manifest."""
    return msgspec.convert({**msgspec.to_builtins(found), "sample_limit": 20}, wire.AutomationDeletionManifest)
