"""What a runner does in its run before and beside its grants: progress, the pull request, handing over.

Every runner command passes the same gates in the same order: the run is open, the runner is of its automation, the kill
switches are off (unless the command only reduces authority), and the fencing token is that of now.
"""

from typing import Literal, NoReturn

import msgspec
from msgspec import UNSET, UnsetType

from statemachines.contracts.policy import Authority, Policy, require_enabled
from statemachines.kernel.machine import Rejection
from statemachines.reports import FunnelPlan, plan_of
from statemachines.runs import claim as claims
from statemachines.runs import events as e
from statemachines.runs import lease as leases
from statemachines.runs import ledger as ledgers
from statemachines.runs import receipt as machine
from statemachines.runs import receipt as receipts
from statemachines.runs import run as runs
from statemachines.runs.materiality import CaseFacts, MaterialityDecision, require_material
from statemachines.runs.refusals import PrProofMismatch, difference
from statemachines.runs.steps.book import (
    Book,
    Effects,
    FencingToken,
    carried,
    merge,
    require_automation,
    require_current,
    require_not_rejected,
    require_open,
)
from statemachines.runs.steps.end_run import end_run, find_follow_ups, resume
from statemachines.runs.steps.offer import case_trigger


class ReportedPullRequest(msgspec.Struct, frozen=True):
    """The pull request as its runner names it."""

    number: int
    url: str
    head_sha: str


def enter(book: Book, token: FencingToken, now: int, *, reduces_authority: bool = False) -> tuple[Book, Effects]:
    """Pass the gates of a runner command. Returns the book with a lapsed review and a rest ended, and their events.

    Raises what require_open, require_automation, require_enabled and require_current raise.
    """
    require_open(book, now)
    require_automation(book.run, token.holder)
    if not reduces_authority:
        require_enabled(book.authority, book.run.policy_sha256)
    require_current(book, token, now)
    effects = resume(book, now)
    return carried(book, effects), effects


def not_allowed(book: Book) -> runs.RunTransitionNotAllowed:
    """Build the refusal of a step that the run's phase does not have."""
    run = book.run
    return runs.RunTransitionNotAllowed(
        "The phase of the run does not allow this.",
        next_action="Read the run and follow its next_action.",
        phase=run.status.phase,
        status=run.status.outcome,
    )


def decide_progress(book: Book, token: FencingToken, now: int) -> Effects:
    """Say that the work has begun; nothing when it had. Raises what enter raises, RunTransitionNotAllowed."""
    book, effects = enter(book, token, now)
    match book.run.status:
        case runs.Status.RUNNING:
            return effects
        case runs.Status.STARTED:
            return merge(effects, {book.run_id: [e.RunProgressed(now)]})
        case _:
            raise not_allowed(book)


def _not_granted(field: str, expected: object, actual: object) -> PrProofMismatch:
    return PrProofMismatch(
        "The pull request is not the one that was granted.",
        next_action="Report the pull request of the grant.",
        **difference(field, expected, actual),
    )


def _other_pr(known: e.PullRequest, named: tuple[int, str, str]) -> PrProofMismatch:
    """Build the refusal of another pull request than the run has, by the first thing that differs."""
    has = (known.number, known.url, known.head_sha)
    field, expected, actual = next(
        found for found in zip(("number", "url", "head_sha"), has, named, strict=True) if found[1] != found[2]
    )
    return _not_granted(field, expected, actual)


def decide_report_pr(book: Book, token: FencingToken, reported: ReportedPullRequest, now: int) -> Effects:
    """Take a runner's word that the granted pull request is open; a CI has yet to prove it.

    Raises what enter raises, RunTransitionNotAllowed, PrProofMismatch.
    """
    book, effects = enter(book, token, now)
    run, grant = book.run, book.run.draft_grant
    if run.status not in runs.AWAITING_DEPLOY or grant is None:
        raise not_allowed(book)
    known = run.pull_request
    named = (reported.number, reported.url, reported.head_sha)
    if known is not None and (known.number, known.url, known.head_sha) == named:
        return effects
    if known is not None:
        raise _other_pr(known, named)
    if reported.head_sha != grant.head_sha:
        raise _not_granted("head_sha", grant.head_sha, reported.head_sha)
    pull_request = e.PullRequest(
        number=reported.number,
        url=reported.url,
        head_branch=grant.head_branch,
        base_branch=run.terms.base_branch,
        head_sha=grant.head_sha,
        draft=run.terms.delivery.mode == "review_required",
        grant_id=grant.grant_id,
    )
    return merge(effects, {book.run_id: [e.RunPrReported(pull_request, now)]})


