"""Commands on a run, as declared plans: whoever carries them out opens one book, decides, and appends all of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from projections.runs.approval import ApprovalRow
from projections.runs.grant import GrantRow
from projections.runs.run import RunRow
from service.eventstore.commands import Unit
from service.runs import books
from service.runs.books import RunScope
from service.runs.chains import Plan
from statemachines.cases import case
from statemachines.runs import approval, grant
from statemachines.runs.approving import RequestApproval, decide_approval, decide_request
from statemachines.runs.book import Book, Effects, FencingToken
from statemachines.runs.closing import CancelRun, decide_cancel, settle_grant, settle_run
from statemachines.runs.events import GrantKind, Verdict
from statemachines.runs.grant import AutoMergeBinding, DraftPrBinding
from statemachines.runs.granting import Consumed, authorize_auto_merge, authorize_draft_pr, consume
from statemachines.runs.pr_proof import ObservedPr, record_proof
from statemachines.runs.running import (
    HandOver,
    ReportedPullRequest,
    Usage,
    decide_hand_over,
    decide_progress,
    decide_report_pr,
    decide_usage,
    refuse_step,
)
from statemachines.runs.verification import Counts, verify_run

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ran(Generic[T]):
    """What a command on a run came to, and the book after it. `changed` is false when it recorded nothing."""

    result: T
    book: Book
    changed: bool


def _plan(scope: RunScope, act: Callable[[Book, int], tuple[T, Effects]]) -> Plan[Ran[T]]:
    def decide(unit: Unit) -> Ran[T]:
        result, effects = act(scope.open(unit), unit.now)
        return Ran(result, scope.carry_out(unit, effects), bool(effects))

    return Plan(scope.streams, scope.reads, decide)


def plan_progress(row: RunRow, token: FencingToken) -> Plan[Ran[None]]:
    """Say that the work has begun."""
    return _plan(RunScope.of(row), lambda book, now: (None, decide_progress(book, token, now)))


def plan_report_pr(row: RunRow, token: FencingToken, reported: ReportedPullRequest) -> Plan[Ran[None]]:
    """Report the pull request that was opened."""
    return _plan(RunScope.of(row), lambda book, now: (None, decide_report_pr(book, token, reported, now)))


def plan_hand_over(row: RunRow, token: FencingToken, hand_over: HandOver) -> Plan[Ran[None]]:
    """End the run as failed, or hand it over to people."""
    return _plan(RunScope.of(row), lambda book, now: (None, decide_hand_over(book, token, hand_over, now)))


def plan_refusal(row: RunRow, token: FencingToken) -> Plan[Ran[None]]:
    """Refuse a step that no run has."""
    return _plan(RunScope.of(row), lambda book, now: refuse_step(book, token, now))


def plan_usage(row: RunRow, token: FencingToken, usage: Usage) -> Plan[Ran[None]]:
    """Charge what is about to be used."""
    return _plan(RunScope.of(row), lambda book, now: (None, decide_usage(book, token, usage, now)))


def plan_request(row: RunRow, token: FencingToken, request: RequestApproval) -> Plan[Ran[str]]:
    """Ask a person; the result is the approval's id."""
    scope = RunScope.of(row, new_approval=approval.approval_id(row.id, token.state_revision))
    return _plan(scope, lambda book, now: decide_request(book, token, request, now))


def plan_decision(row: RunRow, approval_id: str, verdict: approval.OwnerDecision) -> Plan[Ran[None]]:
    """Record an owner's word on a request."""
    scope = RunScope.of(row, new_approval=approval_id)
    return _plan(scope, lambda book, now: (None, decide_approval(book, approval_id, verdict, now)))


def plan_draft_pr(row: RunRow, token: FencingToken, binding: DraftPrBinding) -> Plan[Ran[str]]:
    """Authorize one pull request; the result is the grant's id."""
    scope = RunScope.of(row, new_grant=grant.grant_id(row.id, "draft_pr", token.state_revision))
    return _plan(scope, lambda book, now: authorize_draft_pr(book, token, binding, now))


def plan_auto_merge(row: RunRow, token: FencingToken, binding: AutoMergeBinding) -> Plan[Ran[str]]:
    """Authorize the provider's auto-merge; the result is the grant's id."""
    scope = RunScope.of(row, new_grant=grant.grant_id(row.id, "auto_merge", token.state_revision))
    return _plan(scope, lambda book, now: authorize_auto_merge(book, token, binding, now))


def plan_consume(row: RunRow, token: FencingToken, kind: GrantKind, grant_id: str) -> Plan[Ran[bool]]:
    """Spend a grant; the result is whether the provider may be called."""

    def act(book: Book, now: int) -> tuple[bool, Effects]:
        consumed: Consumed = consume(book, token, kind, grant_id, now)
        return consumed.call_authorized, consumed.effects

    return _plan(RunScope.of(row), act)


def plan_proof(row: RunRow, observed: ObservedPr) -> Plan[Ran[str]]:
    """Take in what a CI observed; the result is the proof's id."""

    def act(book: Book, now: int) -> tuple[str, Effects]:
        settled = record_proof(book, observed, now)
        return settled.proof_id, settled.effects

    return _plan(RunScope.of(row), act)


def plan_verify(row: RunRow, counts: Counts) -> Plan[Ran[Verdict]]:
    """Judge what was counted since the run's deploy; success closes the case (G-050, G-111)."""
    scope = RunScope.of(row)
    stream = None if row.case_id is None else books.case_stream(row.project_id, row.case_id)

    def decide(unit: Unit) -> Ran[Verdict]:
        verdict, effects = verify_run(scope.open(unit), counts, unit.now)
        if verdict.passed and effects and stream is not None:
            unit.append(stream, case.decide_resolve(unit.state(stream), row.id, unit.now))
        return Ran(verdict, scope.carry_out(unit, effects), bool(effects))

    return Plan([*scope.streams, *([] if stream is None else [stream])], scope.reads, decide)


def plan_cancel(row: RunRow, command: CancelRun) -> Plan[Ran[None]]:
    """Withdraw service authority over the run."""
    return _plan(RunScope.of(row), lambda book, now: (None, decide_cancel(book, command, now)))


def plan_settle_run(row: RunRow) -> Plan[Ran[None]]:
    """Record what time has made of a run (G-119)."""
    return _plan(RunScope.of(row), lambda book, now: (None, settle_run(book, now)))


def plan_settle_grant(row: RunRow, grant_row: GrantRow) -> Plan[Ran[None]]:
    """Record what has become of a grant (G-119)."""
    return _plan(
        RunScope.of(row, new_grant=grant_row.id), lambda book, now: (None, settle_grant(book, grant_row.id, now))
    )


def plan_settle_approval(row: RunRow, approval_row: ApprovalRow) -> Plan[Ran[None]]:
    """Record what has become of a request, and end the review when it was the last (G-119)."""

    def act(book: Book, now: int) -> tuple[None, Effects]:
        effects = settle_run(book, now)
        if approval_row.id in effects:
            return None, effects
        lapsed = approval.settle(book.approval(approval_row.id), book.authority, run_live=book.run.live, now=now)
        return None, {approval_row.id: lapsed} if lapsed else {}

    return _plan(RunScope.of(row, new_approval=approval_row.id), act)
