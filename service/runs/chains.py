"""Issue, claim, start, renew, release: the commands along a case's chain, as declared plans (G-104 to G-106).

A plan says which streams and rows a command touches and decides over them in a unit of work. Where its relations
were read before the locks, the decision compares them under the locks and raises Moved when they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from projections.cases.case import CASE_STATS, CaseStatsRow
from projections.runs.claim import ClaimRow
from projections.runs.lease import LeaseRow
from projections.runs.receipt import TRIGGER_EVIDENCE, TriggerEvidenceRow, TriggerReceiptRow
from service.eventstore.commands import Lookup, Unit
from service.runs import books
from service.runs.books import append_all
from statemachines.cases.case import Case
from statemachines.contracts.authority import authority_of
from statemachines.contracts.contract import Contract
from statemachines.contracts.cron import latest_firing, parse_cron
from statemachines.contracts.policy import Authority, require_enabled
from statemachines.kernel.machine import Stream
from statemachines.kernel.moved import Moved
from statemachines.runs import claim as claims
from statemachines.runs import claiming, issuing
from statemachines.runs import receipt as receipts
from statemachines.runs import run as runs
from statemachines.runs import starting as automation
from statemachines.runs.claim import Claim, Holder
from statemachines.runs.claiming import ClaimCase, Release
from statemachines.runs.issuing import Chain, Evidence
from statemachines.runs.lease import Lease
from statemachines.runs.materiality import CaseFacts, MaterialityNotMet
from statemachines.runs.receipt import Receipt
from statemachines.runs.run import Run
from statemachines.runs.starting import StartRun

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan(Generic[T]):
    """A command in full but for who asks: what it writes, reads and looks up, and how it decides."""

    streams: Sequence[Stream]
    reads: Sequence[Stream]
    decide: Callable[[Unit], T]
    lookups: Sequence[Lookup] = ()


class Candidate(NamedTuple):
    """A case that may get a receipt, with its revision and lease as read before the locks (None: never had one)."""

    case_id: str
    case_revision: int
    lease: LeaseRow | None


class Issued(NamedTuple):
    """What one look for work came to: new receipts, and what was passed over with the reason."""

    receipt_ids: list[str]
    skipped_cases: list[tuple[str, str]]
    skipped_slots: list[tuple[int, str]]


class _Facts(NamedTuple):
    candidate: Candidate
    case: CaseFacts
    stats: CaseStatsRow


def facts_of(case_id: str, case: Case, stats: CaseStatsRow | None) -> CaseFacts:
    """Put together what is known of a case, without its texts. Without counts nothing is known to have happened."""
    return CaseFacts(
        case_id=case_id,
        revision=case.revision,
        status=case.status.value,
        trust="" if stats is None else stats.trust,
        event_count=0 if stats is None else stats.event_count,
        first_seen_at=None if stats is None else stats.first_seen_at,
        last_seen_at=None if stats is None else stats.last_seen_at,
    )


def _case_facts(unit: Unit, project_id: str, case_id: str) -> CaseFacts:
    stats = unit.row(CASE_STATS, project_id, case_id)
    return facts_of(case_id, unit.state(books.case_stream(project_id, case_id)), stats)


def _contract(unit: Unit, project_id: str) -> Contract:
    contract: Contract = unit.state(books.contract_stream(project_id))
    return contract


def _state(unit: Unit, stream: Stream | None, initial: S) -> S:
    """State of a stream that may not exist yet."""
    return initial if stream is None else unit.state(stream)


class _Links(NamedTuple):
    """The latest chain of a lease, by stream."""

    lease: Stream
    receipt: Stream | None
    claim: Stream | None
    run: Stream | None

    @classmethod
    def of(cls, project_id: str, case_id: str, lease: LeaseRow | None) -> _Links:
        """Name what a lease's row points to."""
        named = lease or _NO_LEASE
        return cls(
            books.lease_stream(project_id, case_id),
            None if named.receipt_id is None else books.receipt_stream(project_id, named.receipt_id),
            None if named.claim_id is None else books.claim_stream(project_id, named.claim_id),
            None if named.run_id is None else books.run_stream(project_id, named.run_id),
        )

    @property
    def reads(self) -> list[Stream]:
        """What is read beside the lease."""
        return [stream for stream in (self.receipt, self.claim, self.run) if stream is not None]

    def open(self, unit: Unit) -> Chain:
        """Read the chain. Raises Moved when the lease points elsewhere by now."""
        lease: Lease = unit.state(self.lease)
        named = tuple(None if stream is None else stream.id for stream in (self.receipt, self.claim, self.run))
        if named != (lease.receipt_id, lease.claim_id, lease.run_id):
            raise Moved
        return Chain(
            lease,
            _state(unit, self.receipt, Receipt()),
            _state(unit, self.claim, Claim()),
            _state(unit, self.run, Run()),
        )


