"""Queries about deletions, and about what they have to take along."""

from __future__ import annotations

from typing import NamedTuple

from projections.accounts.membership import AUDITORS, OWNERSHIPS, AuditorRow, MembershipRow
from projections.accounts.membership import PROJECTION as MEMBERSHIPS
from projections.deletion.removal import DELETIONS, DeletionRow
from service.accounts.reads import other_memberships
from service.deletion.commands import Member
from service.eventstore.connect.clock import NOW_SECONDS
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from statemachines.deletion.removal import KEPT_SECONDS


class DeletionLeft(NamedTuple):
    """What is left of a deletion: projects of an account, open objects of automation, records of telemetry."""

    projects: int
    open: int
    telemetry: int


_SHOWN = f"(t.deleted_at is null or t.deleted_at > {NOW_SECONDS} - {KEPT_SECONDS})"
_LATEST = "t.fenced_at desc, t.revision desc"
MOST_COUNTED = 10_000
_LEFT = load_sql("deletion", "left")
_UNTOLD = load_sql("deletion", "untold")
_LAPSED = f"t.phase = 'deleted' and t.deleted_at <= {NOW_SECONDS} - {KEPT_SECONDS}"


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
    members = await store.find(MEMBERSHIPS.table, where, user_id, order_by="t.project_id", limit=most)
    if len(members) == most:
        return [*members]
    auditing = await store.find(AUDITORS.table, where, user_id, order_by="t.project_id", limit=most - len(members))
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
    [[projects, open_left, telemetry]] = await store.fetch(
        _LEFT, scope_id=row.scope_id, deletion_id=row.id, most=MOST_COUNTED
    )
    return DeletionLeft(projects, open_left, telemetry)


async def find_account_deletion(store: EventStore, user_id: str, api_key_sha256: str) -> DeletionRow | None:
    """Find the deletion of an account that a key may see: the one under way, or the one that the key asked for.

    Whoever has signed in again since is somebody new, and finds none.
    """
    where = f"t.scope_id = %s and t.kind = 'account' and {_SHOWN} and (t.phase <> 'deleted' or t.api_key_sha256 = %s)"
    rows = await store.find(DELETIONS, where, user_id, api_key_sha256, order_by=_LATEST, limit=1)
    return rows[0] if rows else None
