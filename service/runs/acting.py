"""What runners, owners, CI and time do in automation: claims, runs, approvals, grants, proofs (G-104 to G-113)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from projections.cases import CASE_NOTES, CaseNotesRow
from projections.runs import ApprovalRow, ClaimRow, GrantRow, LeaseRow, RunRow, TriggerReceiptRow
from service.eventstore.declare.commands import Intent, Lookup, Refused, Unit
from service.eventstore.store import EventStore
from service.runs.scope import (
    ChainScope,
    ClaimScope,
    Part,
    Ran,
    RunScope,
    append_all,
    case_lookups,
    end_immaterial,
    map_lookup,
    put_decision,
    read_authority,
    read_facts,
    read_mapped,
    read_state,
)
from service.sql import load_query
from statemachines.cases import agent_run, comment
from statemachines.cases import case as cases
from statemachines.contracts import contract as contracts
from statemachines.kernel.machine import CiRun, Moved, Stream, derived_id
from statemachines.runs import approval as approvals
from statemachines.runs import claim as claims
from statemachines.runs import grant as grants
from statemachines.runs import lease as leases
from statemachines.runs import ledger as ledgers
from statemachines.runs import receipt as receipts
from statemachines.runs import run as runs
from statemachines.runs.events import GrantKind
from statemachines.runs.materiality import MaterialityNotMet
from statemachines.runs.steps import advance_run, end_run, offer, use_grant
from statemachines.runs.steps.book import Book, Effects, FencingToken
from statemachines.runs.steps.prove_pull_request import CLOSED_UNMERGED, ObservedPr, record_proof
from statemachines.runs.steps.results import bind_deploy
from statemachines.runs.verdict import BoundDeploy

# Claims: take the case of a receipt, extend the lease, give it back, settle it (G-105, R-AUT-25, R-AUT-26).

_CLOCKS: frozenset[Part] = frozenset({"run", "claim", "approvals"})
"""The parts of a run that a renewal after its review may change."""


class Claimed(NamedTuple):
    """The claim that a runner holds now. `new` is false when it held it before."""

    claim: Stream
    new: bool


def take_claim(command: offer.ClaimCase, lease: LeaseRow | None) -> Intent[Claimed]:
    """Claim the case of a receipt. When it no longer matters enough, the receipt ends instead (G-188)."""
    project_id, case_id = command.project_id, command.case_id
    scope = ChainScope.of(project_id, case_id, lease)
    receipt = receipts.stream(project_id, command.receipt_id)
    epoch = 1 if lease is None else lease.state.epoch + 1
    new = claims.stream(project_id, claims.claim_id(project_id, case_id, epoch))

    def decide(unit: Unit) -> Claimed | Refused:
        state: receipts.ReceiptState = unit.state(receipt)
        chain = scope.open(unit)
        try:
            claimed = offer.claim_case(
                command,
                receipt=state,
                lease=chain.lease,
                current=chain.claim,
                authority=read_authority(unit, project_id, state.automation_id),
                case=read_facts(unit, project_id, case_id),
                now=unit.now,
            )
        except MaterialityNotMet as refusal:
            return end_immaterial(unit, receipt, "claim", refusal)
        append_all(unit, [receipt, scope.lease, new], claimed.effects)
        if claimed.decision is not None:
            put_decision(unit, receipt, "claim", claimed.decision)
        return Claimed(claims.stream(project_id, claimed.claim_id), claimed.decision is not None)

    others = [stream for stream in scope.reads if stream != receipt]
    return Intent(
        [receipt, scope.lease, new],
        decide,
        reads=[contracts.stream(project_id), cases.stream(project_id, case_id), *others],
        lookups=case_lookups(project_id, [case_id]),
    )


def renew(row: ClaimRow, holder: claims.Holder, lease_epoch: int, run: RunRow | None = None) -> Intent[None]:
    """Extend the lease, no further than the deadline of the run. Of a resting claim, `run` is its run."""
    if run is not None:
        return _renew_in_run(RunScope.of(run, writes=_CLOCKS), holder, lease_epoch)
    scope = ClaimScope.of(row)

    def decide(unit: Unit) -> None:
        if unit.state(scope.claim).resting:
            raise Moved
        authority = read_authority(unit, scope.project_id, scope.automation_id)
        events = claims.decide_renew(
            unit.state(scope.claim), unit.state(scope.lease), authority, holder, lease_epoch, unit.now
        )
        unit.append(scope.claim, events)

    return scope.intent(decide)


def _renew_in_run(scope: RunScope, holder: claims.Holder, lease_epoch: int) -> Intent[None]:
    """Extend the lease of a run that may rest: the first renewal after the review ends its rest (G-185)."""

    def decide(unit: Unit) -> None:
        append_all(unit, scope.streams, end_run.renew_resting(scope.open(unit), holder, lease_epoch, unit.now))

    return Intent(scope.streams, decide, reads=scope.reads)


def release(row: ClaimRow, wish: offer.Release) -> Intent[None]:
    """Release a claim, and close its receipt when no run began under it."""
    scope = ClaimScope.of(row)

    def decide(unit: Unit) -> None:
        effects = offer.release_claim(
            row.id, unit.state(scope.claim), unit.state(scope.receipt), unit.state(scope.lease), wish, unit.now
        )
        append_all(unit, [scope.claim, scope.receipt], effects)

    return scope.intent(decide)


def expire_claim(row: ClaimRow) -> Intent[None]:
    """Record what time has made of a claim (G-119)."""
    scope = ClaimScope.of(row)

    def decide(unit: Unit) -> None:
        effects = offer.settle_claim(
            row.id, unit.state(scope.claim), unit.state(scope.receipt), unit.state(scope.lease), unit.now
        )
        append_all(unit, [scope.claim, scope.receipt], effects)

    return scope.intent(decide)


def fence_claim(row: ClaimRow) -> Intent[None]:
    """End a claim because its project is being deleted."""
    scope = ClaimScope.of(row)

    def decide(unit: Unit) -> None:
        events = claims.decide_revoke(unit.state(scope.claim), unit.state(scope.lease), unit.now)
        unit.append(scope.claim, events)

    return scope.intent(decide)


# Approvals: a runner asks, an owner decides, time settles (G-108).


def request_approval(row: RunRow, token: FencingToken, wish: use_grant.RequestApproval) -> Intent[Ran[str]]:
    """Ask a person; the result is the approval's id."""
    scope = RunScope.of(row, new_approval=approvals.approval_id(row.id, token.state_revision))
    return scope.intent(lambda book, now: use_grant.decide_request(book, token, wish, now))