_NO_LEASE = LeaseRow(
    project_id="", id="", revision=0, case_id="", receipt_id=None, claim_id=None, run_id=None, state=Lease()
)


def plan_case_issue(project_id: str, automation_id: str, candidates: Sequence[Candidate]) -> Plan[Issued]:
    """Look through cases and issue receipts for those that matter, most frequent first (R-AUT-20, R-AUT-22)."""
    links = {item.case_id: _Links.of(project_id, item.case_id, item.lease) for item in candidates}
    new = {item.case_id: _new_receipt(project_id, automation_id, item) for item in candidates}

    def issue_one(unit: Unit, contract: Contract, facts: _Facts) -> str | None:
        """Issue a receipt for one case, or say why not. Raises Moved."""
        case_id = facts.case.case_id
        chain = links[case_id].open(unit)
        judged = issuing.judge_case(chain, partial(authority_of, contract), automation_id, facts.case, unit.now)
        if isinstance(judged, str):
            return judged
        case: Case = unit.state(books.case_stream(project_id, case_id))
        evidence = Evidence(case.fingerprint, facts.stats.level)
        authority = authority_of(contract, automation_id)
        receipt_id, effects = issuing.issue_case_receipt(project_id, authority, chain.lease, judged, evidence, unit.now)
        append_all(unit, [new[case_id], links[case_id].lease], effects)
        row = TriggerEvidenceRow(project_id=project_id, id=receipt_id, title=facts.stats.title)
        unit.put(new[case_id], TRIGGER_EVIDENCE, row)
        return None

    def decide(unit: Unit) -> Issued:
        contract = _contract(unit, project_id)
        trigger = issuing.case_trigger(require_enabled(authority_of(contract, automation_id)))
        issued = Issued([], [], [])
        for facts in _by_weight(unit, project_id, candidates):
            if len(issued.receipt_ids) == trigger.max_cases_per_sweep:
                break
            code = issue_one(unit, contract, facts)
            if code is None:
                issued.receipt_ids.append(new[facts.case.case_id].id)
            else:
                issued.skipped_cases.append((facts.case.case_id, code))
        return issued

    cases = [books.case_stream(project_id, item.case_id) for item in candidates]
    chains = [stream for link in links.values() for stream in link.reads]
    return Plan(
        streams=[*(link.lease for link in links.values()), *new.values()],
        reads=[books.contract_stream(project_id), *cases, *chains],
        decide=decide,
        lookups=[Lookup(CASE_STATS, project_id, item.case_id) for item in candidates],
    )


def _new_receipt(project_id: str, automation_id: str, item: Candidate) -> Stream:
    ordinal = 1 if item.lease is None else item.lease.state.ordinal + 1
    receipt_id = receipts.case_receipt_id(project_id, automation_id, item.case_id, item.case_revision, ordinal)
    return books.receipt_stream(project_id, receipt_id)


def _by_weight(unit: Unit, project_id: str, candidates: Sequence[Candidate]) -> list[_Facts]:
    """The candidates that were ever counted, the most frequent first (G-104)."""
    found = []
    for candidate in candidates:
        stats = unit.row(CASE_STATS, project_id, candidate.case_id)
        if stats is not None:
            found.append(_Facts(candidate, _case_facts(unit, project_id, candidate.case_id), stats))
    return sorted(found, key=lambda item: (-item.case.event_count, -item.stats.last_seen_at, item.case.case_id))