class HandOver(msgspec.Struct, frozen=True):
    """How a runner ends its run, and why; the summary is its own account, for people to read."""

    outcome: Literal["failed", "escalated"]
    reason: str
    summary_md: str | None = None


def refuse_step(book: Book, token: FencingToken, now: int) -> NoReturn:
    """Refuse a step that no run has, after the gates that every runner command passes.

    Raises what enter raises, else RunTransitionNotAllowed.
    """
    book, _ = enter(book, token, now, reduces_authority=True)
    raise not_allowed(book)


def decide_hand_over(book: Book, token: FencingToken, hand_over: HandOver, now: int) -> Effects:
    """End the run by its runner's own word. Open while paused, for it only reduces authority (G-114).

    Raises what enter raises, RunTransitionNotAllowed, ActionNotApproved.
    """
    book, effects = enter(book, token, now, reduces_authority=True)
    run = book.run
    if run.status is runs.Status.VERIFYING:
        raise not_allowed(book)
    if hand_over.outcome == "escalated":
        require_not_rejected(run, "escalate")
    outside = run.status in runs.AWAITING_DEPLOY
    kinds = {
        ("failed", False): e.RunFailed,
        ("failed", True): e.RunFailedOutside,
        ("escalated", False): e.RunEscalated,
        ("escalated", True): e.RunEscalatedOutside,
    }
    event = kinds[hand_over.outcome, outside](
        reason=hand_over.reason,
        cause=None,
        command_key_sha256=None,
        follow_ups=find_follow_ups(run),
        at=now,
        summary_md=hand_over.summary_md,
    )
    return merge(effects, end_run(book, event, now, revoke_claim=False))


# Starting the one run of a receipt: receipt, claim, lease, ledger and run in one unit (G-106, R-AUT-27, R-AUT-28).
# Like every decision across streams it takes plain states and `now`, and returns the events by stream id.


class ClaimRequiredForRun(Rejection):
    """A case receipt starts a run only for the runner whose claim on it is live (G-106)."""

    code = "claim_required_for_run"


class StartRun(msgspec.Struct, frozen=True, kw_only=True):
    """A runner's wish to begin the one run of a receipt (R-AUT-27)."""

    project_id: str
    receipt_id: str
    holder: claims.Holder


def start_run(
    command: StartRun,
    *,
    receipt: machine.ReceiptState,
    claim: claims.Claim,
    lease: leases.Lease,
    ledger: ledgers.Ledger,
    authority: Authority,
    case: CaseFacts | None,
    mapped: str | None = None,
    now: int,
) -> tuple[str, Effects]:
    """Consume the receipt, create the run, open its account and charge run and attempt, as one (R-AUT-28).

    `case` is None for a schedule; `mapped` is the environment of the approved signal map, which holds where the policy
    names none (G-134). Raises ReceiptNotFound, AutomationMismatch, ReceiptAlreadyConsumed, PauseInForce, AutomationOff,
    ReceiptOver, ReceiptPolicySuperseded, CaseRevisionStale, ClaimRequiredForRun, MaterialityNotMet (details hold the
    decision), BudgetExhausted.
    """
    if receipt.status is receipts.Status.ABSENT:
        raise machine.ReceiptNotFound(
            "There is no such receipt.", next_action="List the trigger receipts of the project."
        )
    claims.require_own(receipt.automation_id, command.holder)
    if receipt.status is receipts.Status.CONSUMED:
        raise machine.ReceiptAlreadyConsumed(
            "The receipt has started its run already.", next_action="Read the run it names.", run_id=receipt.run_id
        )
    policy = require_enabled(authority)
    if not authority.upholds(receipt.generation):
        raise machine.ReceiptPolicySuperseded(
            "The contract has changed since the receipt was issued.", next_action="Wait for a new receipt."
        )
    if case is None:
        return _start_scheduled(command, receipt, policy, ledger, mapped, now)
    held = claims.lease_live(claim, lease, now) and claim.receipt_id == command.receipt_id
    if receipt.status is receipts.Status.ISSUED or not held or claim.runner_id != command.holder.runner_id:
        raise ClaimRequiredForRun(
            "A run of a case begins under the caller's own live claim.",
            next_action="Claim the case of the receipt first.",
        )
    machine.require_standing(receipt, authority, case, held=held, now=now)
    decision = require_material(case, case_trigger(policy).materiality, now)
    attempts, limit = (
        lease.attempts_of(receipt.automation_id, case.revision),
        policy.limits.max_attempts_per_case_revision,
    )
    if attempts >= limit:
        raise ledgers.exhausted("max_attempts_per_case_revision", limit, attempts, 1, None)
    run_id, effects = _begin(command, receipt, _terms(policy, mapped), ledger, claim, decision, now)
    spent = leases.LeaseSpent(run_id, receipt.automation_id, case.revision, now)
    effects[leases.lease_id(command.project_id, case.case_id)] = [spent]
    bound = claims.ClaimBound(run_id, now + policy.limits.max_runtime_seconds)
    effects[claims.claim_id(command.project_id, case.case_id, claim.lease_epoch)] = [bound]
    return run_id, effects


