"""Which cases and slots wake an automation, and the receipts they get (G-104, R-AUT-20 to R-AUT-22).

Each function takes plain states and `now`, and returns the events that follow, by stream id. It records nothing
itself: whoever calls it holds the locks of every stream whose state it passed, and appends all of the events or none.
"""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import msgspec

from statemachines.contracts.cron import latest_firing, parse_cron
from statemachines.contracts.policy import Authority, CaseTrigger, Policy, require_enabled, require_listed
from statemachines.kernel.machine import Event
from statemachines.runs import claim as claims
from statemachines.runs import lease as leases
from statemachines.runs import receipt as machine
from statemachines.runs import receipt as receipts
from statemachines.runs.materiality import CaseFacts, Check, MaterialityDecision, decide_materiality, require_material
from statemachines.runs.refusals import difference
from statemachines.runs.run import Run
from statemachines.runs.steps.book import Effects, digest, merge, overdue

SkipCode = Literal[
    "materiality_not_met",
    "environment_not_observed",
    "receipt_open",
    "case_already_claimed",
    "run_live",
    "merged_waits_for_deploy",
    "cooldown",
    "budget_exhausted",
    "max_cases_per_sweep",
    "suppressed",
]
"""Why a case got no receipt this time."""
FREE = "free"


class Chain(NamedTuple):
    """The latest chain of a case as its lease points to it: initial states where there is none.

    `deployed_at` is the first trusted deploy to where the automation heals since people merged its pull request with
    commits of their own, if any (G-186).
    """

    lease: leases.Lease
    receipt: machine.ReceiptState
    claim: claims.Claim
    run: Run
    deployed_at: int | None = None

    @property
    def merged_at(self) -> int | None:
        """When such a merge was recorded."""
        merged = self.run.sight("merged")
        return None if merged is None else merged.recorded_at


class Evidence(NamedTuple):
    """What a case receipt shows beside the facts that decide: neither is an input to any decision."""

    fingerprint: str
    level: str


class CaseJudgement(NamedTuple):
    """What was made of one case for one automation, complete enough to be made again (R-AUT-22, G-137).

    `checks` are those of materiality, then those of its chain up to the first that failed; `code` says why the case is
    passed over, None that it may get a receipt.
    """

    decision: MaterialityDecision
    checks: list[Check]
    code: SkipCode | None


def occupied(chain: Chain, authority_of: Callable[[str], Authority], case: CaseFacts, now: int) -> SkipCode | None:
    """What still holds the case at `now`: a live run, a live claim, an open receipt; None when it is free.

    `authority_of` tells where any automation of the contract stands.
    """
    lease = chain.lease
    if lease.status is leases.Status.UNUSED:
        return None
    if chain.receipt.run_id is not None:
        over = not chain.run.live or overdue(chain.run, chain.claim, lease, now) is not None
        return None if over else "run_live"
    authority = authority_of(lease.automation_id)
    live = claims.lease_live(chain.claim, lease, now)
    if chain.receipt.over or receipts.settle(
        chain.receipt, authority, (case.status, case.revision), claim_live=live, now=now
    ):
        return "case_already_claimed" if live else None
    return "case_already_claimed" if chain.receipt.status is receipts.Status.CLAIMED else "receipt_open"


def judge_case(
    chain: Chain,
    authority_of: Callable[[str], Authority],
    automation_id: str,
    case: CaseFacts,
    now: int,
    *,
    observed: bool,
) -> CaseJudgement:
    """Judge one case for one automation (R-AUT-22, G-104). Raises PauseInForce, AutomationOff, AutomationNotFound.

    `observed` says whether the case has an error in the environment that the automation heals: a fix of any other
    could not be verified there (G-134).
    """
    policy = require_listed(authority_of(automation_id))
    decision = decide_materiality(case, case_trigger(policy).materiality, now)
    if not decision.passed:
        return CaseJudgement(decision, decision.checks, "materiality_not_met")
    where = "observed" if observed else "not_observed"
    checks = [*decision.checks, Check("environment", observed, where, "observed")]
    if not observed:
        return CaseJudgement(decision, checks, "environment_not_observed")
    for code, check in _check_chain(chain, authority_of, automation_id, policy, case, now):
        checks.append(check)
        if not check.passed:
            return CaseJudgement(decision, checks, code)
    return CaseJudgement(decision, checks, None)


