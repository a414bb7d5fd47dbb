"""Receipts, leases, claims, runs, approvals, grants, ledgers and decisions as rows."""

from typing import Literal

import msgspec

from projections.kernel import Row, Table, header, projection
from statemachines.contracts.policy import Thresholds
from statemachines.kernel.machine import Recorded
from statemachines.runs import approval, claim, grant, lease, ledger, patch, pull_request, receipt, run
from statemachines.runs.materiality import CaseFacts, Check
from statemachines.runs.run import Run
from statemachines.runs.steps.offer import SkipCode

# Trigger receipts as reads show them, and the evidence kept beside them (G-104).


class TriggerReceiptRow(Row, frozen=True, kw_only=True):
    """A receipt as recorded; its expiry is computed when it is read."""

    automation_id: str
    kind: str
    status: str
    case_id: str | None
    claim_id: str | None
    run_id: str | None
    issued_at: int
    expires_at: int
    state: receipt.ReceiptState


class TriggerEvidenceRow(msgspec.Struct, frozen=True, kw_only=True):
    """The title of the case at issue: telemetry, hence a fact outside the stream. `id` is the receipt's."""

    project_id: str
    id: str
    title: str


def fold_receipt(row: TriggerReceiptRow | None, recorded: Recorded) -> TriggerReceiptRow:
    """Fold an event of a receipt into its row."""
    state = receipt.MACHINE.evolve(receipt.MACHINE.initial if row is None else row.state, recorded.event)
    return TriggerReceiptRow(
        **header(recorded),
        automation_id=state.automation_id,
        kind=state.kind,
        status=state.status.value,
        case_id=None if state.case is None else state.case.case_id,
        claim_id=state.claim_id,
        run_id=state.run_id,
        issued_at=state.issued_at,
        expires_at=state.expires_at,
        state=state,
    )


RECEIPTS = projection("trigger_receipts", TriggerReceiptRow, ("trc",), fold_receipt)
TRIGGER_EVIDENCE = Table("trigger_evidence", TriggerEvidenceRow)


# The leases of cases as reads find them: where the latest receipt, claim and run of a case are (G-105).


class LeaseRow(Row, frozen=True, kw_only=True):
    """The lease of a case: where its latest receipt, claim and run are found."""

    case_id: str
    receipt_id: str | None
    claim_id: str | None
    run_id: str | None
    state: lease.Lease


def fold_lease(row: LeaseRow | None, recorded: Recorded) -> LeaseRow:
    """Fold an event of a lease into its row."""
    state = lease.MACHINE.evolve(lease.MACHINE.initial if row is None else row.state, recorded.event)
    return LeaseRow(
        **header(recorded),
        case_id=state.case_id,
        receipt_id=state.receipt_id,
        claim_id=state.claim_id,
        run_id=state.run_id,
        state=state,
    )


LEASES = projection("leases", LeaseRow, ("lease",), fold_lease)


# Claims as reads show them (G-105).


class ClaimRow(Row, frozen=True, kw_only=True):
    """A claim as recorded; a lease that time has ended is worked out when it is read."""

    case_id: str
    automation_id: str
    runner_id: str
    receipt_id: str
    run_id: str | None
    status: str
    claimed_at: int
    lease_expires_at: int
    state: claim.Claim


def fold_claim(row: ClaimRow | None, recorded: Recorded) -> ClaimRow:
    """Fold an event of a claim into its row."""
    state = claim.MACHINE.evolve(claim.MACHINE.initial if row is None else row.state, recorded.event)
    return ClaimRow(
        **header(recorded),
        case_id=state.case_id,
        automation_id=state.automation_id,
        runner_id=state.runner_id,
        receipt_id=state.receipt_id,
        run_id=state.run_id,
        status=state.status.value,
        claimed_at=state.claimed_at,
        lease_expires_at=state.lease_expires_at,
        state=state,
    )


CLAIMS = projection("claims", ClaimRow, ("claim",), fold_claim)


# Automation runs as reads show them, and as deploys and sweeps find them (G-106).


class RunRow(Row, frozen=True, kw_only=True):
    """A run as recorded. `phase` and `outcome` are what clients see; `live` is false once the run is over.

    `proven_commit` is the commit whose deploy the run waits for, null while it waits for none.
    """

    automation_id: str
    runner_id: str
    receipt_id: str
    claim_id: str | None
    case_id: str | None
    phase: str
    outcome: str | None
    live: bool
    proven_commit: str | None
    started_at: int
    deadline_at: int
    state: Run


def fold_run(row: RunRow | None, recorded: Recorded) -> RunRow:
    """Fold an event of a run into its row."""
    state = run.MACHINE.evolve(run.MACHINE.initial if row is None else row.state, recorded.event)
    return RunRow(
        **header(recorded),
        automation_id=state.automation_id,
        runner_id=state.runner_id,
        receipt_id=state.receipt_id,
        claim_id=state.claim_id,
        case_id=state.case_id,
        phase=state.status.phase,
        outcome=state.status.outcome,
        live=state.live,
        proven_commit=state.proven_commit if state.live and state.deploy is None else None,
        started_at=state.started_at,
        deadline_at=state.deadline_at,
        state=state,
    )


RUNS = projection("automation_runs", RunRow, ("run",), fold_run)


# Approvals as reads show them (G-108).


class ApprovalRow(Row, frozen=True, kw_only=True):
    """A request as recorded; its expiry is computed when it is read."""

    run_id: str
    automation_id: str
    status: str
    requested_at: int
    expires_at: int
    state: approval.Approval


