"""A contract tried on days that are over: the looks of then, by the code that looks now, over what was known then.

Nothing is decided here. At each look the cases of that moment are put together and judged by `Look`, and what passes
is issued by the unit of the command, on states in memory. What differs from then is only what a back-test assumes:
that the contract was enabled all the time, and that nobody claimed a receipt.

A case is judged again when something happened to it, or when time may have changed its judgement
(issue_receipt.steady_until): any other look would come to the same and leave no record.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, nsmallest
from typing import Any, NamedTuple

from projections.cases import CASE_STATS, CaseStatsRow
from projections.contracts import AutomationContractRow, fold_contract
from projections.kernel import Table
from projections.onboarding import SIGNAL_MAPS, SignalMapRow
from projections.runs import DecisionRow, LeaseRow, fold_lease
from schemas.runs.decision import BacktestReceipt
from service.runs.bundles import contract_of
from service.runs.issuing import Issued, issue
from service.runs.looking import LOOKED_AT, Judged, LastDecision, Look, Looker, OpenCase
from statemachines.cases import case as cases
from statemachines.contracts import contract as contracts
from statemachines.contracts.cron import next_firing, parse_cron
from statemachines.contracts.documents import POLICY_VERSION, Document
from statemachines.contracts.policy import Policy
from statemachines.kernel.machine import Event, Recorded, Stream, apply
from statemachines.runs import lease as leases
from statemachines.runs import receipt as receipts
from statemachines.runs.steps import offer

MOST_JUDGED = 500_000
"""Judgements that one back-test makes."""


class TooMuch(Exception):
    """The days hold more than one back-test takes in."""


class Errors(NamedTuple):
    """The errors of one case in one second."""

    at: int
    case_id: str
    number: int
    unmarked: bool
    environments: Sequence[str]


class CaseMoved(NamedTuple):
    """An event of a case."""

    at: int
    case_id: str
    event: Event


class Mapped(NamedTuple):
    """The signal map from a moment on."""

    at: int
    row: SignalMapRow | None


Change = Errors | CaseMoved | Mapped


class LookTaken(NamedTuple):
    """A look of an automation for work, at a time that was recorded."""

    at: int
    automation_id: str
    asked: Looker


@dataclass(slots=True)
class KnownCase:
    """A case as far as it is known at a moment. `event_count` of 0: it has not happened yet."""

    state: cases.Case = cases.MACHINE.initial
    event_count: int = 0
    first_seen_at: int = 0
    last_seen_at: int = 0
    unmarked: bool = False
    environments: set[str] = field(default_factory=set)
    lease: LeaseRow | None = None
    receipt: receipts.ReceiptState | None = None

    def move(self, event: Event, at: int) -> None:
        """Take in an event of the case.

        What brought it back and is none of the counted errors came by the public DSN: until the next of these, none has
        been seen since (G-184).
        """
        self.state = cases.evolve(self.state, event)
        if isinstance(event, cases.CaseRegressed) and self.last_seen_at < at:
            self.last_seen_at = 0

    @property
    def open(self) -> bool:
        """Whether a look considers it."""
        return self.state.status is cases.Status.OPEN and self.event_count > 0


@dataclass(slots=True)
class _Automation:
    """What a back-test keeps of one automation: the cases to judge again, and its last record of each.

    `ready` are the cases that pass and only came after others, each with its weight; `queue` has them in their order,
    and entries that hold no more.
    """

    policy: Policy
    stale: set[str]
    wakes: list[tuple[int, str]] = field(default_factory=list)
    ready: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    queue: list[tuple[int, int, str]] = field(default_factory=list)
    last: dict[str, LastDecision] = field(default_factory=dict)
    slot_after: int = 0


class _Memory:
    """A unit of work over states and rows in memory, with the parts that issuing needs."""

    def __init__(self, now: int, states: Mapping[str, Any], rows: Mapping[tuple[str, str], Any]) -> None:
        self.now = now
        self._states = dict(states)
        self._rows = rows
        self.events: list[tuple[Stream, Event]] = []
        self.written: list[Any] = []

    def state(self, stream: Stream) -> Any:
        """State of a stream."""
        return self._states.get(stream.id, stream.machine.initial)

    def revision(self, stream: Stream) -> int:
        """Number of the events that this unit has appended."""
        return sum(known.id == stream.id for known, _ in self.events)

    def append(self, stream: Stream, events: Sequence[Event]) -> Any:
        """Apply events by the table of their machine."""
        for event in events:
            self._states[stream.id] = apply(stream.machine, self.state(stream), event)
            self.events.append((stream, event))
        return self.state(stream)

    def row(self, table: Table[Any], project_id: str, id: str) -> Any:  # noqa: ARG002 - as the units of the loop
        """A row that was handed in."""
        return self._rows.get((table.name, id))

    def put(self, stream: Stream, table: Table[Any], row: Any) -> None:  # noqa: ARG002 - as the units of the loop
        """Keep a row."""
        self.written.append(row)


def contract_row(project_id: str, document: Document, at: int) -> AutomationContractRow:
    """The row of a contract that was saved and enabled as a whole at a moment, whatever it still needed."""
    contract_id = contracts.stream(project_id).id
    saved = contracts.ContractSaved(contract_id, POLICY_VERSION, document.contract_sha256, document.automations, "", at)
    enabled = contracts.ContractEnabled(
        receipt_id="",
        contract_id=contract_id,
        contract_sha256=document.contract_sha256,
        contract_revision=2,
        previous_etag=contracts.make_etag(contract_id, 1),
        etag=contracts.make_etag(contract_id, 2),
        automation_ids=[automation.automation_id for automation in document.automations],
        enabled_by="",
        enabled_at=at,
        command="",
        request="",
    )
    row = None
    for revision, event in enumerate((saved, enabled), 1):
        row = fold_contract(row, Recorded(contract_id, revision, event, project_id, at, ""))
    assert row is not None, "a saved contract has a row"
    return row


class Backtest:
    """A contract on its way through days that are over."""

    def __init__(self, project_id: str, row: AutomationContractRow, known: dict[str, KnownCase]) -> None:
        self.project_id = project_id
        self.decisions: list[DecisionRow] = []
        self.receipts: list[BacktestReceipt] = []
        self.looks = self.considered = self.judged = 0
        self._row = row
        self._contract = contract_of(row)
        self._known = known
        self._open = {case_id for case_id, case in known.items() if case.open}
        self._map: SignalMapRow | None = None
        self._issued: dict[str, receipts.ReceiptState] = {}
        self._automations: dict[str, _Automation] = {}
        for automation in self._contract.automations:
            policy = contracts.authority_of(self._contract, automation.saved.automation_id).policy
            assert policy is not None, "an automation of the contract has a policy"
            self._automations[automation.saved.automation_id] = _Automation(policy, set(known))

    def run(self, looks: Iterable[LookTaken], changes: Iterable[Change]) -> Iterator[int]:
        """Take the looks in their order, each after the changes up to its second; yields how many cases each judged."""
        coming = iter(changes)
        change = next(coming, None)
        for look in looks:
            while change is not None and change.at <= look.at:
                self._apply(change)
                change = next(coming, None)
            self.looks += 1
            self.judged += (judged := self._look(look))
            if self.judged > MOST_JUDGED:
                raise TooMuch
            yield judged

    def _apply(self, change: Change) -> None:
        if isinstance(change, Mapped):
            self._map = change.row
            self._touch(self._known)
            return
        known = self._known.get(change.case_id)
        if known is None:
            return  # What is not known of it is named, and it is left out.
        if isinstance(change, Errors):
            known.first_seen_at = known.first_seen_at or change.at
            known.event_count += change.number
            known.last_seen_at = max(known.last_seen_at, change.at)
            known.unmarked |= change.unmarked
            known.environments.update(change.environments)
        else:
            known.move(change.event, change.at)
        (self._open.add if known.open else self._open.discard)(change.case_id)
        self._touch((change.case_id,))

    def _touch(self, case_ids: Iterable[str]) -> None:
        for automation in self._automations.values():
            for case_id in case_ids:
                automation.stale.add(case_id)
                automation.ready.pop(case_id, None)

    def _weight(self, case_id: str) -> tuple[int, int, str]:
        known = self._known[case_id]
        return -known.event_count, -known.last_seen_at, case_id

    def _look(self, taken: LookTaken) -> int:
        automation = self._automations[taken.automation_id]
        if automation.policy.schedule_trigger is not None:
            return self._look_at_slot(taken, automation)
        while automation.wakes and automation.wakes[0][0] <= taken.at:
            case_id = heappop(automation.wakes)[1]
            automation.stale.add(case_id)
            automation.ready.pop(case_id, None)
        within = self._open
        if len(within) > LOOKED_AT:
            within = set(nsmallest(LOOKED_AT, within, key=self._weight))
        self.considered += len(within)
        first = automation.stale & within | set(_first_ready(automation, within))
        if first:
            self._judge(taken, automation, sorted(first, key=self._weight))
        return len(first)

    def _judge(self, taken: LookTaken, automation: _Automation, case_ids: Sequence[str]) -> None:
        found = [self._case(case_id, automation.last.get(case_id)) for case_id in case_ids]
        mapped = self._mapped
        place = automation.policy.place(mapped)
        seen = frozenset(case_id for case_id in case_ids if place in self._known[case_id].environments)
        look = Look(taken.at, self._row, mapped, found, [], None if place is None else seen)
        judged = look.judged(taken.automation_id)
        rows = look.taken(self.project_id, taken.automation_id, taken.asked, judged).rows
        self._keep(automation, rows)
        for over in judged.passed_over:
            automation.stale.discard(over.case.id)
            if over.judgement.code == "max_cases_per_sweep":
                automation.ready[over.case.id] = weight = self._weight(over.case.id)
                heappush(automation.queue, weight)
            until = offer.steady_until(over.judgement, over.case.chain, automation.policy, taken.at)
            if until is not None:
                heappush(automation.wakes, (until, over.case.id))
        if judged.cases:
            self._issue(taken, automation, judged, {case.case_id: self._known[case.case_id] for case in judged.cases})

    @property
    def _mapped(self) -> str | None:
        return None if self._map is None else self._map.plan.deploy.environment

    def _case(self, case_id: str, last: LastDecision | None) -> OpenCase:
        known = self._known[case_id]
        return OpenCase(
            id=case_id,
            revision=known.state.revision,
            status=known.state.status.value,
            unmarked=known.unmarked,
            event_count=known.event_count,
            first_seen_at=known.first_seen_at,
            last_seen_at=known.last_seen_at or None,
            lease=known.lease,
            receipt=known.receipt,
            claim=None,
            run=None,
            seen_where_mapped=self._mapped in known.environments,
            last=last,
        )

    def _keep(self, automation: _Automation, rows: Iterable[DecisionRow]) -> None:
        for row in rows:
            self.decisions.append(row)
            automation.last[row.case_id] = LastDecision(row.id, row.outcome)

    def _issue(
        self, taken: LookTaken, automation: _Automation, judged: Judged, offered: Mapping[str, KnownCase]
    ) -> None:
        """Carry out the issuing command in memory, and apply its changes."""
        states: dict[str, Any] = {contracts.stream(self.project_id).id: self._contract, **self._issued}
        rows: dict[tuple[str, str], Any] = {}
        if self._map is not None:
            rows[SIGNAL_MAPS.name, self._map.id] = self._map
        for case_id, known in offered.items():
            states[case_id] = known.state
            rows[CASE_STATS.name, case_id] = _stats(self.project_id, case_id, known)
            if known.lease is not None:
                states[known.lease.id] = known.lease.state
                assert known.lease.receipt_id is not None, "an offer names its receipt"
                states[known.lease.receipt_id] = known.receipt
        unit = _Memory(taken.at, states, rows)
        issued = issue(self.project_id, taken.automation_id, judged, taken.asked).decide(unit)
        assert isinstance(issued, Issued), "issuing commits, or raises"
        self._keep(automation, (row for row in unit.written if isinstance(row, DecisionRow)))
        for stream, event in unit.events:
            if isinstance(event, receipts.ReceiptIssued):
                self._would_issue(stream.id, event, unit.state(stream))
            elif isinstance(event, leases.LeaseOffered):
                known = offered[event.case_id]
                revision = 1 if known.lease is None else known.lease.revision + 1
                known.lease = fold_lease(
                    known.lease, Recorded(stream.id, revision, event, self.project_id, taken.at, "")
                )
                known.receipt = unit.state(receipts.stream(self.project_id, event.receipt_id))
                self._touch((event.case_id,))

    def _would_issue(self, receipt_id: str, event: receipts.ReceiptIssued, state: receipts.ReceiptState) -> None:
        case, slot = event.case, event.slot
        if slot is not None:
            self._issued[receipt_id] = state
        self.receipts.append(
            BacktestReceipt(
                receipt_id=receipt_id,
                automation_id=event.automation_id,
                case_id=None if case is None else case.case_id,
                case_revision=None if case is None else case.case_revision,
                scheduled_for=None if slot is None else slot.scheduled_for,
                issued_at=event.issued_at,
                expires_at=event.expires_at,
            )
        )

    def _look_at_slot(self, taken: LookTaken, automation: _Automation) -> int:
        """Issue for the latest slot of a schedule; a slot is looked at once, by the first look after it."""
        trigger = automation.policy.schedule_trigger
        if trigger is None or taken.at < automation.slot_after:
            return 0
        automation.slot_after = next_firing(parse_cron(trigger.cron), trigger.timezone, taken.at)
        judged = Look(taken.at, self._row, None, [], [], None).judged(taken.automation_id)
        assert judged.slot is not None, "a scheduled automation has a slot"
        receipt_id = receipts.schedule_receipt_id(self.project_id, taken.automation_id, judged.slot)
        if receipt_id not in self._issued:
            self._issue(taken, automation, judged, {})
        return 0


def _first_ready(automation: _Automation, within: Collection[str]) -> list[str]:
    """As many of the ready cases as one look may offer, those that come first; they leave the queue."""
    assert automation.policy.case_trigger is not None, "an automation that cases wake"
    found: list[str] = []
    later: list[tuple[int, int, str]] = []
    while automation.queue and len(found) < automation.policy.case_trigger.max_cases_per_sweep:
        weight = heappop(automation.queue)
        case_id = weight[-1]
        if automation.ready.get(case_id) != weight:
            continue
        if case_id in within:
            found.append(case_id)
            del automation.ready[case_id]
        else:
            later.append(weight)
    for weight in later:
        heappush(automation.queue, weight)
    return found


def _stats(project_id: str, case_id: str, known: KnownCase) -> CaseStatsRow:
    """What issuing reads of the counts of a case. The texts decide nothing, and are not looked up."""
    return CaseStatsRow(
        project_id=project_id,
        id=case_id,
        title="",
        message="",
        culprit=None,
        level="",
        environment="",
        release=None,
        environments=sorted(known.environments),
        releases=[],
        unmarked=known.unmarked,
        event_count=known.event_count,
        users_affected=0,
        first_seen_at=known.first_seen_at,
        last_seen_at=known.last_seen_at,
    )
