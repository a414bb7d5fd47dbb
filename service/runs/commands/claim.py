"""Claims: take the case of a receipt, extend the lease, give it back, settle it (G-105, R-AUT-25, R-AUT-26)."""

from __future__ import annotations

from typing import NamedTuple

from projections.runs import ClaimRow, LeaseRow, RunRow
from service.eventstore.declare.commands import Intent, Refused, Unit
from service.runs.commands.scope import (
    ChainScope,
    ClaimScope,
    Part,
    RunScope,
    append_all,
    case_lookups,
    end_immaterial,
    put_decision,
    read_authority,
    read_facts,
)
from statemachines.cases import case as cases
from statemachines.contracts import contract as contracts
from statemachines.kernel.machine import Moved, Stream
from statemachines.runs import claim as claims
from statemachines.runs import receipt as receipts
from statemachines.runs.claim import Holder
from statemachines.runs.materiality import MaterialityNotMet
from statemachines.runs.receipt import ReceiptState
from statemachines.runs.steps import offer
from statemachines.runs.steps.end_run import renew_resting
from statemachines.runs.steps.offer import ClaimCase, Release

_CLOCKS: frozenset[Part] = frozenset({"run", "claim", "approvals"})
"""The parts of a run that a renewal after its review may change."""


class Claimed(NamedTuple):
    """The claim that a runner holds now. `new` is false when it held it before."""

    claim: Stream
    new: bool


def claim(command: ClaimCase, lease: LeaseRow | None) -> Intent[Claimed]:
    """Claim the case of a receipt. When it no longer matters enough, the receipt ends instead (G-188)."""
    project_id, case_id = command.project_id, command.case_id
    scope = ChainScope.of(project_id, case_id, lease)
    receipt = receipts.stream(project_id, command.receipt_id)
    epoch = 1 if lease is None else lease.state.epoch + 1
    new = claims.stream(project_id, claims.claim_id(project_id, case_id, epoch))

    def decide(unit: Unit) -> Claimed | Refused:
        state: ReceiptState = unit.state(receipt)
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


def renew(row: ClaimRow, holder: Holder, lease_epoch: int, run: RunRow | None = None) -> Intent[None]:
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


def _renew_in_run(scope: RunScope, holder: Holder, lease_epoch: int) -> Intent[None]:
    """Extend the lease of a run that may rest: the first renewal after the review ends its rest (G-185)."""

    def decide(unit: Unit) -> None:
        append_all(unit, scope.streams, renew_resting(scope.open(unit), holder, lease_epoch, unit.now))

    return Intent(scope.streams, decide, reads=scope.reads)


def release(row: ClaimRow, wish: Release) -> Intent[None]:
    """Release a claim, and close its receipt when no run began under it."""
    scope = ClaimScope.of(row)

    def decide(unit: Unit) -> None:
        effects = offer.release_claim(
            row.id, unit.state(scope.claim), unit.state(scope.receipt), unit.state(scope.lease), wish, unit.now
        )
        append_all(unit, [scope.claim, scope.receipt], effects)

    return scope.intent(decide)


def settle(row: ClaimRow) -> Intent[None]:
    """Record what time has made of a claim (G-119)."""
    scope = ClaimScope.of(row)

    def decide(unit: Unit) -> None:
        effects = offer.settle_claim(
            row.id, unit.state(scope.claim), unit.state(scope.receipt), unit.state(scope.lease), unit.now
        )
        append_all(unit, [scope.claim, scope.receipt], effects)

    return scope.intent(decide)


def fence(row: ClaimRow) -> Intent[None]:
    """End a claim because its project is being deleted."""
    scope = ClaimScope.of(row)

    def decide(unit: Unit) -> None:
        events = claims.decide_revoke(unit.state(scope.claim), unit.state(scope.lease), unit.now)
        unit.append(scope.claim, events)

    return scope.intent(decide)
