"""What the commands of automation declare, by name, and how a unit of work opens it: a run, a claim, a chain.

A command declares its streams before it holds any lock, so it first reads where they are: a run's row names its
claim, case, grants and requests. What such a row names may have grown by the time the locks are held; opening it then
raises Moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from msgspec import UNSET

from projections.cases import CASE_STATS, PROVIDER_LOOKS, CaseStatsRow, ProviderLookRow, trust_of
from projections.onboarding import SIGNAL_MAPS
from projections.projects import PROJECT_SETTINGS, PUBLIC_DSNS
from projections.reports import REPORTS
from projections.runs import DECISIONS, ClaimRow, LeaseRow, RunRow
from service.eventstore.declare.commands import Intent, Lookup, Refused, Unit
from service.runs.looking import DecisionSubject, Looker, acted_on
from statemachines import reports
from statemachines.cases import case as cases
from statemachines.contracts import contract as contracts
from statemachines.contracts.policy import Authority
from statemachines.kernel.machine import Moved, Stream
from statemachines.onboarding import signal_map as signal_maps
from statemachines.projects import settings as project_settings
from statemachines.runs import approval, claim, grant, lease, ledger, receipt, run
from statemachines.runs.claim import Claim
from statemachines.runs.lease import Lease
from statemachines.runs.materiality import CaseFacts, MaterialityDecision, MaterialityNotMet
from statemachines.runs.receipt import ReceiptState
from statemachines.runs.run import Run
from statemachines.runs.steps.book import Book, Effects
from statemachines.runs.steps.end_run import telling_what_is_left
from statemachines.runs.steps.offer import CaseJudgement, Chain

S = TypeVar("S")
T = TypeVar("T")
Part = Literal["run", "claim", "ledger", "grants", "approvals", "report"]

ALL_PARTS: frozenset[Part] = frozenset({"run", "claim", "ledger", "grants", "approvals", "report"})


def read_contract_state(unit: Unit, project_id: str) -> contracts.Contract:
    """Read the contract, which every command of automation declares."""
    state: contracts.Contract = unit.state(contracts.stream(project_id))
    return state


def read_authority(unit: Unit, project_id: str, automation_id: str) -> Authority:
    """Read where an automation stands."""
    return contracts.authority_of(read_contract_state(unit, project_id), automation_id)


def map_lookup(project_id: str) -> Lookup:
    """Name the row of the signal map, for a command that reads its environment."""
    return Lookup(SIGNAL_MAPS, project_id, signal_maps.stream(project_id).id)


def read_mapped(unit: Unit, project_id: str) -> str | None:
    """Read the environment of the approved signal map; None without a map (G-134)."""
    row = unit.row(SIGNAL_MAPS, project_id, signal_maps.stream(project_id).id)
    return None if row is None else row.plan.deploy.environment


def read_state(unit: Unit, stream: Stream | None, initial: S) -> S:
    """Read the state of a stream that may not exist yet."""
    return initial if stream is None else unit.state(stream)


def case_lookups(project_id: str, case_ids: Iterable[str]) -> list[Lookup]:
    """Name what `read_facts` reads of cases beside their streams."""
    counts = [Lookup(CASE_STATS, project_id, case_id) for case_id in case_ids]
    settings = Lookup(PROJECT_SETTINGS, project_id, project_settings.stream(project_id).id)
    of_project = [Lookup(PUBLIC_DSNS, project_id, project_id), Lookup(PROVIDER_LOOKS, project_id, project_id)]
    return [*counts, settings, *of_project] if counts else []


def facts_of(
    case_id: str,
    state: cases.Case,
    stats: CaseStatsRow | None,
    look: ProviderLookRow | None = None,
    *,
    accept_public: bool = True,
) -> CaseFacts:
    """Put together what is known of a case, without its texts. Without counts nothing is known to have happened.

    Errors by the public DSN count if they are accepted. `look` is the project's at its connected provider.
    """
    of_provider = stats is not None and stats.provider_count
    counted = None if stats is None else stats.counted(accept_public=accept_public)
    return CaseFacts(
        case_id=case_id,
        revision=state.revision,
        status=state.status.value,
        trust="" if counted is None else trust_of(unmarked=counted.unmarked, imported=state.imported),
        event_count=0 if counted is None else counted.event_count,
        first_seen_at=None if stats is None else stats.first_seen_at,
        last_seen_at=None if counted is None else counted.last_seen_at,
        provider_read_to=(0 if look is None else look.read_to) if of_provider else UNSET,
    )


def read_facts(unit: Unit, project_id: str, case_id: str) -> CaseFacts:
    """Read what is known of a case whose stream and lookups are declared."""
    stats = unit.row(CASE_STATS, project_id, case_id)
    state: cases.Case = unit.state(cases.stream(project_id, case_id))
    look = unit.row(PROVIDER_LOOKS, project_id, project_id)
    return facts_of(case_id, state, stats, look, accept_public=_accepts_public(unit, project_id))


def _accepts_public(unit: Unit, project_id: str) -> bool:
    """Read the setting `accept_public_events`, as the function accepts_public of the database does (G-202)."""
    settings = unit.row(PROJECT_SETTINGS, project_id, project_settings.stream(project_id).id)
    if settings is not None and settings.accept_public_events is not None:
        return settings.accept_public_events
    public = unit.row(PUBLIC_DSNS, project_id, project_id)
    return public is None or public.accept_public_events


def put_decision(unit: Unit, stream: Stream, stage: Literal["claim", "start"], decision: MaterialityDecision) -> None:
    """Record what the claim of a receipt, or its start, was decided on (G-137)."""
    receipt: ReceiptState = unit.state(stream)
    judgement = CaseJudgement(decision, decision.checks, None if decision.passed else "materiality_not_met")
    subject = DecisionSubject(stream.project_id, receipt.automation_id, receipt.policy_sha256)
    unit.put(stream, DECISIONS, acted_on(subject, Looker(stage, "runner"), stage, judgement, stream.id))


def end_immaterial(unit: Unit, stream: Stream, stage: Literal["claim", "start"], refusal: MaterialityNotMet) -> Refused:
    """End the receipt of an immaterial case, and record the decision (G-188)."""
    unit.append(stream, receipt.decide_invalidate(unit.state(stream), refusal.decision, unit.now))
    put_decision(unit, stream, stage, refusal.decision)
    return Refused(refusal)


def append_all(unit: Unit, streams: list[Stream], effects: Effects) -> None:
    """Append the events of every stream in `effects`. One that was not declared means its relations moved: Moved."""
    declared = {stream.id: stream for stream in streams}
    if not effects.keys() <= declared.keys():
        raise Moved
    for stream_id, events in effects.items():
        unit.append(declared[stream_id], events)


@dataclass(frozen=True, slots=True)
class Ran(Generic[T]):
    """What a command on a run came to, and the book after it. `changed` is false when it recorded nothing."""

    result: T
    book: Book
    changed: bool


@dataclass(frozen=True, slots=True)
class RunScope:
    """Everything around one run, by name. `writes` are the parts that a command may change; the rest is only read."""

    project_id: str
    run_id: str
    automation_id: str
    claim_id: str | None
    case_id: str | None
    grant_ids: tuple[str, ...] = ()
    approval_ids: tuple[str, ...] = ()
    report_id: str | None = None
    writes: frozenset[Part] = ALL_PARTS

    @classmethod
    def of(
        cls,
        row: RunRow,
        *,
        new_grant: str | None = None,
        new_approval: str | None = None,
        new_report: str | None = None,
        writes: frozenset[Part] = ALL_PARTS,
    ) -> RunScope:
        """Name what a run's row points to, and what the command may create."""
        grants = [ref.grant_id for ref in row.state.grants]
        approvals = [ref.approval_id for ref in row.state.approvals]
        return cls(
            project_id=row.project_id,
            run_id=row.id,
            automation_id=row.automation_id,
            claim_id=row.claim_id,
            case_id=row.case_id,
            grant_ids=_with(grants, new_grant),
            approval_ids=_with(approvals, new_approval),
            report_id=known if isinstance(known := row.state.report_id, str) else new_report,
            writes=writes,
        )

    def _parts(self) -> dict[Part, list[Stream]]:
        project_id = self.project_id
        return {
            "run": [run.stream(project_id, self.run_id)],
            "claim": [] if self.claim_id is None else [claim.stream(project_id, self.claim_id)],
            "ledger": [ledger.stream(project_id, self.automation_id)],
            "grants": [grant.stream(project_id, grant_id) for grant_id in self.grant_ids],
            "approvals": [approval.stream(project_id, approval_id) for approval_id in self.approval_ids],
            "report": [] if self.report_id is None else [reports.stream(project_id, self.report_id)],
        }

    @property
    def streams(self) -> list[Stream]:
        """Streams that the command may write."""
        return [stream for part, streams in self._parts().items() if part in self.writes for stream in streams]

    @property
    def reads(self) -> list[Stream]:
        """Streams that it only decides on: the contract and the lease of the case are among them."""
        leases = [] if self.case_id is None else [lease.stream(self.project_id, self.case_id)]
        others = [stream for part, streams in self._parts().items() if part not in self.writes for stream in streams]
        return [contracts.stream(self.project_id), *leases, *others]

    def open(self, unit: Unit) -> Book:
        """Read the states of all of them, as this unit has made them so far. Raises Moved when the run names more."""
        project_id = self.project_id
        state: Run = unit.state(run.stream(project_id, self.run_id))
        known = {*self.grant_ids, *self.approval_ids}
        if any(ref.grant_id not in known for ref in state.grants):
            raise Moved
        if any(ref.approval_id not in known for ref in state.approvals):
            raise Moved
        if isinstance(state.report_id, str) and state.report_id != self.report_id:
            raise Moved
        report_stream = None if self.report_id is None else reports.stream(project_id, self.report_id)
        report_row = None if report_stream is None else unit.row(REPORTS, project_id, report_stream.id)
        claim_stream = None if self.claim_id is None else claim.stream(project_id, self.claim_id)
        lease_stream = None if self.case_id is None else lease.stream(project_id, self.case_id)
        return Book(
            project_id=project_id,
            run_id=self.run_id,
            run=state,
            claim=read_state(unit, claim_stream, Claim()),
            lease=read_state(unit, lease_stream, Lease()),
            authority=read_authority(unit, project_id, self.automation_id),
            ledger=unit.state(ledger.stream(project_id, self.automation_id)),
            grants={grant_id: unit.state(grant.stream(project_id, grant_id)) for grant_id in self.grant_ids},
            approvals={
                approval_id: unit.state(approval.stream(project_id, approval_id)) for approval_id in self.approval_ids
            },
            report=read_state(unit, report_stream, reports.Report()),
            report_json=None if report_row is None else report_row.report_json,
        )

    def carry_out(self, unit: Unit, effects: Effects) -> Book:
        """Append what was decided, and return the book after it."""
        append_all(unit, self.streams, effects)
        return self.open(unit)

    def intent(self, act: Callable[[Book, int], tuple[T, Effects]]) -> Intent[Ran[T]]:
        """Make an intent that opens the book, decides with `act` at the time of the unit, and appends all of it."""
        streams = self.streams

        def decide(unit: Unit) -> Ran[T]:
            book = self.open(unit)
            with telling_what_is_left(book, unit.now):
                result, effects = act(book, unit.now)
            if not effects:
                return Ran(result, book, changed=False)
            append_all(unit, streams, effects)
            return Ran(result, self.open(unit), changed=True)

        return Intent(streams, decide, reads=self.reads)