def _check_chain(
    chain: Chain,
    authority_of: Callable[[str], Authority],
    automation_id: str,
    policy: Policy,
    case: CaseFacts,
    now: int,
) -> Iterator[tuple[SkipCode, Check]]:
    """What a case that matters is asked next, each with the code of its failure; ask no further after the first."""
    held = occupied(chain, authority_of, case, now)
    yield held or "run_live", Check("case_free", held is None, held or FREE, FREE)
    if chain.merged_at is not None:
        seen, deployed = case.last_seen_at, chain.deployed_at
        over = seen is not None and deployed is not None and seen > deployed
        required = "deployed" if deployed is None else f">{deployed}"
        yield (
            "merged_waits_for_deploy",
            Check("error_after_deploy", over, None if seen is None else str(seen), required),
        )
    cooldown, worked_at = case_trigger(policy).cooldown_seconds, worked_until(chain, now)
    since = None if worked_at is None else now - worked_at
    over = since is None or since >= cooldown
    yield "cooldown", Check("cooldown_over", over, None if since is None else str(since), f">={cooldown}")
    attempts, limit = (
        chain.lease.attempts_of(automation_id, case.revision),
        policy.limits.max_attempts_per_case_revision,
    )
    yield "budget_exhausted", Check("attempts_left", attempts < limit, str(attempts), f"<{limit}")


def worked_until(chain: Chain, now: int) -> int | None:
    """When a runner last had the case: its latest claim, or the end of a run after it (G-188).

    None for a case that was never claimed. A receipt alone is no work on it.
    """
    return _latest(chain.lease.claimed_at, _ended_at(chain, now))


def _ended_at(chain: Chain, now: int) -> int | None:
    """The end of the case's latest run, of the chain or before it."""
    return _latest(chain.lease.run_ended_at, _run_end(chain, now))


def _latest(*moments: int | None) -> int | None:
    return max((moment for moment in moments if moment is not None), default=None)


def _run_end(chain: Chain, now: int) -> int | None:
    """The end of the chain's run, recorded or not. None without a run or while it goes on."""
    if chain.receipt.run_id is None or not chain.run.live:
        return chain.run.finished_at
    over = overdue(chain.run, chain.claim, chain.lease, now)
    return None if over is None else over.since


def steady_until(judgement: CaseJudgement, chain: Chain, policy: Policy, now: int) -> int | None:
    """Until when time alone leaves a judgement of `now` as it is; None: for ever, while nothing happens to the case.

    No promise beyond the next second for a case that somebody holds. A case that only came after others stays so.
    """
    if judgement.code in {"case_already_claimed", "run_live"} or chain.receipt.claim_id is not None:
        return now + 1
    trigger, seen, worked_at = case_trigger(policy), judgement.decision.inputs.last_seen_at, worked_until(chain, now)
    moments = [
        None if seen is None else seen,
        None if seen is None else seen + trigger.materiality.maximum_last_seen_age_seconds + 1,
        None if worked_at is None else worked_at + trigger.cooldown_seconds,
        None if chain.receipt.status is receipts.Status.ABSENT else chain.receipt.expires_at,
    ]
    return min((moment for moment in moments if moment is not None and moment > now), default=None)


def pass_over(judgement: CaseJudgement, limit: int) -> CaseJudgement:
    """Judge a case that may get a receipt, but comes after as many others as one look offers."""
    check = Check("max_cases_per_sweep", passed=False, observed=None, required=f"<={limit}")
    return CaseJudgement(judgement.decision, [*judgement.checks, check], "max_cases_per_sweep")


def suppress(judgement: CaseJudgement, rule_id: str) -> CaseJudgement:
    """Judge a case that may get a receipt, but that a rule takes out of attention."""
    check = Check("not_suppressed", passed=False, observed=rule_id, required=FREE)
    return CaseJudgement(judgement.decision, [*judgement.checks, check], "suppressed")


def case_trigger(policy: Policy) -> CaseTrigger:
    """The case trigger of a policy; every policy has either this or a schedule."""
    assert policy.case_trigger is not None, "a scheduled automation was asked for cases"
    return policy.case_trigger


