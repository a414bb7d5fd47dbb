"""The minute sweep: record what time has made of things, settle verification, issue receipts (G-119, R-AUT-10).

Every step takes up at most 500 objects, in turn (P27), judges them as reads do, and sends one command for each that has
become something else. Deciding again under the locks makes a second sweep at once record nothing twice. Results never
depend on a sweep having run: it only writes down what every read says already, and looks for work as a runner would.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import psycopg
import structlog
from psycopg_pool import PoolTimeout

from projections.contracts.contract import AUTOMATION_CONTRACTS
from projections.kernel.projection import Table
from projections.runs.approval import ApprovalRow
from projections.runs.claim import PROJECTION as CLAIMS
from projections.runs.claim import ClaimRow
from projections.runs.grant import GrantRow
from projections.runs.receipt import PROJECTION as RECEIPTS
from projections.runs.run import PROJECTION as RUNS
from projections.runs.run import RunRow
from service.analytics.port import AnalyticsProviders
from service.auth.system import carry_out
from service.eventstore.declare.commands import OutcomeUnknown
from service.eventstore.declare.intents import Intent, retry_moved
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from service.fairness.not_done import CommandNotDone
from service.runs import commands
from service.runs.background import turns
from service.runs.background.turns import Name, Turn
from service.runs.reads.bundles import (
    ReceiptBundle,
    RunBundle,
    contract_of,
    read_bundles,
    read_contract,
)
from service.runs.reads.counting import count
from service.runs.reads.look_for_work import look_for_work
from service.runs.reads.recording import SWEPT, Recorder
from statemachines.contracts.authority import authority_of
from statemachines.contracts.contract import Contract
from statemachines.contracts.policy import Authority
from statemachines.kernel.machine import Rejection
from statemachines.kernel.readings import ReadFailed
from statemachines.runs import receipt as receipts

R = TypeVar("R", bound=msgspec.Struct)
Work = Callable[[], Awaitable[None]]

log = structlog.get_logger(__name__)

AT_MOST = 500
AT_ONCE = 8
TOGETHER = 50
"""How many turns are taken at once: what kills a sweep costs so many objects their turn, until they come round."""

_OF = "(t.project_id, t.id) in (select * from unnest(%s::text[], %s::text[]))"
_RECEIPTS = load_sql("runs", "receipts_in_turn")
_OVERDUE = load_sql("runs", "runs_in_turn")
_GRANTS = load_sql("runs", "grants_in_turn")
_APPROVALS = load_sql("runs", "approvals_in_turn")
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
        began = await turns.moment(self._store)
        due = await turns.waiting(self._store, turn, AT_MOST)
        for first in range(0, len(due), TOGETHER):
            mine = await turns.take(self._store.facts, turn, due[first : first + TOGETHER], began)
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
        return [self._on("receipts", RECEIPTS.table, b.receipt, commands.receipt.settle) for b in due]

    async def _claims(self, mine: Sequence[Name]) -> list[Work]:
        """Leases that have ended."""
        rows: list[ClaimRow] = await self._store.find(CLAIMS.table, _OF, *_named(mine).values())
        return [self._on("claims", CLAIMS.table, row, commands.claim.settle) for row in rows]

    async def _overdue(self, mine: Sequence[Name]) -> list[Work]:
        """Runs whose deadline, lease or deploy has not been kept."""
        bundles = await read_bundles(self._store, RunBundle, _OVERDUE, **_named(mine))
        due = [b for b in bundles if not b.book(await self._contract(b.run.project_id)).run.live]
        return [self._on("runs", RUNS.table, bundle.run, commands.run.settle) for bundle in due]

    async def _grants(self, mine: Sequence[Name]) -> list[Work]:
        """Grants that have lapsed, and those whose effect nobody will settle in a live run."""
        found = await read_bundles(self._store, _Grant, _GRANTS, **_named(mine))
        works = []
        for item in found:
            book = item.around.book(await self._contract(item.grant.project_id))
            if book.grants[item.grant.id].status.value != item.grant.status:
                works.append(self._on("grants", RUNS.table, item.around.run, _settle_grant(item.grant)))
        return works

    async def _approvals(self, mine: Sequence[Name]) -> list[Work]:
        """Requests that have lapsed; the review of a run ends with its last one."""
        found = await read_bundles(self._store, _Approval, _APPROVALS, **_named(mine))
        works = []
        for item in found:
            book = item.around.book(await self._contract(item.approval.project_id))
            if book.approvals[item.approval.id].status.value != item.approval.status:
                works.append(self._on("approvals", RUNS.table, item.around.run, _settle_approval(item.approval)))
        return works

    async def _verification(self, mine: Sequence[Name]) -> list[Work]:
        """Deploys that are being verified; a provider that cannot be read leaves them pending."""
        return [self._verify(row) for row in await self._store.find(RUNS.table, _OF, *_named(mine).values())]

    def _verify(self, row: RunRow) -> Work:
        async def work() -> None:
            counts = await count(self._store, self._providers, row.project_id, row.state)
            if isinstance(counts, ReadFailed):
                log.warning("verification_unread", run=row.id, cause=counts.cause)
                return
            await self._on(
                "verification", RUNS.table, row, lambda latest: commands.verification.verify(latest, counts)
            )()

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
                await self._send("issue", project_id, commands.receipt.issue(project_id, automation_id, judged, SWEPT))

        return lambda: retry_moved(attempt)

    async def _slot_open(self, authority: Authority, project_id: str, slot: int, now: int) -> bool:
        """Whether the window of a slot is open, and the slot has no receipt yet."""
        trigger = authority.policy.schedule_trigger if authority.policy else None
        if trigger is None or now >= slot + trigger.start_window_seconds:
            return False
        receipt_id = receipts.schedule_receipt_id(project_id, authority.automation_id, slot)
        return await self._store.get(RECEIPTS.table, project_id, receipt_id) is None


def _named(names: Sequence[Name]) -> dict[str, list[str]]:
    """The projects and the ids of objects, as a query takes them."""
    return {"projects": [project_id for project_id, _ in names], "ids": [name for _, name in names]}


def _settle_grant(row: GrantRow) -> Callable[[RunRow], Intent[Any]]:
    return lambda run: commands.grant.settle(run, row)


def _settle_approval(row: ApprovalRow) -> Callable[[RunRow], Intent[Any]]:
    return lambda run: commands.approval.settle(run, row)


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