def fold_approval(row: ApprovalRow | None, recorded: Recorded) -> ApprovalRow:
    """Fold an event of an approval into its row."""
    state = approval.MACHINE.evolve(approval.MACHINE.initial if row is None else row.state, recorded.event)
    return ApprovalRow(
        **header(recorded),
        run_id=state.run_id,
        automation_id=state.automation_id,
        status=state.status.value,
        requested_at=state.requested_at,
        expires_at=state.expires_at,
        state=state,
    )


APPROVALS = projection("approvals", ApprovalRow, ("appr",), fold_approval)


# Grants as reads show them (G-109).


class GrantRow(Row, frozen=True, kw_only=True):
    """A grant as recorded; its expiry is computed when it is read."""

    run_id: str
    automation_id: str
    kind: str
    status: str
    authorized_at: int
    expires_at: int
    state: grant.Grant


def fold_grant(row: GrantRow | None, recorded: Recorded) -> GrantRow:
    """Fold an event of a grant into its row."""
    state = grant.MACHINE.evolve(grant.MACHINE.initial if row is None else row.state, recorded.event)
    return GrantRow(
        **header(recorded),
        run_id=state.run_id,
        automation_id=state.automation_id,
        kind=state.kind,
        status=state.status.value,
        authorized_at=state.authorized_at,
        expires_at=state.expires_at,
        state=state,
    )


GRANTS = projection("grants", GrantRow, ("grant",), fold_grant)


# Ledgers as control shows them: what counts against the daily budgets of an automation (G-102, G-107).


class LedgerRow(Row, frozen=True, kw_only=True):
    """The daily budgets of one automation; what has left the window is computed when it is read.

    Of a run only the time of its charge is kept, in epoch seconds: the row is written with every charge.
    """

    clock: int
    runs: list[int]
    prs: list[ledger.Reservation]

    @property
    def ledger(self) -> ledger.Ledger:
        """The ledger, without what single runs have used."""
        return ledger.Ledger(
            ledger.Status.OPEN, self.clock, [ledger.RunAccount("", charged_at) for charged_at in self.runs], self.prs
        )


def fold_ledger(row: LedgerRow | None, recorded: Recorded) -> LedgerRow:
    """Fold an event of a ledger into its row."""
    state = ledger.MACHINE.evolve(ledger.MACHINE.initial if row is None else row.ledger, recorded.event)
    return LedgerRow(
        **header(recorded),
        clock=state.clock,
        runs=[run.charged_at for run in state.runs],
        prs=state.prs,
    )


LEDGERS = projection("ledgers", LedgerRow, ("led",), fold_ledger)


# Pull requests as CI observed them, and who has had a patch (G-172).


class PullRequestRow(Row, frozen=True, kw_only=True):
    """A pull request as it was seen last."""

    repository: str
    pr_number: int
    status: str
    verdict: str
    run_id: str | None
    observed_at: int
    state: pull_request.ObservedPullRequest


def fold_pull_request(row: PullRequestRow | None, recorded: Recorded) -> PullRequestRow:
    """Fold an event of a pull request into its row."""
    machine = pull_request.MACHINE
    state = machine.evolve(machine.initial if row is None else row.state, recorded.event)
    seen = state.seen
    assert seen is not None, "the first event of a pull request is that it was seen"
    return PullRequestRow(
        **header(recorded),
        repository=seen.repository,
        pr_number=seen.pr_number,
        status=state.status.value,
        verdict=seen.verdict,
        run_id=seen.run_id,
        observed_at=seen.seen_at,
        state=state,
    )


PULL_REQUESTS = projection("pull_requests", PullRequestRow, ("pull",), fold_pull_request)


class PatchRow(Row, frozen=True, kw_only=True):
    """The newest holders of a patch."""

    holders: list[patch.PatchHolder]

    @property
    def state(self) -> patch.Patch:
        """The state of the patch."""
        return patch.Patch(patch.Status.USED, self.holders)


def fold_patch(row: PatchRow | None, recorded: Recorded) -> PatchRow:
    """Fold a use of a patch into its row."""
    state = patch.MACHINE.evolve(patch.MACHINE.initial if row is None else row.state, recorded.event)
    return PatchRow(**header(recorded), holders=state.holders)


PATCHES = projection("patches", PatchRow, ("patch",), fold_patch)


# Decisions as they are kept: why a case was offered, started on or passed over, each time the answer changed
# (G-137). Facts outside streams, like the counters of a case: what telemetry makes of a case by the minute is no
# event, and no rebuild knows of it. No column holds a text of telemetry.

Stage = Literal["issue", "claim", "start"]
LookKind = Literal["sweep", "issue", "claim", "start"]


class DecisionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One decision on one case for one automation. `outcome` is equal for two that say the same (outcome_of).

    `look` is what looked and `asked_by` the kind of caller behind it; `code` is None for a case that passed;
    `receipt_id` is None where the decision is about no receipt. Times are epoch seconds.
    """

    project_id: str
    id: str
    automation_id: str
    case_id: str
    case_revision: int
    stage: Stage
    look: LookKind
    asked_by: str
    code: SkipCode | None
    outcome: str
    receipt_id: str | None
    policy_sha256: str
    decided_at: int
    inputs: CaseFacts
    thresholds: Thresholds
    checks: list[Check]
    age_seconds: int | None
    material: bool


DECISIONS = Table("automation_decisions", DecisionRow)