def _start_scheduled(
    command: StartRun,
    receipt: machine.ReceiptState,
    policy: Policy,
    ledger: ledgers.Ledger,
    mapped: str | None,
    now: int,
) -> tuple[str, Effects]:
    if receipt.status is receipts.Status.EXPIRED or now >= receipt.expires_at:
        raise machine.ReceiptOver("The receipt has expired.", next_action="Wait for the receipt of the next slot.")
    if receipt.status is not receipts.Status.ISSUED:
        raise machine.ReceiptNotClaimable("The receipt is over.", next_action="Wait for the receipt of the next slot.")
    return _begin(command, receipt, _terms(policy, mapped, _review(policy, receipt)), ledger, None, None, now)


def _review(policy: Policy, receipt: machine.ReceiptState) -> FunnelPlan | UnsetType:
    """What the report is about: the policy's events over the period of the receipt's slot, and the one before it."""
    plan, slot = policy.review, receipt.slot
    if plan is None or slot is None:
        return UNSET
    return plan_of(plan.events, plan.minimum_sample_size, slot.period_start, slot.period_end)


def _terms(policy: Policy, mapped: str | None, review: FunnelPlan | UnsetType = UNSET) -> e.Terms:
    """The part of the policy that the run is held to."""
    return e.Terms(
        playbook=policy.playbook,
        limits=policy.limits,
        delivery=policy.delivery,
        verification=policy.verification,
        repository=policy.repository,
        base_branch=policy.default_branch,
        environment=policy.place(mapped),
        scope=policy.scope,
        review=review,
    )


def _begin(
    command: StartRun,
    receipt: machine.ReceiptState,
    terms: e.Terms,
    ledger: ledgers.Ledger,
    claim: claims.Claim | None,
    decision: MaterialityDecision | None,
    now: int,
) -> tuple[str, Effects]:
    run_id = runs.run_id(command.project_id, command.receipt_id)
    started = e.RunStarted(
        automation_id=receipt.automation_id,
        policy_sha256=receipt.policy_sha256,
        terms=terms,
        receipt_id=command.receipt_id,
        case_id=None if claim is None else claim.case_id,
        case_revision=None if claim is None else claim.case_revision,
        claim_id=receipt.claim_id,
        runner_id=command.holder.runner_id,
        lease_epoch=1 if claim is None else claim.lease_epoch,
        started_at=now,
        deadline_at=now + terms.limits.max_runtime_seconds,
    )
    return run_id, {
        command.receipt_id: [receipts.ReceiptConsumed(run_id, decision, now)],
        ledgers.ledger_id(command.project_id, receipt.automation_id): ledgers.decide_charge_run(
            ledger, terms.limits, run_id, now
        ),
        run_id: [started],
    }


# What a runner is about to use is charged to its automation's budgets before it is used (R-AUT-35).


class Usage(msgspec.Struct, frozen=True):
    """What a runner is about to use."""

    amounts: ledgers.Amounts
    label: str | None = None


_CHARGED: dict[runs.Status, type[e.Charge]] = {
    runs.Status.STARTED: e.RunCharged,
    runs.Status.RUNNING: e.RunCharged,
    runs.Status.IN_REVIEW: e.RunChargedInReview,
    runs.Status.PROOF_PENDING: e.RunChargedAwaitingProof,
    runs.Status.PR_OPENED: e.RunChargedAwaitingDeploy,
}


def decide_usage(book: Book, token: FencingToken, usage: Usage, now: int) -> Effects:
    """Charge what is about to be used, all of it or nothing (R-AUT-35).

    Raises what enter raises, RunTransitionNotAllowed, BudgetExhausted.
    """
    book, effects = enter(book, token, now)
    charged = _CHARGED.get(book.run.status)
    if charged is None:
        raise not_allowed(book)
    amounts = usage.amounts
    charges = ledgers.decide_charge_usage(book.ledger, book.run.terms.limits, book.run_id, amounts, now)
    event = charged(amounts.turns, amounts.cost_usd, amounts.runtime_seconds, usage.label, now)
    return merge(effects, {book.ledger_id: charges, book.run_id: [event]})
