"""The minute sweep, in turns of projects: what time has made of things, and the end of old looks (G-119, R-AUT-10)."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import msgspec
import psycopg
import structlog
from psycopg_pool import PoolTimeout

from projections.contracts import AUTOMATION_CONTRACTS
from projections.kernel import Table
from projections.runs import CLAIMS, RECEIPTS, RUNS, ApprovalRow, ClaimRow, GrantRow, RunRow
from service.analytics.queries import AnalyticsProviders
from service.auth.authority import carry_out
from service.eventstore.connect.facts import Facts
from service.eventstore.declare.commands import Intent, OutcomeUnknown, retry_moved
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from service.runs import acting, issuing, verifying
from service.runs.bundles import ReceiptBundle, RunBundle, contract_of, read_bundles, read_contract
from service.runs.looking import SWEPT, Recorder, look_for_work
from service.runs.verifying import count
from service.sql import load_query
from statemachines.contracts.contract import Contract, authority_of
from statemachines.contracts.policy import Authority
from statemachines.kernel.machine import ReadFailed, Rejection
from statemachines.runs import receipt as receipts
from statemachines.runs.steps.book import DEPLOY_WAIT_SECONDS

# The end of decisions and looks that the plan keeps no longer, and of turns that nobody waits for (G-071, G-137).

log = structlog.get_logger(__name__)

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

STEP = 2000  # rows a transaction deletes

_DECISIONS = load_query("runs/background", "forget_decisions")
_LOOKS = load_query("runs/background", "forget_looks")
_TURNS = load_query("runs/background", "forget_turns")


async def forget_decisions(connection: Connection, days_by_project: Mapping[str, int]) -> int:
    """Delete what is older than each project's days, in steps; returns how many decisions went.

    `connection` is in autocommit mode. Turns go after a day: whatever is still due then comes first anyway.
    """
    total = 0
    for project_id, days in days_by_project.items():
        while True:
            values = {"project_id": project_id, "days": days, "most": STEP}
            gone = (await connection.execute(_DECISIONS, values)).rowcount
            total += gone
            if gone < STEP:
                break
        await connection.execute(_LOOKS, {"project_id": project_id, "days": days})
    await connection.execute(_TURNS)
    if total:
        log.info("decisions_purged", rows=total)
    return total


# The minute sweep, in turns of projects: what time has made of things (G-119, R-AUT-10). Every step takes up at most
# 500 objects, in turn (P27), judges them as reads do, and sends one command for each that has become something else.
# Deciding again under the locks makes a second sweep at once record nothing twice. Results never depend on a sweep
# having run: it only writes down what every read says already, and looks for work as a runner would.

# Whose turn it is: what a sweep takes up next of more than it can take up at once (P27). When each object was last
# considered is kept in the database, so that several workers and a restarted one go on where the others were. Four
# fifths of a sweep go to what has waited longest, whoever it belongs to: of n objects none waits for more than n / 400
# sweeps. The rest goes to accounts in turn: who has one project need not wait behind another one's thousands. An
# object's turn is taken before it is worked on: one that kills the sweep costs itself the turn, not others.

EVERY_SECONDS = 60
"""How often a sweep begins."""

Name = tuple[str, str]  # project_id, id


class Turn(StrEnum):
    """What is taken up in turn, by the step of a sweep: first what has ended, then what can be verified and begin.

    Alerts are no step of it: their schedule takes up projects in the same way. What is due in a step, and since when,
    is told by part `due` of background.sql.
    """

    RECEIPTS = "receipts"
    CLAIMS = "claims"
    OVERDUE = "runs"
    GRANTS = "grants"
    APPROVALS = "approvals"
    VERIFYING = "verification"
    ENABLED = "issue"
    ALERTS = "alerts"


_WAITING = load_query("runs/background", "waiting")
_TAKE = load_query("runs/background", "take_turns")
_WAITS = load_query("runs/background", "waits")
_NOW = load_query("runs/background", "now")


class Wait(NamedTuple):
    """The longest wait of due work in a step, in seconds, and the longest allowed at this number."""

    step: str
    objects: int
    longest: int
    allowed: int

    @property
    def late(self) -> bool:
        """Whether something has waited for longer than any object should."""
        return self.longest > self.allowed


def share_of_longest(bound: int) -> int:
    """How many of the objects that a sweep takes up are those that have waited longest."""
    return bound - bound // 5


def allowed_wait(count: int, bound: int) -> int:
    """Seconds that one of `count` objects may wait when a sweep takes up `bound`: its turn comes, and two sweeps more.

    The first of the two may have begun just before the object was due, and each may take as long as the time between
    two of them.
    """
    return (-(-count // share_of_longest(bound)) + 2) * EVERY_SECONDS


async def moment(store: EventStore) -> datetime:
    """When a sweep begins, by service_now()."""
    [[began]] = await store.fetch(_NOW)
    assert isinstance(began, datetime)
    return began


async def waiting(store: EventStore, turn: Turn, bound: int) -> list[Name]:
    """Name the objects for a sweep: at most `bound`, in order of their waiting time."""
    rows = await store.fetch_planned(
        _WAITING, step=turn.value, longest=share_of_longest(bound), most=bound, deploy_wait=DEPLOY_WAIT_SECONDS
    )
    return [(project_id, name) for project_id, name in rows]


async def take(facts: Facts, turn: Turn, objects: Sequence[Name], began: datetime) -> list[Name]:
    """Take the turns of objects; returns those that no other sweep has taken since `began`. Raises psycopg.Error."""
    projects, ids = [project_id for project_id, _ in objects], [name for _, name in objects]
    values = {"step": turn.value, "projects": projects, "ids": ids, "began": began}
    async with facts.connection() as connection:
        cursor = await connection.execute(_TAKE, values)
        taken = set(await cursor.fetchall())
    return [name for name in objects if name in taken]


async def waits(store: EventStore, turns: Iterable[Turn], bound: int) -> list[Wait]:
    """The longest wait of due work, by step."""
    steps = [turn.value for turn in turns]
    rows = await store.fetch(_WAITS, steps=steps, deploy_wait=DEPLOY_WAIT_SECONDS)
    return [Wait(step, count, longest, allowed_wait(count, bound)) for step, count, longest in rows]


# The minute sweep: record what time has made of things, settle verification, issue receipts (G-119, R-AUT-10).

R = TypeVar("R", bound=msgspec.Struct)
Work = Callable[[], Awaitable[None]]


AT_MOST = 500
AT_ONCE = 8
TOGETHER = 50
"""How many turns are taken at once: what kills a sweep costs so many objects their turn, until they come round."""

_OF = "(t.project_id, t.id) in (select * from unnest(%s::text[], %s::text[]))"
_RECEIPTS = load_query("runs/background", "receipts_in_turn")
_OVERDUE = load_query("runs/background", "runs_in_turn")
_GRANTS = load_query("runs/background", "grants_in_turn")
_APPROVALS = load_query("runs/background", "approvals_in_turn")
_ENABLED = "t.status = 'enabled' and t.project_id = any(%s)"


class _Approval(msgspec.Struct, frozen=True):
    approval: ApprovalRow
    around: RunBundle


class _Grant(msgspec.Struct, frozen=True):
    grant: GrantRow
    around: RunBundle


class Sweep:
    """One pass over everything that is due. `done` counts the commands by step."""

    def __init__(self, store: EventStore, providers: AnalyticsProviders) -> None:
        self._store = store
        self._providers = providers
        self._contracts: dict[str, Contract] = {}
        self._recorder = Recorder(store.facts)
        self.done: Counter[str] = Counter()

    async def run(self) -> Counter[str]:
        """Take every step once: first endings, then verifications, last new work."""
        steps = {
            Turn.RECEIPTS: self._receipts,
            Turn.CLAIMS: self._claims,
            Turn.OVERDUE: self._overdue,
            Turn.GRANTS: self._grants,
            Turn.APPROVALS: self._approvals,
            Turn.VERIFYING: self._verification,
            Turn.ENABLED: self._issue,
        }
        for turn, step in steps.items():
            await self._in_turn(turn, step)
        self.done["decisions"] += self._recorder.recorded
        return +self.done

    async def _in_turn(self, turn: Turn, step: Callable[[Sequence[Name]], Awaitable[list[Work]]]) -> None:
        """Process due work in order of waiting time, in batches, and record the progress after each."""
        began = await moment(self._store)
        due = await waiting(self._store, turn, AT_MOST)
        for first in range(0, len(due), TOGETHER):
            mine = await take(self._store.facts, turn, due[first : first + TOGETHER], began)
            await _together(await step(mine))
            await self._recorder.flush()

    async def _send(self, step: str, project_id: str, intent: Intent[Any]) -> None:
        """Carry out one intent as the system. A project that is being deleted is left alone. Raises Moved."""
        await carry_out(self._store, "sweep", f"sweep {step}", intent, project=project_id)
        self.done[step] += 1

    async def _contract(self, project_id: str) -> Contract:
        if project_id not in self._contracts:
            self._contracts[project_id] = await read_contract(self._store, project_id)
        return self._contracts[project_id]

    def _on(self, step: str, table: Table[R], row: R, command: Callable[[R], Intent[Any]]) -> Work:
        """Work on a row, read again whenever it turns out to be out of date."""
        key: Any = row

        async def work() -> None:
            async def attempt() -> None:
                latest = await self._store.get(table, key.project_id, key.id)
                if latest is not None:
                    await self._send(step, key.project_id, command(latest))

            await retry_moved(attempt)

        return work

    async def _receipts(self, mine: Sequence[Name]) -> list[Work]:
        """Receipts that time, a stop or a moved case has ended."""
        bundles = await read_bundles(self._store, ReceiptBundle, _RECEIPTS, **_named(mine))
        due = [b for b in bundles if b.state(await self._contract(b.receipt.project_id)).over]
        return [self._on("receipts", RECEIPTS, b.receipt, issuing.settle) for b in due]

    async def _claims(self, mine: Sequence[Name]) -> list[Work]:
        """Leases that have ended."""
        rows: list[ClaimRow] = await self._store.find(CLAIMS, _OF, *_named(mine).values())
        return [self._on("claims", CLAIMS, row, acting.expire_claim) for row in rows]

    async def _overdue(self, mine: Sequence[Name]) -> list[Work]:
        """Runs whose deadline, lease or deploy has not been kept."""
        bundles = await read_bundles(self._store, RunBundle, _OVERDUE, **_named(mine))
        due = [b for b in bundles if not b.book(await self._contract(b.run.project_id)).run.live]
        return [self._on("runs", RUNS, bundle.run, acting.expire_run) for bundle in due]

    async def _grants(self, mine: Sequence[Name]) -> list[Work]:
        """Grants that have lapsed, and those whose effect nobody will settle in a live run."""
        found = await read_bundles(self._store, _Grant, _GRANTS, **_named(mine))
        works = []
        for item in found:
            book = item.around.book(await self._contract(item.grant.project_id))
            if book.grants[item.grant.id].status.value != item.grant.status:
                works.append(self._on("grants", RUNS, item.around.run, _settle_grant(item.grant)))
        return works

    async def _approvals(self, mine: Sequence[Name]) -> list[Work]:
        """Requests that have lapsed; the review of a run ends with its last one."""
        found = await read_bundles(self._store, _Approval, _APPROVALS, **_named(mine))
        works = []
        for item in found:
            book = item.around.book(await self._contract(item.approval.project_id))
            if book.approvals[item.approval.id].status.value != item.approval.status:
                works.append(self._on("approvals", RUNS, item.around.run, _settle_approval(item.approval)))
        return works

    async def _verification(self, mine: Sequence[Name]) -> list[Work]:
        """Deploys that are being verified; a provider that cannot be read leaves them pending."""
        return [self._verify(row) for row in await self._store.find(RUNS, _OF, *_named(mine).values())]

    def _verify(self, row: RunRow) -> Work:
        async def work() -> None:
            counts = await count(self._store, self._providers, row.project_id, row.state)
            if isinstance(counts, ReadFailed):
                log.warning("verification_unread", run=row.id, cause=counts.cause)
                return
            await self._on("verification", RUNS, row, lambda latest: verifying.verify(latest, counts))()

        return work

    async def _issue(self, projects: Sequence[Name]) -> list[Work]:
        """Look for work for every enabled automation of these projects.

        Those of one project look one after the other, in the order of its contract: where two want a case, it is the
        contract that says which gets it, and a back-test can tell.
        """
        rows = await self._store.find(AUTOMATION_CONTRACTS, _ENABLED, [project_id for project_id, _ in projects])
        return [
            _one_by_one(
                [
                    self._issue_for(row.project_id, automation.saved.automation_id)
                    for automation in contract_of(row).automations
                    if automation.enabled
                ]
            )
            for row in rows
        ]

    def _issue_for(self, project_id: str, automation_id: str) -> Work:
        async def attempt() -> None:
            look = await look_for_work(self._store, project_id, automation_id)
            authority = authority_of(look.contract, automation_id)
            if not authority.enabled or authority.policy is None:
                return
            judged = look.judged(automation_id)
            await self._recorder.note(look.taken(project_id, automation_id, SWEPT, judged))
            if judged.cases or (
                judged.slot is not None and await self._slot_open(authority, project_id, judged.slot, look.now)
            ):
                await self._send("issue", project_id, issuing.issue(project_id, automation_id, judged, SWEPT))

        return lambda: retry_moved(attempt)

    async def _slot_open(self, authority: Authority, project_id: str, slot: int, now: int) -> bool:
        """Whether the window of a slot is open, and the slot has no receipt yet."""
        trigger = authority.policy.schedule_trigger if authority.policy else None
        if trigger is None or now >= slot + trigger.start_window_seconds:
            return False
        receipt_id = receipts.schedule_receipt_id(project_id, authority.automation_id, slot)
        return await self._store.get(RECEIPTS, project_id, receipt_id) is None


def _named(names: Sequence[Name]) -> dict[str, list[str]]:
    """The projects and the ids of objects, as a query takes them."""
    return {"projects": [project_id for project_id, _ in names], "ids": [name for _, name in names]}


def _settle_grant(row: GrantRow) -> Callable[[RunRow], Intent[Any]]:
    return lambda run: acting.expire_grant(run, row)


def _settle_approval(row: ApprovalRow) -> Callable[[RunRow], Intent[Any]]:
    return lambda run: acting.expire_approval(run, row)


async def _together(works: Iterable[Work]) -> None:
    """Carry out works a few at a time."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(work: Work) -> None:
        async with room:
            await _try(work)

    await asyncio.gather(*(one(work) for work in works))


