"""Deletions move on: with each request, by the clock, and until nothing is left."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import psycopg
import structlog

from projections.accounts import AuditorRow, MembershipRow
from projections.analytics import CONNECTIONS
from projections.deletion import DeletionRow, ErasureRow
from projections.provider import TEAMS
from service.auth.authority import carry_out
from service.billing.plans import unended
from service.deletion import removal
from service.deletion.ledger import Erasure, erasures, remember
from service.deletion.purging import PHASE, Purge
from service.eventstore.declare.commands import Intent, OutcomeUnknown, retry_moved
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from service.ids import new_id
from service.registry import registry
from service.runs.sweep import end_open, runs_to_follow_up
from service.sql import load_query
from statemachines import provider as teams
from statemachines.accounts.membership import Role
from statemachines.deletion.removal import FOLLOW_UP_LIMIT, AskForDeletion, ExternalFollowUp, OtherDeletion
from statemachines.kernel.machine import Moved, Rejection
from statemachines.projects.project import ProjectDeletionInProgress, ProjectNotFound

# What moves a deletion on from its fence to its receipt: replays of the request, and the sweep (G-130, G-119).
# Draining records that what was open has ended, and of an account sends its projects ahead. Then the erasure is
# written to the ledger, the purge begins, and once nothing is left the deletion ends. Each step finds out anew where
# the deletion stands, so that any process goes on where another one was stopped, and two at once do no harm.

T = TypeVar("T")

log = structlog.get_logger(__name__)

TOGETHER = 50
"""Open objects that are ended, and memberships that are left, between two looks at the clock."""

TELLING_SECONDS = 30
"""How long a purge waits for the attempts to tell webhooks of the fence (G-160)."""
WAIT_SECONDS = 3.0
"""For how long of that one pass waits. The others come later."""

ENDING_SECONDS = 600
"""How long the deletion of an account waits for its subscriptions to end at the payment provider."""

_ACTIONS = {
    "payment_subscription": "End the subscription at the payment provider, which still asks for payment.",
    "external_scheduler": "Stop the schedulers that start runners for this project.",
    "repository_credential": "Revoke the rights of this project's runners and CI at the code host.",
    "inspect_provider_project": "Delete the project of this name or id at the analytics provider.",
    "provider_credential": "Revoke the access of this service at the analytics provider.",
}


TOLD_SECONDS = 60.0
"""How often the log says of a deletion that it has not moved on."""
MOST_TOLD = 1000

_told: dict[str, float] = {}


def tell_not_moved_on(row: DeletionRow, error: Exception, ledger: Path) -> None:
    """Log once a minute why a deletion could not move on, with the path that could not be written, if it was one."""
    now = time.monotonic()
    if now - _told.get(row.id, float("-inf")) < TOLD_SECONDS:
        return
    if len(_told) >= MOST_TOLD:
        _told.clear()
    _told[row.id] = now
    about = {"path": str(ledger), "reason": error.strerror or str(error)} if isinstance(error, OSError) else {}
    log.warning("deletion_not_moved_on", deletion=row.id, phase=row.phase, cause=type(error).__name__, **about)


class Advancer:
    """Moves deletions on, and remembers how far their purges have come in this process."""

    def __init__(self, store: EventStore, ledger: Path) -> None:
        self._store = store
        self.ledger = ledger
        self._purges: dict[str, Purge] = {}

    async def advance(self, row: DeletionRow, seconds: float) -> DeletionRow:
        """Take a deletion as far as it goes within some seconds; returns it as it is then.

        Raises what the store raises, psycopg.Error, and OSError when the ledger cannot be written.
        """
        until = time.monotonic() + seconds
        steps = {"fenced": self._drain, "purging": self._purge}
        while row.phase in steps:
            moved = await steps[row.phase](row, until)
            latest = await removal.get_deletion(self._store, row.id)
            if latest is None:
                return row
            row = latest
            if not moved or time.monotonic() >= until:
                break
        return row

    async def _drain(self, row: DeletionRow, until: float) -> bool:
        """Record what ended with the fence; then let the rows go. Returns whether they do."""
        return await (self._drain_account if row.kind == "account" else self._drain_project)(row, until)

    async def _drain_project(self, row: DeletionRow, until: float) -> bool:
        if row.parent_id is not None:
            # The sums that the account's answers show are complete before the first row goes.
            parent = await removal.get_deletion(self._store, row.parent_id)
            if parent is not None and parent.phase == "fenced":
                return False
        while not await end_open(self._store, row.scope_id, TOGETHER):
            if time.monotonic() >= until:
                return False
        if await self._untold(row, until):
            return False
        follow_ups = await self._follow_ups(row)
        await self._remember(row)
        await self._send(row, "begin purging", removal.begin_purging_project(row, follow_ups))
        return True

    async def _untold(self, row: DeletionRow, until: float) -> bool:
        """Wait a moment for the attempts to tell webhooks of the fence. Whether some are left within their time."""
        until = min(until, time.monotonic() + WAIT_SECONDS)
        while await removal.is_untold(self._store, row.scope_id):
            if await self._store.now() >= row.fenced_at + TELLING_SECONDS:
                return False
            if time.monotonic() >= until:
                return True
            await asyncio.sleep(0.1)
        return False

    async def _drain_account(self, row: DeletionRow, until: float) -> bool:
        while rows := await removal.memberships_of(self._store, row.scope_id, TOGETHER):
            for membership in rows:
                await self._leave(row, membership)
                if time.monotonic() >= until:
                    return False
        left = await unended(self._store, row.scope_id)
        if left and await self._store.now() < row.fenced_at + ENDING_SECONDS:
            return False  # A job ends them at the payment provider.
        await self._remember(row)
        taken = await removal.taken_along(self._store, row.id)
        outside = [_outside("payment_subscription", subscription.subscription_id) for subscription in left]
        await self._send(row, "begin purging", removal.begin_purging_account(row, taken, outside))
        return True

    async def _leave(self, row: DeletionRow, membership: MembershipRow | AuditorRow) -> None:
        """Take a project along that nobody else owns, and leave any other."""
        project_id = membership.project_id
        wish = AskForDeletion(
            kind="project",
            scope_id=project_id,
            account_id=row.account_id,
            command_key_sha256=row.command_key_sha256,
            parent_id=row.id,
        )

        async def attempt() -> None:
            others = await removal.others_in(self._store, project_id, row.scope_id)
            if isinstance(membership, MembershipRow) and membership.role == Role.OWNER.value:
                try:
                    await self._send(row, "fence project", removal.fence_project(wish, new_id("del"), others))
                except Moved:  # Somebody else owns it, or has begun to delete it.
                    pass
                except (ProjectNotFound, ProjectDeletionInProgress):
                    return
                else:
                    return
            await self._send(row, "leave project", removal.leave_project(project_id, row.scope_id, others))

        await retry_moved(attempt)

    async def _purge(self, row: DeletionRow, until: float) -> bool:
        """Remove rows and payloads; returns whether the deletion has ended with that."""
        if row.kind == "account":
            children = await removal.taken_along(self._store, row.id)
            if any(child.phase != "deleted" for child in children):
                return False
        purge = self._purges.setdefault(row.id, Purge(row))

        async def end() -> None:
            await self._send(row, "complete", removal.complete(row))

        if not await purge.run(self._store.conninfo, until, end):
            return False
        del self._purges[row.id]
        return True

    async def _follow_ups(self, row: DeletionRow) -> list[ExternalFollowUp]:
        """List what is outside and stays as it is (R-DEL-05)."""
        counts = row.manifest.counts
        general = {"external_scheduler": counts.automations, "repository_credential": counts.credentials}
        found = [_outside(kind, None) for kind, number in general.items() if number]
        connections = await self._store.find(CONNECTIONS, "t.project_id = %s", row.scope_id)
        found += [_outside("provider_credential", one.host) for one in connections if one.connected_at is not None]
        team = await self._store.get(TEAMS, *teams.stream(row.scope_id).name)
        if team is not None and (team.team_id is not None or team.attempt_until is not None or team.doubt_until):
            reference = teams.external_name(row.scope_id) if team.team_id is None else str(team.team_id)
            found.append(_outside("inspect_provider_project", reference))
        for run in await runs_to_follow_up(self._store, row.scope_id, FOLLOW_UP_LIMIT):
            found += [
                ExternalFollowUp(item.kind, item.reference, run.id, "Look at it, and settle or undo it by hand.")
                for item in run.state.follow_ups
            ]
        return found[:FOLLOW_UP_LIMIT]

    async def _remember(self, row: DeletionRow) -> None:
        """Write the erasure to the ledger: on the disk before the first row goes, and after the fence is on a standby.

        After a promotion without the fence, the line would delete a living project or account at the next start.
        """
        if self._store.listed and await self._store.see_replicated(PHASE, id=row.id) != [(row.phase,)]:
            raise CommandNotDone
        now = await self._store.now()
        await asyncio.to_thread(remember, self.ledger, Erasure(row.scope_id, row.id, now))

    async def _send(self, row: DeletionRow, step: str, intent: Intent[T]) -> T:
        """Carry out a step. Its record is kept under the deletion's own gate, where no purge has been by then."""
        return await carry_out(self._store, "deletion", f"deletion {step}", intent, gates=[row.id])