def _with(known: list[str], new: str | None) -> tuple[str, ...]:
    return tuple(known) if new is None or new in known else (*known, new)


class ClaimScope(NamedTuple):
    """A claim with the receipt and the lease that it belongs to, by stream."""

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
            claim.stream(row.project_id, row.id),
            receipt.stream(row.project_id, row.receipt_id),
            lease.stream(row.project_id, row.case_id),
        )

    def intent(self, decide: Callable[[Unit], None]) -> Intent[None]:
        """Make an intent that writes the claim and its receipt; the lease and the contract are only read."""
        return Intent([self.claim, self.receipt], decide, reads=[self.lease, contracts.stream(self.project_id)])


class ChainScope(NamedTuple):
    """The lease of a case with the latest receipt, claim and run that it points to, by stream."""

    lease: Stream
    receipt: Stream | None
    claim: Stream | None
    run: Stream | None

    @classmethod
    def of(cls, project_id: str, case_id: str, row: LeaseRow | None) -> ChainScope:
        """Name what the row of a lease points to; nothing when the case never had one."""
        if row is None:
            return cls(lease.stream(project_id, case_id), None, None, None)
        return cls(
            lease.stream(project_id, case_id),
            None if row.receipt_id is None else receipt.stream(project_id, row.receipt_id),
            None if row.claim_id is None else claim.stream(project_id, row.claim_id),
            None if row.run_id is None else run.stream(project_id, row.run_id),
        )

    @property
    def reads(self) -> list[Stream]:
        """What is read beside the lease."""
        return [stream for stream in (self.receipt, self.claim, self.run) if stream is not None]

    def open(self, unit: Unit) -> Chain:
        """Read the chain. Raises Moved when the lease points elsewhere by now."""
        state: Lease = unit.state(self.lease)
        named = tuple(None if stream is None else stream.id for stream in (self.receipt, self.claim, self.run))
        if named != (state.receipt_id, state.claim_id, state.run_id):
            raise Moved
        return Chain(
            state,
            read_state(unit, self.receipt, ReceiptState()),
            read_state(unit, self.claim, Claim()),
            read_state(unit, self.run, Run()),
        )