def _one_by_one(works: Sequence[Work]) -> Work:
    """One work of several, each after the one before."""

    async def all_of_them() -> None:
        for work in works:
            await _try(work)

    return all_of_them


async def _try(work: Work) -> None:
    """Carry out a work. One that is refused or finds the store busy is left to the next sweep."""
    try:
        await work()
    except (Rejection, CommandNotDone, OutcomeUnknown, psycopg.Error, PoolTimeout) as error:
        log.info("left_to_the_next_sweep", error=type(error).__name__)


# Effects at providers that have begun: what no stop can take back (R-AUT-33). A consumed grant is a call that its
# runner may have made. Until a trusted CI proves it, nobody knows what became of it.

_STARTED = load_query("runs/background", "started_effects")


class StartedGrant(NamedTuple):
    """A consumed grant that nothing has settled; times in epoch seconds."""

    project_id: str
    automation_id: str
    run_id: str
    grant_id: str
    kind: str
    status: str
    consumed_at: int


async def started(
    store: EventStore, project_id: str, automation_id: str | None = None, *, limit: int
) -> list[StartedGrant]:
    """Read at most `limit` effects of a project, or of one of its automations, that have begun and are not settled.

    Read after a stop was answered, this is what had begun before it: nothing can begin after it.
    """
    rows = await store.fetch_planned(_STARTED, project_id=project_id, automation_id=automation_id, most=limit)
    return [StartedGrant(*row) for row in rows]


