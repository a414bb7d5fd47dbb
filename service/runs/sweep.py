"""The minute sweep: record what time has made of things, settle verification, issue receipts (G-119, R-AUT-10).

Every step reads at most 500 objects, judges them as reads do, and sends one command for each that has become
something else. Deciding again under the locks makes a second sweep at once record nothing twice. Results never depend
on a sweep having run: it only writes down what every read says already, and looks for work as a runner would.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import msgspec
import structlog

from projections.contracts.contract import AutomationContractRow
from projections.kernel.projection import Table
from projections.projects.project import PROJECTION as PROJECTS
from projections.runs.approval import ApprovalRow
from projections.runs.claim import PROJECTION as CLAIMS
from projections.runs.claim import ClaimRow
from projections.runs.grant import GrantRow
from projections.runs.receipt import PROJECTION as RECEIPTS
from projections.runs.run import PROJECTION as RUNS
from projections.runs.run import RunRow
from service.auth.authority import check_fence
from service.eventstore.commands import Answer, Command, CommandNotDone, Lookup, Origin, OutcomeUnknown, Unit
from service.eventstore.store import EventStore
from service.ids import new_id
from service.runs import chains, running
from service.runs.books import retried
from service.runs.candidates import look_for_work
from service.runs.chains import Plan
from service.runs.counting import count
from service.runs.reading import (
    NOW,
    RECEIPT_BUNDLE,
    RUN_BUNDLE,
    ReceiptBundle,
    RunBundle,
    contract_of,
    read_bundles,
    read_contract,
)
from service.services import Services
from statemachines.contracts.authority import authority_of
from statemachines.contracts.contract import Contract
from statemachines.contracts.policy import Authority
from statemachines.kernel.machine import Rejection
from statemachines.kernel.readings import ReadFailed
from statemachines.projects.project import ProjectNotFound
from statemachines.runs import receipt as receipts
from statemachines.runs.book import DEPLOY_WAIT_SECONDS

R = TypeVar("R", bound=msgspec.Struct)
Work = Callable[[], Awaitable[None]]

log = structlog.get_logger(__name__)

AT_MOST = 500
AT_ONCE = 8
ACTIVE = "exists (select from projects p where p.project_id = {0}.project_id and p.status = 'active')"

_RECEIPTS = (
    f"trigger_receipts t where t.status in ('issued', 'claimed') and {ACTIVE.format('t')} "
    "order by t.expires_at, t.id limit %s"
)
_CLAIMS = f"t.status = 'active' and t.lease_expires_at <= {NOW} and {ACTIVE.format('t')}"
_LAPSED = (
    "exists (select from claims c where c.project_id = r.project_id and c.id = r.claim_id "
    f"and (c.status <> 'active' or c.lease_expires_at <= {NOW}))"
)
_OVERDUE = (
    f"automation_runs r where r.live and {ACTIVE.format('r')} and case "
    f"when r.phase = 'provider_proof_pending' then r.started_at <= {NOW} - {DEPLOY_WAIT_SECONDS} "
    f"else r.deadline_at <= {NOW} or {_LAPSED} end order by r.deadline_at, r.id limit %s"
)
_GRANTS = (
    f"(t.status = 'authorized' or (t.status = 'consumed' and not exists (select from automation_runs r "
    f"where r.project_id = t.project_id and r.id = t.run_id and r.live))) and {ACTIVE.format('t')}"
)
_APPROVALS = (
    "approvals a join automation_runs r on r.project_id = a.project_id and r.id = a.run_id "
    f"where a.status = 'pending' and {ACTIVE.format('a')} order by a.expires_at, a.id limit %s"
)
_APPROVAL_BUNDLE = f"json_build_object('approval', row_to_json(a), 'around', {RUN_BUNDLE})"
_GRANT_BUNDLE = f"json_build_object('grant', row_to_json(t), 'around', {RUN_BUNDLE})"
_GRANT_SOURCE = (
    "grants t join automation_runs r on r.project_id = t.project_id and r.id = t.run_id "
    f"where {_GRANTS} order by t.expires_at, t.id limit %s"
)
_VERIFYING = f"t.outcome = 'verifying' and t.live and {ACTIVE.format('t')}"
_ENABLED = (
    "select row_to_json(k)::text from automation_contracts k "  # noqa: S608 - constants
    f"where k.status = 'enabled' and {ACTIVE.format('k')} order by k.project_id limit %s"
)


class _Approval(msgspec.Struct, frozen=True):
    approval: ApprovalRow
    around: RunBundle


class _Grant(msgspec.Struct, frozen=True):
    grant: GrantRow
    around: RunBundle


class Sweep:
    """One pass over everything that is due. `done` counts the commands by step."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._store: EventStore = services.store
        self._contracts: dict[str, Contract] = {}
        self.done: Counter[str] = Counter()

    async def run(self) -> Counter[str]:
        """Take every step once: first what has ended, then what can be verified, last what can begin."""
        for step in (
            self._receipts,
            self._claims,
            self._overdue,
            self._grants,
            self._approvals,
            self._verification,
            self._issue,
        ):
            await _together(await step())
        return self.done

    async def _send(self, step: str, project_id: str, plan: Plan[Any]) -> None:
        """Carry out one plan as the system. A project that is being deleted is left alone. Raises Moved."""
        await self._store.execute(system_command(step, project_id, plan))
        self.done[step] += 1

    async def _contract(self, project_id: str) -> Contract:
        if project_id not in self._contracts:
            self._contracts[project_id] = await read_contract(self._store, project_id)
        return self._contracts[project_id]

    def _on(self, step: str, table: Table[R], row: R, plan: Callable[[R], Plan[Any]]) -> Work:
        """Work on a row, read again whenever it turns out to be out of date."""
        key: Any = row

        async def work() -> None:
            async def attempt() -> None:
                latest = await self._store.get(table, key.project_id, key.id)
                if latest is not None:
                    await self._send(step, key.project_id, plan(latest))

            await retried(attempt)

        return work

    async def _receipts(self) -> list[Work]:
        """Receipts that time, a stop or a moved case has ended."""
        bundles = await read_bundles(self._store, ReceiptBundle, RECEIPT_BUNDLE, _RECEIPTS, AT_MOST)
        due = [b for b in bundles if b.state(await self._contract(b.receipt.project_id)).over]
        return [self._on("receipts", RECEIPTS.table, b.receipt, chains.plan_settle_receipt) for b in due]

    async def _claims(self) -> list[Work]:
        """Leases that have ended."""
        rows: list[ClaimRow] = await self._store.find(
            CLAIMS.table, _CLAIMS, order_by="t.lease_expires_at, t.id", limit=AT_MOST
        )
        return [self._on("claims", CLAIMS.table, row, chains.plan_settle_claim) for row in rows]

    async def _overdue(self) -> list[Work]:
        """Runs whose deadline, lease or deploy has not been kept."""
        bundles = await read_bundles(self._store, RunBundle, RUN_BUNDLE, _OVERDUE, AT_MOST)
        due = [b for b in bundles if not b.book(await self._contract(b.run.project_id)).run.live]
        return [self._on("runs", RUNS.table, bundle.run, running.plan_settle_run) for bundle in due]

    async def _grants(self) -> list[Work]:
        """Grants that have lapsed, and those whose effect nobody will settle in a live run."""
        found = await read_bundles(self._store, _Grant, _GRANT_BUNDLE, _GRANT_SOURCE, AT_MOST)
        works = []
        for item in found:
            book = item.around.book(await self._contract(item.grant.project_id))
            if book.grants[item.grant.id].status.value != item.grant.status:
                works.append(self._on("grants", RUNS.table, item.around.run, _grant_plan(item.grant)))
        return works

    async def _approvals(self) -> list[Work]:
        """Requests that have lapsed; the review of a run ends with its last one."""
        found = await read_bundles(self._store, _Approval, _APPROVAL_BUNDLE, _APPROVALS, AT_MOST)
        works = []
        for item in found:
            book = item.around.book(await self._contract(item.approval.project_id))
            if book.approvals[item.approval.id].status.value != item.approval.status:
                works.append(self._on("approvals", RUNS.table, item.around.run, _approval_plan(item.approval)))
        return works

    async def _verification(self) -> list[Work]:
        """Deploys that are being verified; a provider that cannot be read leaves them pending."""
        rows = await self._store.find(RUNS.table, _VERIFYING, order_by="t.started_at, t.id", limit=AT_MOST)
        return [self._verify(row) for row in rows]

    def _verify(self, row: RunRow) -> Work:
        async def work() -> None:
            counts = await count(self._store, self._services.providers, row.project_id, row.state)
            if isinstance(counts, ReadFailed):
                log.warning("verification_unread", run=row.id, cause=counts.cause)
                return
            await self._on("verification", RUNS.table, row, lambda latest: running.plan_verify(latest, counts))()

        return work

    async def _issue(self) -> list[Work]:
        """Look for work for every enabled automation."""
        works: list[Work] = []
        for (text,) in await self._store.fetch(_ENABLED, AT_MOST):
            row = msgspec.json.decode(text, type=AutomationContractRow)
            contract = contract_of(row)
            works += [
                self._issue_for(row.project_id, automation.saved.automation_id)
                for automation in contract.automations
                if automation.enabled
            ]
        return works

    def _issue_for(self, project_id: str, automation_id: str) -> Work:
        async def attempt() -> None:
            look = await look_for_work(self._store, project_id, automation_id)
            authority = authority_of(look.contract, automation_id)
            if not authority.enabled or authority.policy is None:
                return
            if authority.policy.case_trigger is not None:
                candidates = look.judged(automation_id).candidates
                if candidates:
                    await self._send("issue", project_id, chains.plan_case_issue(project_id, automation_id, candidates))
                return
            slot = await self._open_slot(authority, project_id)
            if slot is not None:
                await self._send("issue", project_id, chains.plan_slot_issue(project_id, automation_id, slot))

        return lambda: retried(attempt)

    async def _open_slot(self, authority: Authority, project_id: str) -> int | None:
        """The latest slot of a schedule, while its window is open and it has no receipt yet."""
        now, trigger = await self._store.now(), authority.policy.schedule_trigger if authority.policy else None
        slot = chains.latest_slot(authority, now)
        if trigger is None or now >= slot + trigger.start_window_seconds:
            return None
        receipt_id = receipts.schedule_receipt_id(project_id, authority.automation_id, slot)
        return None if await self._store.get(RECEIPTS.table, project_id, receipt_id) is not None else slot