def plan_slot_issue(
    project_id: str, automation_id: str, scheduled_for: int, known: Collection[str] = ()
) -> Plan[Issued]:
    """Issue the one receipt of a schedule slot, while it is the latest and its window is open (R-AUT-20, P14).

    `known` are the receipts that were open when the slot was looked up.
    """
    stream = books.receipt_stream(project_id, receipts.schedule_receipt_id(project_id, automation_id, scheduled_for))

    def decide(unit: Unit) -> Issued:
        authority = authority_of(_contract(unit, project_id), automation_id)
        if latest_slot(authority, unit.now) != scheduled_for:
            raise Moved
        receipt: Receipt = unit.state(stream)
        if receipt.status is receipts.Status.ISSUED and stream.id not in known:
            raise Moved  # A rival issued it since: whoever asks is shown it as well.
        _, effects = issuing.issue_schedule_receipt(project_id, authority, receipt, scheduled_for, unit.now)
        append_all(unit, [stream], effects)
        if effects:
            return Issued([stream.id], [], [])
        code = "window_closed" if receipt.status is receipts.Status.ABSENT else "receipt_exists"
        return Issued([], [], [(scheduled_for, code)])

    return Plan([stream], [books.contract_stream(project_id)], decide)


def latest_slot(authority: Authority, now: int) -> int:
    """The latest slot of a scheduled automation at `now`. Raises what require_enabled raises."""
    schedule = require_enabled(authority).schedule_trigger
    assert schedule is not None, "an automation woken by cases has no slots"
    return latest_firing(parse_cron(schedule.cron), schedule.timezone, now)


def plan_claim(command: ClaimCase, lease: LeaseRow | None) -> Plan[Stream]:
    """Claim the case of a receipt; returns the stream of the claim that the caller holds then (G-105)."""
    project_id, case_id = command.project_id, command.case_id
    links = _Links.of(project_id, case_id, lease)
    receipt = books.receipt_stream(project_id, command.receipt_id)
    epoch = 1 if lease is None else lease.state.epoch + 1
    new = books.claim_stream(project_id, claims.claim_id(project_id, case_id, epoch))
    case = books.case_stream(project_id, case_id)

    def decide(unit: Unit) -> Stream:
        state: Receipt = unit.state(receipt)
        claim_id, effects = claiming.claim_case(
            command,
            receipt=state,
            lease=links.open(unit).lease,
            current=_state(unit, links.claim, Claim()),
            authority=authority_of(_contract(unit, project_id), state.automation_id),
            case=facts_of(case_id, unit.state(case), None),
            now=unit.now,
        )
        append_all(unit, [receipt, links.lease, new], effects)
        return books.claim_stream(project_id, claim_id)

    others = [stream for stream in links.reads if stream != receipt]
    return Plan([receipt, links.lease, new], [books.contract_stream(project_id), case, *others], decide)


class Started(NamedTuple):
    """What a start came to: the run's stream, or the refusal that ended its receipt and was recorded with it."""

    run: Stream
    refusal: MaterialityNotMet | None


def plan_start(command: StartRun, receipt_row: TriggerReceiptRow) -> Plan[Started]:
    """Start the one run of a receipt. When its case no longer matters, the receipt ends with that decision."""
    project_id, automation_id = command.project_id, receipt_row.automation_id
    case_id, claim_id = receipt_row.case_id, receipt_row.claim_id
    receipt = books.receipt_stream(project_id, command.receipt_id)
    run = books.run_stream(project_id, runs.run_id(project_id, command.receipt_id))
    ledger = books.ledger_stream(project_id, automation_id)
    lease = None if case_id is None else books.lease_stream(project_id, case_id)
    claim = None if claim_id is None else books.claim_stream(project_id, claim_id)
    writes = [stream for stream in (receipt, run, ledger, lease, claim) if stream is not None]

    def decide(unit: Unit) -> Started:
        state: Receipt = unit.state(receipt)
        if state.claim_id != claim_id:
            raise Moved
        try:
            _, effects = automation.start_run(
                command,
                receipt=state,
                claim=_state(unit, claim, Claim()),
                lease=_state(unit, lease, Lease()),
                ledger=unit.state(ledger),
                authority=authority_of(_contract(unit, project_id), automation_id),
                case=None if case_id is None else _case_facts(unit, project_id, case_id),
                now=unit.now,
            )
        except MaterialityNotMet as refusal:
            unit.append(receipt, receipts.decide_invalidate(state, refusal.decision, unit.now))
            return Started(run, refusal)
        append_all(unit, writes, effects)
        return Started(run, None)

    contract = books.contract_stream(project_id)
    if case_id is None:
        return Plan(writes, [contract], decide)
    return Plan(
        writes, [contract, books.case_stream(project_id, case_id)], decide, [Lookup(CASE_STATS, project_id, case_id)]
    )