def _outside(kind: str, reference: str | None) -> ExternalFollowUp:
    return ExternalFollowUp(kind, reference, None, _ACTIONS[kind])


# A request to delete: the first fences; each repeat moves the deletion on for a moment, and shows where it is.

SECONDS = 0.25
"""How long one request works on a deletion; the sweep does the rest, in turn with others'."""


async def ask(
    store: EventStore, ledger: Path, wish: AskForDeletion, fence: Callable[[Intent[DeletionRow]], Awaitable[T]]
) -> DeletionRow | T:
    """Begin a deletion by `fence`, whose answer this returns, or move on the one that the wish has begun before.

    Raises what `fence` raises, OtherDeletion for another request under way, and ProjectNotFound after its end.
    """

    async def attempt() -> DeletionRow | T:
        row = await _find(store, wish)
        if row is None:
            if wish.kind == "project":
                return await fence(removal.fence_project(wish, new_id("del")))
            owned = await removal.owned_by(store, wish.scope_id)
            return await fence(removal.fence_account(wish, new_id("del"), owned))
        if row.command_key_sha256 == wish.command_key_sha256:
            return await _moved_on(store, ledger, row)
        if wish.kind == "project" and row.phase != "fenced":
            raise ProjectNotFound("There is no such project.")
        raise OtherDeletion("Another request has begun this deletion.", next_action="Repeat that one, with its key.")

    return await retry_moved(attempt)