def decide_approval(row: RunRow, approval_id: str, decision: approvals.OwnerDecision) -> Intent[Ran[None]]:
    """Record an owner's word on a request."""
    scope = RunScope.of(row, new_approval=approval_id)
    return scope.intent(lambda book, now: (None, use_grant.decide_approval(book, approval_id, decision, now)))


def expire_approval(row: RunRow, approval: ApprovalRow) -> Intent[Ran[None]]:
    """Record what has become of a request, and end the review when it was the last (G-119)."""

    def act(book: Book, now: int) -> tuple[None, Effects]:
        effects = end_run.settle_run(book, now)
        if approval.id in effects:
            return None, effects
        lapsed = approvals.settle(book.approval(approval.id), book.authority, run_live=book.run.live, now=now)
        return None, {approval.id: lapsed} if lapsed else {}

    return RunScope.of(row, new_approval=approval.id).intent(act)


# Grants: authorize one bounded effect, spend it once, settle it (G-109, R-AUT-31, R-AUT-32, R-AUT-38).


def authorize_draft_pr(row: RunRow, token: FencingToken, binding: grants.DraftPrBinding) -> Intent[Ran[str]]:
    """Authorize one pull request; the result is the grant's id."""
    scope = RunScope.of(row, new_grant=grants.grant_id(row.id, "draft_pr", token.state_revision))
    return scope.intent(lambda book, now: use_grant.authorize_draft_pr(book, token, binding, now))


def authorize_auto_merge(row: RunRow, token: FencingToken, binding: grants.AutoMergeBinding) -> Intent[Ran[str]]:
    """Authorize the provider's auto-merge; the result is the grant's id."""
    scope = RunScope.of(row, new_grant=grants.grant_id(row.id, "auto_merge", token.state_revision))
    return scope.intent(lambda book, now: use_grant.authorize_auto_merge(book, token, binding, now))