def _grant_plan(row: GrantRow) -> Callable[[RunRow], Plan[Any]]:
    return lambda run: running.plan_settle_grant(run, row)


def _approval_plan(row: ApprovalRow) -> Callable[[RunRow], Plan[Any]]:
    return lambda run: running.plan_settle_approval(run, row)


async def _together(works: Iterable[Work]) -> None:
    """Carry out works a few at a time. One that is refused or finds the store busy is left to the next sweep."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(work: Work) -> None:
        async with room:
            try:
                await work()
            except (Rejection, CommandNotDone, OutcomeUnknown) as error:
                log.info("left_to_the_next_sweep", error=type(error).__name__)

    await asyncio.gather(*(one(work) for work in works))


def system_command(step: str, project_id: str, plan: Plan[Any]) -> Command:
    """Make a command of the system in a project; it is refused once the project is fenced."""

    def authorize(unit: Unit) -> None:
        project = unit.row(PROJECTS.table, project_id, project_id)
        if project is None:
            raise ProjectNotFound("There is no such project.")
        check_fence(project)

    def decide(unit: Unit) -> Answer:
        plan.decide(unit)
        return Answer(204, None)

    return Command(
        origin=Origin("system", "sweep", f"sweep {step}", new_id("req")),
        decide=decide,
        streams=plan.streams,
        reads=plan.reads,
        lookups=[*plan.lookups, Lookup(PROJECTS.table, project_id, project_id)],
        gates=[project_id],
        authorize=authorize,
    )