class ClaimScope(NamedTuple):
    """A claim with the receipt and lease that it belongs to, by stream."""

    project_id: str
    automation_id: str
    claim: Stream
    receipt: Stream
    lease: Stream

    @classmethod
    def of(cls, row: ClaimRow) -> ClaimScope:
        """Name what a claim's row points to; it never changes."""
        return cls(
            row.project_id,
            row.automation_id,
            books.claim_stream(row.project_id, row.id),
            books.receipt_stream(row.project_id, row.receipt_id),
            books.lease_stream(row.project_id, row.case_id),
        )

    def plan(self, decide: Callable[[Unit], None]) -> Plan[None]:
        """Make a plan over the claim and its receipt; the lease and the contract are only read."""
        return Plan([self.claim, self.receipt], [self.lease, books.contract_stream(self.project_id)], decide)


def plan_renew(row: ClaimRow, holder: Holder, lease_epoch: int) -> Plan[None]:
    """Extend a lease (G-105)."""
    scope = ClaimScope.of(row)

    def decide(unit: Unit) -> None:
        authority = authority_of(_contract(unit, scope.project_id), scope.automation_id)
        events = claims.decide_renew(
            unit.state(scope.claim), unit.state(scope.lease), authority, holder, lease_epoch, unit.now
        )
        unit.append(scope.claim, events)

    return scope.plan(decide)


def plan_release(row: ClaimRow, release: Release) -> Plan[None]:
    """Give a claim back, and close its receipt when no run began under it (G-105)."""
    scope = ClaimScope.of(row)

    def decide(unit: Unit) -> None:
        effects = claiming.release_claim(
            row.id, unit.state(scope.claim), unit.state(scope.receipt), unit.state(scope.lease), release, unit.now
        )
        append_all(unit, [scope.claim, scope.receipt], effects)

    return scope.plan(decide)


def plan_settle_claim(row: ClaimRow) -> Plan[None]:
    """Record what time has made of a claim (G-119)."""
    scope = ClaimScope.of(row)

    def decide(unit: Unit) -> None:
        effects = claiming.settle_claim(
            row.id, unit.state(scope.claim), unit.state(scope.receipt), unit.state(scope.lease), unit.now
        )
        append_all(unit, [scope.claim, scope.receipt], effects)

    return scope.plan(decide)


def plan_settle_receipt(row: TriggerReceiptRow) -> Plan[None]:
    """Record what time, a stop or a moved case has made of an open receipt (G-119)."""
    project_id, case_id, claim_id = row.project_id, row.case_id, row.claim_id
    receipt = books.receipt_stream(project_id, row.id)
    case = None if case_id is None else books.case_stream(project_id, case_id)
    lease = None if case_id is None else books.lease_stream(project_id, case_id)
    claim = None if claim_id is None else books.claim_stream(project_id, claim_id)

    def decide(unit: Unit) -> None:
        state: Receipt = unit.state(receipt)
        if state.claim_id != claim_id:
            raise Moved
        events = receipts.settle(
            state,
            authority_of(_contract(unit, project_id), state.automation_id),
            None if case is None else _standing_of(unit.state(case)),
            claim_live=claims.lease_live(_state(unit, claim, Claim()), _state(unit, lease, Lease()), unit.now),
            now=unit.now,
        )
        unit.append(receipt, events)

    reads = [stream for stream in (case, lease, claim) if stream is not None]
    return Plan([receipt], [books.contract_stream(project_id), *reads], decide)


def _standing_of(case: Case) -> tuple[str, int]:
    return case.status.value, case.revision