def issue_case_receipt(
    project_id: str,
    authority: Authority,
    chain: Chain,
    decision: MaterialityDecision,
    evidence: Evidence,
    now: int,
) -> tuple[str, Effects]:
    """Offer a case that judge_case found to matter. Returns the receipt's id and the events."""
    case, ordinal = decision.inputs, chain.lease.ordinal + 1
    receipt_id = receipts.case_receipt_id(project_id, authority.automation_id, case.case_id, case.revision, ordinal)
    snapshot = machine.CaseSnapshot(
        case_id=case.case_id,
        case_revision=case.revision,
        fingerprint=evidence.fingerprint,
        level=evidence.level,
        status=case.status,
        trust=case.trust,
        event_count=case.event_count,
        first_seen_at=case.first_seen_at,
        last_seen_at=case.last_seen_at,
    )
    issued = _issued(authority, receipt_id, now, now + receipts.CASE_RECEIPT_SECONDS, case=snapshot, decision=decision)
    offered = leases.LeaseOffered(
        case.case_id, case.revision, authority.automation_id, receipt_id, ordinal, now, _ended_at(chain, now)
    )
    return receipt_id, {receipt_id: [issued], leases.lease_id(project_id, case.case_id): [offered]}


def issue_schedule_receipt(
    project_id: str, authority: Authority, receipt: machine.ReceiptState, scheduled_for: int, now: int
) -> tuple[str, Effects]:
    """Issue the one receipt of an open slot; a slot that has one already is left alone (R-AUT-20, P14)."""
    schedule = require_listed(authority).schedule_trigger
    assert schedule is not None, "an automation woken by cases was asked for a slot"
    receipt_id = receipts.schedule_receipt_id(project_id, authority.automation_id, scheduled_for)
    ends = scheduled_for + schedule.start_window_seconds
    if receipt.status is not receipts.Status.ABSENT or not scheduled_for <= now < ends:
        return receipt_id, {}
    slot = machine.Slot(scheduled_for, ends, scheduled_for - schedule.period_days * 86400, scheduled_for)
    return receipt_id, {receipt_id: [_issued(authority, receipt_id, now, ends, slot=slot)]}


def latest_slot(authority: Authority, now: int) -> int:
    """The latest slot of a scheduled automation at `now`. Raises what require_listed raises."""
    schedule = require_listed(authority).schedule_trigger
    assert schedule is not None, "an automation woken by cases has no slots"
    return latest_firing(parse_cron(schedule.cron), schedule.timezone, now)


def _issued(
    authority: Authority,
    receipt_id: str,
    now: int,
    expires_at: int,
    *,
    case: machine.CaseSnapshot | None = None,
    slot: machine.Slot | None = None,
    decision: MaterialityDecision | None = None,
) -> machine.ReceiptIssued:
    policy = require_listed(authority)
    snapshot = {
        "receipt_id": receipt_id,
        "automation_id": authority.automation_id,
        "policy_sha256": authority.policy_sha256,
        "contract_revision": authority.contract_revision,
        "case": case,
        "schedule": slot,
        "materiality": decision,
        "issued_at": now,
        "expires_at": expires_at,
    }
    return machine.ReceiptIssued(
        receipt_kind="unhandled_case" if slot is None else "schedule",
        automation_id=authority.automation_id,
        playbook=policy.playbook,
        policy_sha256=authority.policy_sha256,
        contract_revision=authority.contract_revision,
        generation=authority.generation,
        case=case,
        slot=slot,
        materiality=decision,
        snapshot_sha256=digest(snapshot),
        issued_at=now,
        expires_at=expires_at,
    )


# Taking the case of a receipt, and giving it back: receipt, lease and claim in one unit (G-105). Like every decision
# across streams it takes plain states and `now`, and returns the events by stream id.


class ClaimCase(msgspec.Struct, frozen=True, kw_only=True):
    """A runner's wish to hold the exact revision of a case."""

    project_id: str
    case_id: str
    receipt_id: str
    case_revision: int
    holder: claims.Holder


class Release(NamedTuple):
    """A wish to end a claim: the runner with its epoch, or an owner (`holder` None), with a reason."""

    holder: claims.Holder | None
    lease_epoch: int | None
    reason: str | None


class CaseClaimed(NamedTuple):
    """A claim that its runner holds. A repeat of it has no decision and no events."""

    claim_id: str
    decision: MaterialityDecision | None
    effects: Effects