async def _find(store: EventStore, wish: AskForDeletion) -> DeletionRow | None:
    if wish.kind == "account":
        return await removal.find_account_deletion(store, wish.scope_id, wish.api_key_sha256)
    return await removal.find_deletion(store, wish.scope_id)


async def _moved_on(store: EventStore, ledger: Path, row: DeletionRow) -> DeletionRow:
    """Move a deletion on; returns it as it is then. What cannot go on now goes on with the next repeat or sweep."""
    try:
        return await Advancer(store, ledger).advance(row, SECONDS)
    except (Rejection, CommandNotDone, OutcomeUnknown, psycopg.Error, OSError) as error:
        tell_not_moved_on(row, error, ledger)
        return await removal.get_deletion(store, row.id) or row


# The sweep of deletions: moves on what is open, an account's share at a time, and ends receipts (G-119, P25).

Row = TypeVar("Row", DeletionRow, ErasureRow)

AT_MOST = 500
SLICE = 1.0
"""Seconds that one deletion takes in its turn."""
LONGEST = 50.0
"""Seconds after which a sweep leaves the rest to the next one."""
PAUSE = 0.2


async def sweep(store: EventStore, advancer: Advancer, longest: float = LONGEST) -> int:
    """Move every open deletion on, in turn by account, until none is open or the time is over; returns how many ended.

    Raises psycopg.Error when the database is gone.
    """
    until = time.monotonic() + longest
    for row in await removal.lapsed_receipts(store, AT_MOST):
        await carry_out(store, "deletion", "deletion lapse", removal.lapse(row))
    return await move_all(
        partial(removal.open_deletions, store, AT_MOST), partial(_advance, advancer), attrgetter("account_id"), until
    )


async def move_all(
    read_open: Callable[[], Awaitable[list[Row]]],
    move: Callable[[Row], Awaitable[Row]],
    tenant_of: Callable[[Row], str],
    until: float,
) -> int:
    """Move everything open on, in turn by tenant, until nothing is open or it is `until` (monotonic seconds).

    Returns the number of ended ones. Raises as the two calls.
    """
    ended = 0
    while (rows := await read_open()) and time.monotonic() < until:
        moved = False
        for row in in_turn(rows, tenant_of):
            after = await move(row)
            ended += after.phase == "deleted"
            moved = moved or after != row
            if time.monotonic() >= until:
                break
        if not moved:
            await asyncio.sleep(PAUSE)
    return ended


