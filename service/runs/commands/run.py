"""Runs: start the one of a receipt, and what its runner, an owner and time do to it from there on (G-106, G-107)."""

from __future__ import annotations

from projections.runs import RunRow, TriggerReceiptRow
from service.eventstore.declare.commands import Intent, Refused, Unit
from service.runs.commands.scope import (
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
from statemachines.cases import case as cases
from statemachines.contracts import contract as contracts
from statemachines.kernel.machine import Moved, Stream
from statemachines.runs import claim as claims
from statemachines.runs import lease as leases
from statemachines.runs import ledger as ledgers
from statemachines.runs import receipt as receipts
from statemachines.runs import run as runs
from statemachines.runs.claim import Claim
from statemachines.runs.lease import Lease
from statemachines.runs.materiality import MaterialityNotMet
from statemachines.runs.receipt import ReceiptState
from statemachines.runs.steps import advance_run
from statemachines.runs.steps.advance_run import HandOver, ReportedPullRequest, StartRun, Usage
from statemachines.runs.steps.book import FencingToken
from statemachines.runs.steps.end_run import CancelRun, decide_cancel, decide_fence_run, settle_run


def start(command: StartRun, row: TriggerReceiptRow) -> Intent[Stream]:
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
        state: ReceiptState = unit.state(receipt)
        if state.claim_id != claim_id:
            raise Moved
        try:
            _, effects = advance_run.start_run(
                command,
                receipt=state,
                claim=read_state(unit, claim, Claim()),
                lease=read_state(unit, lease, Lease()),
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


def report_pr(row: RunRow, token: FencingToken, reported: ReportedPullRequest) -> Intent[Ran[None]]:
    """Report the pull request that was opened."""
    return RunScope.of(row).intent(lambda book, now: (None, advance_run.decide_report_pr(book, token, reported, now)))


def hand_over(row: RunRow, token: FencingToken, wish: HandOver) -> Intent[Ran[None]]:
    """End the run as failed, or hand it over to people."""
    return RunScope.of(row).intent(lambda book, now: (None, advance_run.decide_hand_over(book, token, wish, now)))


def refuse(row: RunRow, token: FencingToken) -> Intent[Ran[None]]:
    """Refuse a step that no run has."""
    return RunScope.of(row).intent(lambda book, now: advance_run.refuse_step(book, token, now))


def charge(row: RunRow, token: FencingToken, usage: Usage) -> Intent[Ran[None]]:
    """Charge what is about to be used."""
    return RunScope.of(row).intent(lambda book, now: (None, advance_run.decide_usage(book, token, usage, now)))


def cancel(row: RunRow, command: CancelRun) -> Intent[Ran[None]]:
    """Withdraw service authority over the run."""
    return RunScope.of(row).intent(lambda book, now: (None, decide_cancel(book, command, now)))


def settle(row: RunRow) -> Intent[Ran[None]]:
    """Record what time has made of a run (G-119)."""
    return RunScope.of(row).intent(lambda book, now: (None, settle_run(book, now)))


def fence(row: RunRow) -> Intent[Ran[None]]:
    """End a run because its project is being deleted."""
    return RunScope.of(row).intent(lambda book, now: (None, decide_fence_run(book, now)))