def claim_case(
    command: ClaimCase,
    *,
    receipt: machine.ReceiptState,
    lease: leases.Lease,
    current: claims.Claim,
    authority: Authority,
    case: CaseFacts,
    now: int,
) -> CaseClaimed:
    """Claim the case of an open receipt (G-105), if it still matters enough (G-188).

    `current` is the claim that the receipt or the lease names. Raises ReceiptNotFound, AutomationMismatch,
    PauseInForce, AutomationOff, ReceiptOver, ReceiptPolicySuperseded, CaseRevisionStale,
    CaseAlreadyClaimed, ReceiptNotClaimable, ReceiptOfAnotherCase, MaterialityNotMet (details hold the checks).
    """
    if receipt.status is receipts.Status.ABSENT:
        raise machine.ReceiptNotFound(
            "There is no such receipt.", next_action="List the trigger receipts of the project."
        )
    claims.require_own(receipt.automation_id, command.holder)
    if receipt.case is None or receipt.case.case_id != command.case_id:
        raise machine.ReceiptOfAnotherCase(
            "The receipt is not for this case.", next_action=("Read the receipt, which names its case.")
        )
    held = claims.lease_live(current, lease, now)
    if held and (current.receipt_id, current.runner_id) == (command.receipt_id, command.holder.runner_id):
        if command.case_revision != current.case_revision:
            raise machine.CaseRevisionStale(
                "The claim holds the case at another revision.",
                next_action="Read the active claim of the case, and continue with its revision.",
                **difference("case_revision", current.case_revision, command.case_revision),
            )
        claim_id = claims.claim_id(command.project_id, command.case_id, current.lease_epoch)
        return CaseClaimed(claim_id, None, {})
    policy = require_enabled(authority)
    machine.require_standing(receipt, authority, case, held=held, now=now)
    if command.case_revision != case.revision:
        raise machine.stale_case()
    if held:
        raise leases.CaseAlreadyClaimed("Another claim holds the case.", next_action="Wait until that claim has ended.")
    if receipt.status is not receipts.Status.ISSUED or lease.receipt_id != command.receipt_id:
        raise machine.ReceiptNotClaimable(
            "The receipt cannot be claimed.", next_action="Wait for a new receipt for this case."
        )
    decision = require_material(case, case_trigger(policy).materiality, now)
    epoch = lease.epoch + 1
    claim_id = claims.claim_id(command.project_id, command.case_id, epoch)
    created = claims.ClaimCreated(
        case_id=command.case_id,
        case_revision=case.revision,
        automation_id=receipt.automation_id,
        runner_id=command.holder.runner_id,
        receipt_id=command.receipt_id,
        lease_epoch=epoch,
        claimed_at=now,
        lease_expires_at=now + claims.LEASE_SECONDS,
    )
    effects: Effects = {
        command.receipt_id: [receipts.ReceiptClaimed(claim_id, now)],
        leases.lease_id(command.project_id, command.case_id): [leases.LeaseTaken(claim_id, epoch, now)],
        claim_id: [created],
    }
    return CaseClaimed(claim_id, decision, effects)


def release_claim(
    claim_id: str, claim: claims.Claim, receipt: machine.ReceiptState, lease: leases.Lease, release: Release, now: int
) -> Effects:
    """Release a claim, and close its receipt when no run began under it. Raises what decide_release raises."""
    released = claims.decide_release(claim, lease, release.holder, release.lease_epoch, release.reason, now)
    return merge({claim_id: released, claim.receipt_id: _close(receipt, claim_id, now)})


def settle_claim(
    claim_id: str, claim: claims.Claim, receipt: machine.ReceiptState, lease: leases.Lease, now: int
) -> Effects:
    """What time has made of a claim and the receipt under it by `now`."""
    expired = claims.settle(claim, lease, now)
    return merge({claim_id: expired, claim.receipt_id: _close(receipt, claim_id, now)}) if expired else {}


def _close(receipt: machine.ReceiptState, claim_id: str, now: int) -> list[Event]:
    open_under_it = receipt.status is receipts.Status.CLAIMED and receipt.claim_id == claim_id
    return [receipts.ReceiptClosed("claim_ended", now)] if open_under_it else []