def consume(row: RunRow, token: FencingToken, kind: GrantKind, grant_id: str) -> Intent[Ran[bool]]:
    """Spend a grant; the result is whether the provider may be called."""

    def act(book: Book, now: int) -> tuple[bool, Effects]:
        consumed = use_grant.consume(book, token, kind, grant_id, now)
        return consumed.call_authorized, consumed.effects

    return RunScope.of(row).intent(act)


def expire_grant(row: RunRow, grant: GrantRow) -> Intent[Ran[None]]:
    """Record what has become of a grant (G-119)."""
    return RunScope.of(row, new_grant=grant.id).intent(
        lambda book, now: (None, end_run.settle_grant(book, grant.id, now))
    )


# Runs: start the one of a receipt, and what its runner, an owner and time do to it from there on (G-106, G-107).


def begin_run(command: advance_run.StartRun, row: TriggerReceiptRow) -> Intent[Stream]:
    """Start the one run of a receipt; returns its stream. When its case no longer matters, the receipt ends instead."""
    project_id, automation_id = command.project_id, row.automation_id
    case_id, claim_id = row.case_id, row.claim_id
    receipt = receipts.stream(project_id, command.receipt_id)
    run = runs.stream(project_id, runs.run_id(project_id, command.receipt_id))
    ledger = ledgers.stream(project_id, automation_id)
    lease = None if case_id is None else leases.stream(project_id, case_id)
    claim = None if claim_id is None else claims.stream(project_id, claim_id)
    writes = [stream for stream in (receipt, run, ledger, lease, claim) if stream is not None]

    def decide(unit: Unit) -> Stream | Refused:
        state: receipts.ReceiptState = unit.state(receipt)
        if state.claim_id != claim_id:
            raise Moved
        try:
            _, effects = advance_run.start_run(
                command,
                receipt=state,
                claim=read_state(unit, claim, claims.Claim()),
                lease=read_state(unit, lease, leases.Lease()),
                ledger=unit.state(ledger),
                authority=read_authority(unit, project_id, automation_id),
                case=None if case_id is None else read_facts(unit, project_id, case_id),
                mapped=read_mapped(unit, project_id),
                now=unit.now,
            )
        except MaterialityNotMet as refusal:
            return end_immaterial(unit, receipt, "start", refusal)
        append_all(unit, writes, effects)
        if (decision := unit.state(receipt).final_materiality) is not None:
            put_decision(unit, receipt, "start", decision)
        return run

    return Intent(
        writes,
        decide,
        reads=[contracts.stream(project_id), *([] if case_id is None else [cases.stream(project_id, case_id)])],
        lookups=[map_lookup(project_id), *case_lookups(project_id, [] if case_id is None else [case_id])],
    )


def progress(row: RunRow, token: FencingToken) -> Intent[Ran[None]]:
    """Say that the work has begun."""
    return RunScope.of(row).intent(lambda book, now: (None, advance_run.decide_progress(book, token, now)))


def report_pr(row: RunRow, token: FencingToken, reported: advance_run.ReportedPullRequest) -> Intent[Ran[None]]:
    """Report the pull request that was opened."""
    return RunScope.of(row).intent(lambda book, now: (None, advance_run.decide_report_pr(book, token, reported, now)))


def hand_over(row: RunRow, token: FencingToken, wish: advance_run.HandOver) -> Intent[Ran[None]]:
    """End the run as failed, or hand it over to people."""
    return RunScope.of(row).intent(lambda book, now: (None, advance_run.decide_hand_over(book, token, wish, now)))


def refuse(row: RunRow, token: FencingToken) -> Intent[Ran[None]]:
    """Refuse a step that no run has."""
    return RunScope.of(row).intent(lambda book, now: advance_run.refuse_step(book, token, now))


def charge(row: RunRow, token: FencingToken, usage: advance_run.Usage) -> Intent[Ran[None]]:
    """Charge what is about to be used."""
    return RunScope.of(row).intent(lambda book, now: (None, advance_run.decide_usage(book, token, usage, now)))


def cancel(row: RunRow, command: end_run.CancelRun) -> Intent[Ran[None]]:
    """Withdraw service authority over the run."""
    return RunScope.of(row).intent(lambda book, now: (None, end_run.decide_cancel(book, command, now)))


def expire_run(row: RunRow) -> Intent[Ran[None]]:
    """Record what time has made of a run (G-119)."""
    return RunScope.of(row).intent(lambda book, now: (None, end_run.settle_run(book, now)))