async def _advance(advancer: Advancer, row: DeletionRow) -> DeletionRow:
    try:
        return await advancer.advance(row, SLICE)
    except (Rejection, CommandNotDone, OutcomeUnknown, psycopg.Error, OSError) as error:
        # One that cannot go on holds up nobody else's.
        tell_not_moved_on(row, error, advancer.ledger)
        return row


def in_turn(rows: list[Row], tenant_of: Callable[[Row], str]) -> list[Row]:
    """Order rows so that each tenant's first come before anybody's second."""
    places: Counter[str] = Counter()
    ordered = []
    for number, row in enumerate(rows):
        tenant = tenant_of(row)
        ordered.append((places[tenant], number, row))
        places[tenant] += 1
    return [row for _, _, row in sorted(ordered, key=lambda item: item[:2])]


# Erasing again what a restored database still holds although it was erased, and looking for what is left. A backup
# from before a deletion brings its project or account back. Before the service is ready, whatever the ledger names
# and this database does not know to be deleted is deleted once more, by the same steps and under the same id. A
# deletion whose purge had begun is left to the sweep: nobody sees anything of it. Scopes that this database never
# had are another's, and so is an account that came into being after the erasure: whoever signs in again is somebody
# new. Which of them there are is asked in survivors.py.

# Erasing again what a restored database still holds although it was erased (the ledger says so).


RESTORE_SLICE = 5.0


async def erase_again(conninfo: str, ledger: Path, found: Sequence[Erasure]) -> None:
    """Delete what was found, to the end. Raises what the store raises, psycopg.Error and OSError."""
    store = EventStore(conninfo, registry())
    await store.start()
    try:
        advancer = Advancer(store, ledger)
        for erasure in found:
            row = await _fenced(store, erasure)
            log.warning("erasing_again", scope=erasure.scope_id, deletion=erasure.deletion_id)
            if row is not None:
                await _to_its_end(store, advancer, row)
    finally:
        await store.stop()


async def _fenced(store: EventStore, erasure: Erasure) -> DeletionRow | None:
    """The deletion of an erasure, begun again under its id; None when its scope went with an account's by now."""
    row = await removal.get_deletion(store, erasure.deletion_id)
    if row is not None:
        return row
    account = erasure.scope_id.startswith("usr_")
    wish = AskForDeletion(
        kind="account" if account else "project",
        scope_id=erasure.scope_id,
        account_id=erasure.scope_id if account else "",
        # The key of the request was not kept: its receipt is not shown again.
        command_key_sha256="",
    )
    if await removal.find_deletion(store, erasure.scope_id) is not None:
        return None
    if account:
        owned = await removal.owned_by(store, erasure.scope_id)
        again = removal.fence_account(wish, erasure.deletion_id, owned)
    else:
        again = removal.fence_project(wish, erasure.deletion_id)
    return await carry_out(store, "deletion", "deletion again", again)


async def _to_its_end(store: EventStore, advancer: Advancer, row: DeletionRow) -> None:
    """Advance a deletion, and those that it takes along, until it has ended, or waits for the copy of telemetry alone.

    A worker erases in the copy, and there is none before the start. Its sweep ends the deletion then (G-200).
    """
    while row.phase != "deleted":
        before = row
        for child in await removal.taken_along(store, row.id):
            await advancer.advance(child, RESTORE_SLICE)
        row = await advancer.advance(row, RESTORE_SLICE)
        going = [child for child in await removal.taken_along(store, row.id) if child.phase != "deleted"] or [row]
        if all([(await removal.progress_of(store, one)).copy for one in going]):
            return
        if row == before:
            await asyncio.sleep(PAUSE)


# What the ledger of erasures names and a database holds all the same, because a backup was restored (restoring.py).
# Asked at each start, so this loads neither a machine nor the store.

_ALIVE = load_query("deletion", "alive")


def to_erase_again(conninfo: str, ledger: Path) -> list[Erasure]:
    """Name what was erased and is in the database all the same. Raises psycopg.Error, and OSError for the ledger."""
    known = erasures(ledger)
    if not known:
        return []
    with psycopg.connect(conninfo, autocommit=True, application_name="service-restore") as connection:
        scopes, deletions, times = map(list, zip(*known, strict=True))
        values = {"scopes": scopes, "deletions": deletions, "times": times}
        return [Erasure(*row) for row in connection.execute(_ALIVE, values).fetchall()]