async def started_anywhere(store: EventStore, *, limit: int) -> list[StartedGrant]:
    """Read at most `limit` such effects of the whole installation, also where a stop found nothing left to pause."""
    rows = await store.fetch_planned(_STARTED, project_id=None, automation_id=None, most=limit)
    return [StartedGrant(*row) for row in rows]


# Recording that what was open in a project has ended with it, after its deletion fence (G-130). The fence is what
# stops authority: every command meets it under the gate, and every read shows what was open as ended. Here that is
# written down, object by object, in the words of their machines.

# Runs first: each takes its claim, its grants and its requests along.
_OPEN: tuple[tuple[str, Table[Any], str, Callable[[Any], Intent[Any]]], ...] = (
    ("runs", RUNS, "t.live", acting.fence_run),
    ("receipts", RECEIPTS, "t.status in ('issued', 'claimed')", issuing.fence),
    ("claims", CLAIMS, "t.status = 'active'", acting.fence_claim),
)
_FOLLOW_UPS = "t.project_id = %s and jsonb_array_length(t.state -> 'follow_ups') > 0"


async def end_open(store: EventStore, project_id: str, most: int) -> bool:
    """End at most `most` open objects of a fenced project; returns whether none is left.

    Raises what the store raises.
    """
    for name, table, where, command in _OPEN:
        rows = await store.find(table, f"t.project_id = %s and {where}", project_id, order_by="t.id", limit=most)
        for row in rows:
            await _end(store, name, table, row, command)
        if rows:
            return False
    return True


async def _end(store: EventStore, name: str, table: Table[R], row: R, command: Callable[[R], Intent[Any]]) -> None:
    key: Any = row

    async def attempt() -> None:
        latest = await store.get(table, key.project_id, key.id)
        if latest is not None:
            await carry_out(store, "deletion", f"end {name}", command(latest), gates=[key.project_id])

    await retry_moved(attempt)


async def runs_to_follow_up(store: EventStore, project_id: str, most: int) -> list[RunRow]:
    """Read the first runs, by id, that left something outside for a person to look at."""
    return await store.find(RUNS, _FOLLOW_UPS, project_id, order_by="t.id", limit=most)