def fence_run(row: RunRow) -> Intent[Ran[None]]:
    """End a run because its project is being deleted."""
    return RunScope.of(row).intent(lambda book, now: (None, end_run.decide_fence_run(book, now)))


# Comments and agents' runs of a case, counted under its lock: a case takes so many of either (G-145).

_NOTES = load_query("cases", "notes_of_case")


async def count_notes(store: EventStore, project_id: str, case_id: str) -> CaseNotesRow:
    """Count the stored comments and agents' runs, before any lock."""
    [[comments, agent_runs]] = await store.fetch(
        _NOTES,
        project_id=project_id,
        case_id=case_id,
        most_comments=comment.MAX_COMMENTS,
        most_agent_runs=agent_run.MAX_AGENT_RUNS,
    )
    return CaseNotesRow(project_id=project_id, id=case_id, comments=comments, agent_runs=agent_runs)


def notes_of(unit: Unit, there: CaseNotesRow) -> CaseNotesRow:
    """The comments and agents' runs of a case, under its lock."""
    # The row counts all by releases with this row, and earlier ones of the batch. Older releases write beside it: their
    # notes were there before the lock. Nothing is ever removed. Neither number is too high: the higher one holds.
    known = unit.row(CASE_NOTES, there.project_id, there.id)
    if known is None:
        return there
    return msgspec.structs.replace(
        there,
        comments=max(known.comments, there.comments),
        agent_runs=max(known.agent_runs, there.agent_runs),
    )


# What a trusted CI says: take in its proof of the pull request, and bind its deploy to the run (G-110, R-AUT-43).

AUTHOR = "system"
"""Who writes a comment that nobody wrote."""


def record_observation(
    row: RunRow, observed: ObservedPr, notes: CaseNotesRow | None = None, ci_run: CiRun | None = None
) -> Intent[Ran[str]]:
    """Take in what a CI observed; the result is the proof's id. `ci_run` is behind an exchanged credential.

    `notes` are those of the run's case. With them a run that ends with its pull request leaves a comment (G-187).
    """

    def act(book: Book, now: int) -> tuple[str, Effects]:
        settled = record_proof(book, observed, now, ci_run or msgspec.UNSET)
        return settled.proof_id, settled.effects

    intent = RunScope.of(row).intent(act)
    return intent if notes is None else _with_comment(intent, row, observed.pr_number, notes)


def _with_comment(intent: Intent[Ran[str]], row: RunRow, number: int, there: CaseNotesRow) -> Intent[Ran[str]]:
    """Comment on the case in the same unit. A case that is full of comments gets none."""
    case = cases.stream(row.project_id, there.id)
    written = comment.stream(row.project_id, derived_id("cmt", row.id, CLOSED_UNMERGED))

    def decide(unit: Unit) -> Ran[str] | Refused:
        ran = intent.decide(unit)
        if isinstance(ran, Refused) or not ran.changed or ran.book.run.reason != CLOSED_UNMERGED:
            return ran
        notes = notes_of(unit, there)
        if notes.comments < comment.MAX_COMMENTS:
            text = f"Pull request {number} of {row.id} was closed without a merge. The run has failed."
            unit.append(written, comment.decide_write(unit.state(written), case.id, AUTHOR, text, unit.now))
            unit.put(case, CASE_NOTES, msgspec.structs.replace(notes, comments=notes.comments + 1))
        return ran

    return Intent(
        [*intent.streams, case, written],
        decide,
        reads=intent.reads,
        lookups=[*intent.lookups, Lookup(CASE_NOTES, row.project_id, case.id)],
    )


@dataclass(frozen=True, slots=True)
class WaitingRun:
    """A run that waits for a deploy, as read before the locks: the deploy is bound in the deploy's own unit."""

    scope: RunScope

    @classmethod
    def of(cls, row: RunRow) -> WaitingRun:
        """Name what binding a deploy reads, and the run, which alone it writes."""
        return cls(RunScope.of(row, writes=frozenset({"run"})))

    def bind(self, unit: Unit, deploy: BoundDeploy) -> str | None:
        """Bind the deploy if the run still waits for it; returns the run's id then. Raises Moved."""
        effects = bind_deploy(self.scope.open(unit), deploy, unit.now)
        self.scope.carry_out(unit, effects)
        return self.scope.run_id if effects else None
