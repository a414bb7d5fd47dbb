"""Grants: authorize one bounded effect, then spend it once (G-109, R-AUT-31, R-AUT-32, R-AUT-38..41).

Exact repeats are answered first, whatever has happened since: the same binding names its standing grant, and every
consume after the first may only reconcile. Nothing here merges: the second grant turns on the provider's own
auto-merge, after a CI proved readiness of the exact head.
"""

from typing import NamedTuple

import msgspec
from msgspec import UNSET

from statemachines.contracts.policy import Policy, require_enabled
from statemachines.runs import approval as approvals
from statemachines.runs import events as e
from statemachines.runs import grant as grants
from statemachines.runs import ledger as ledgers
from statemachines.runs import run as runs
from statemachines.runs.change_scope import ScopeViolation, find_violations, to_details
from statemachines.runs.refusals import DeliveryModeMismatch, PrProofMismatch, PrProofRequired, difference
from statemachines.runs.steps.advance_run import enter, not_allowed
from statemachines.runs.steps.book import (
    Book,
    Effects,
    FencingToken,
    digest,
    is_open,
    merge,
    require_automation,
    require_not_rejected,
    require_open,
)
from statemachines.runs.steps.end_run import begin_rest, rest_after, rest_claim

_SPENT = frozenset({grants.Status.CONSUMED, grants.Status.SETTLED, grants.Status.UNRESOLVED})


class Consumed(NamedTuple):
    """The answer to a consume: only the first may call the provider."""

    call_authorized: bool
    effects: Effects


def _standing(book: Book, kind: e.GrantKind, now: int) -> runs.GrantRef | None:
    """The latest grant of a kind, if it stands or was spent."""
    ref = book.run.grant(kind)
    if ref is None:
        return None
    grant = book.grant(ref.grant_id)
    if grant.status in _SPENT:
        return ref
    if grant.status is not grants.Status.AUTHORIZED:
        return None
    lapsed = grants.settle(grant, book.authority, run_live=is_open(book, now), now=now)
    return None if lapsed else ref


def _admit(book: Book, token: FencingToken, kind: e.GrantKind, now: int) -> tuple[Book, Effects, Policy]:
    """Pass the gates of a grant call: those of every runner command, and what people have said."""
    book, effects = enter(book, token, now)
    if book.run.status is runs.Status.IN_REVIEW:
        raise approvals.ApprovalPending(
            "A person has not decided yet.", next_action="Wait for the decision, then read the run."
        )
    require_not_rejected(book.run, kind)
    return book, effects, require_enabled(book.authority)


def _approval_id(run: runs.Run, kind: e.GrantKind) -> str | None:
    return next((ref.approval_id for ref in run.approvals if ref.action == kind and ref.outcome == "approved"), None)


def _differs() -> grants.GrantAlreadyAuthorized:
    return grants.GrantAlreadyAuthorized(
        "The run has a grant for another change.", next_action="Use that grant, or let it expire unconsumed."
    )


def _mode_differs(message: str, field: str, expected: str | None, actual: str) -> DeliveryModeMismatch:
    return DeliveryModeMismatch(
        message, next_action="Deliver the change as the policy says.", **difference(field, expected, actual)
    )


def authorize_draft_pr(
    book: Book, token: FencingToken, binding: grants.DraftPrBinding, now: int
) -> tuple[str, Effects]:
    """Reserve one pull request for one exact change. Returns the grant's id; no events for the same change again.

    Raises what enter raises, ApprovalPending, ApprovalRejected, GrantAlreadyAuthorized, RunTransitionNotAllowed,
    DeliveryModeMismatch, ScopeViolation, BudgetExhausted.
    """
    require_runner_of(book, token)
    sha256 = digest(binding)
    standing = _standing(book, "draft_pr", now)
    if standing is not None and standing.binding_sha256 == sha256:
        return standing.grant_id, {}
    book, effects, policy = _admit(book, token, "draft_pr", now)
    if standing is not None:
        raise _differs()
    run = book.run
    if run.status not in {runs.Status.STARTED, runs.Status.RUNNING} or policy.case_trigger is None:
        raise not_allowed(book)
    if binding.delivery_mode != policy.delivery.mode:
        wanted = policy.delivery.mode
        raise _mode_differs("The policy delivers code in another mode.", "delivery_mode", wanted, binding.delivery_mode)
    if violations := find_violations(policy, binding):
        raise ScopeViolation(
            "The change leaves the approved scope.",
            next_action="Keep the change within the policy's repository, paths, limits and tests.",
            violations=to_details(violations),
        )
    grant_id = grants.grant_id(book.run_id, "draft_pr", run.state_revision)
    generation = book.authority.generation
    reserved = ledgers.decide_reserve_pr(book.ledger, policy.limits, grant_id, generation, grants.GRANT_SECONDS, now)
    authorized = grants.GrantAuthorized(
        grant_kind="draft_pr",
        run_id=book.run_id,
        automation_id=run.automation_id,
        generation=generation,
        draft_pr=binding,
        auto_merge=None,
        binding_sha256=sha256,
        approval_id=_approval_id(run, "draft_pr"),
        state_revision=run.state_revision + 1,
        authorized_at=now,
        expires_at=now + grants.GRANT_SECONDS,
    )
    noted = e.RunDraftPrAuthorized(
        grant_id, generation, sha256, binding.head_branch, binding.head_sha, authorized.expires_at, now
    )
    return grant_id, merge(effects, {grant_id: [authorized], book.ledger_id: reserved, book.run_id: [noted]})


def authorize_auto_merge(
    book: Book, token: FencingToken, binding: grants.AutoMergeBinding, now: int
) -> tuple[str, Effects]:
    """Reserve the provider's auto-merge of the proven pull request. Returns the grant's id; no events for a repeat.

    Raises what enter raises, ApprovalPending, ApprovalRejected, GrantAlreadyAuthorized, RunTransitionNotAllowed,
    DeliveryModeMismatch, PrProofRequired, PrProofMismatch.
    """
    require_runner_of(book, token)
    sha256 = digest(binding)
    standing = _standing(book, "auto_merge", now)
    if standing is not None and standing.binding_sha256 == sha256:
        return standing.grant_id, {}
    book, effects, policy = _admit(book, token, "auto_merge", now)
    if standing is not None:
        raise _differs()
    run = book.run
    if policy.case_trigger is None:
        raise not_allowed(book)
    if policy.delivery.mode != "auto_merge":
        raise _mode_differs("The policy leaves merging to people.", "delivery_mode", policy.delivery.mode, "auto_merge")
    if binding.merge_method != policy.delivery.merge_method:
        method = policy.delivery.merge_method
        raise _mode_differs("The policy merges by another method.", "merge_method", method, binding.merge_method)
    ready = run.proof("checks_passed")
    if ready is None:
        raise PrProofRequired(
            "Readiness of the pull request has not been proven.",
            next_action="Let CI prove checks_passed for this head first.",
        )
    if run.status is not runs.Status.PR_OPENED:
        raise not_allowed(book)
    for field in ("pr_number", "head_sha"):
        proven, named = getattr(ready, field), getattr(binding, field)
        if proven != named:
            raise PrProofMismatch(
                "The pull request is not the one that was proven ready.",
                next_action="Name the proven pull request.",
                **difference(field, proven, named),
            )
    grant_id = grants.grant_id(book.run_id, "auto_merge", run.state_revision)
    generation = book.authority.generation
    authorized = grants.GrantAuthorized(
        grant_kind="auto_merge",
        run_id=book.run_id,
        automation_id=run.automation_id,
        generation=generation,
        draft_pr=None,
        auto_merge=binding,
        binding_sha256=sha256,
        approval_id=_approval_id(run, "auto_merge"),
        state_revision=run.state_revision + 1,
        authorized_at=now,
        expires_at=now + grants.GRANT_SECONDS,
    )
    branch = run.draft_grant.head_branch if run.draft_grant is not None else ""
    noted = e.RunAutoMergeAuthorized(grant_id, generation, sha256, branch, binding.head_sha, authorized.expires_at, now)
    return grant_id, merge(effects, {grant_id: [authorized], book.run_id: [noted]})


def consume(book: Book, token: FencingToken, kind: e.GrantKind, grant_id: str, now: int) -> Consumed:
    """Spend a grant: the call-start, committed before any I/O. Whatever comes after the first only reconciles.

    Raises what enter raises, ApprovalPending, ApprovalRejected, GrantNotAvailable.
    """
    require_runner_of(book, token)
    ref = book.run.grant(kind)
    if ref is None or ref.grant_id != grant_id:
        raise grants.GrantNotAvailable(
            "The run has no such grant.", next_action="Authorize the change again, while the policy allows it."
        )
    grant = book.grant(grant_id)
    if grant.status in _SPENT:
        return Consumed(call_authorized=False, effects={})
    book, effects, _ = _admit(book, token, kind, now)
    spent = grants.decide_consume(grant, book.authority, book.run.state_revision + 1, now)
    started: Effects = {grant_id: spent}
    if kind == "auto_merge":
        started[book.run_id] = [e.RunAutoMergeConsumed(grant_id, now)]
    else:
        generation = book.authority.generation
        started[book.ledger_id] = ledgers.decide_settle_pr(book.ledger, grant_id, generation, now)
        started[book.run_id] = [e.RunDraftPrConsumed(grant_id, now)]
    return Consumed(call_authorized=True, effects=merge(effects, started))


def require_runner_of(book: Book, token: FencingToken) -> None:
    """Refuse a missing run, and a runner of another automation, before an exact repeat is recognised."""
    if book.run.status is runs.Status.ABSENT:
        raise runs.RunNotFound("There is no such run.", next_action="List the runs of the project.")
    require_automation(book.run, token.holder)


# A runner asks a person, and an owner decides: approval and run in one unit (G-108).


class RequestApproval(msgspec.Struct, frozen=True):
    """A runner's question to a person. `evidence_json` is canonical JSON text."""

    action: e.Action
    summary: str
    evidence_json: str | None = None


def standing_request(run: runs.Run, action: e.Action) -> runs.ApprovalRef | None:
    """Return the request for an action that is pending or was granted: asking again changes nothing."""
    return next((ref for ref in run.approvals if ref.action == action and ref.outcome in {"pending", "approved"}), None)


def decide_request(book: Book, token: FencingToken, request: RequestApproval, now: int) -> tuple[str, Effects]:
    """Ask a person. Returns the request's id, and no events when the same question is open or was answered yes.

    Raises what enter raises, RunTransitionNotAllowed, ActionNotApproved.
    """
    require_open(book, now)
    require_automation(book.run, token.holder)
    standing = standing_request(book.run, request.action)
    if standing is not None and _still_stands(book, standing, now):
        return standing.approval_id, {}
    book, effects = enter(book, token, now)
    require_not_rejected(book.run, request.action)
    if book.run.status not in runs.BEFORE_EFFECT:
        raise not_allowed(book)
    if book.run.case_id is None and request.action != "escalate":
        raise runs.RunTransitionNotAllowed(
            "The playbook of the run does not have this action.",
            next_action="Request an action of the run's playbook. A person cannot approve another one.",
            **difference("action", "escalate", request.action),
        )
    approval_id = approvals.approval_id(book.run_id, book.run.state_revision)
    expires_at = now + approvals.APPROVAL_SECONDS
    generation = book.authority.generation
    requested = approvals.ApprovalRequested(
        run_id=book.run_id,
        automation_id=book.run.automation_id,
        action=request.action,
        generation=generation,
        summary=request.summary,
        evidence_json=request.evidence_json,
        requested_at=now,
        expires_at=expires_at,
    )
    rest = begin_rest(book, expires_at, now)
    asked = e.RunApprovalRequested(
        approval_id, request.action, generation, expires_at, now, UNSET if rest is None else rest
    )
    rested = rest_claim(book, rest, now)
    return approval_id, merge(effects, {approval_id: [requested], book.run_id: [asked]}, rested)


def _still_stands(book: Book, ref: runs.ApprovalRef, now: int) -> bool:
    if ref.outcome == "approved":
        return True
    approval = book.approval(ref.approval_id)
    return not approvals.settle(approval, book.authority, run_live=True, now=now)


def decide_approval(book: Book, approval_id: str, decision: approvals.OwnerDecision, now: int) -> Effects:
    """Record an owner's word, and let the run go on when it was the last one pending (G-108).

    Raises ApprovalNotFound, ApprovalOfEndedRun, ApprovalAlreadyDecided.
    """
    approval, run = book.approval(approval_id), book.run
    state, goes_on = approval, is_open(book, now)
    if not goes_on and approval.status not in {approvals.Status.ABSENT, *approvals.DECIDED}:
        raise approvals.ApprovalOfEndedRun(
            "The run of this request is over.", next_action="Read the run for its outcome. Nothing is left to decide."
        )
    for event in approvals.settle(approval, book.authority, run_live=goes_on, now=now):
        state = approvals.evolve(state, event)
    if approval.status is approvals.Status.PENDING and state.status is not approvals.Status.PENDING:
        raise approvals.ApprovalAlreadyDecided(
            "The request is no longer open.",
            next_action="Read the run. Make a new request for a new decision.",
            status=state.status.value,
        )
    events = approvals.decide_answer(approval, decision, now)
    if not events:
        return {}
    outcome: e.ApprovalOutcome = "approved" if decision.approve else "rejected"
    others = any(ref.approval_id != approval_id for ref in run.pending_approvals)
    settled = e.RunApprovalSettled if others else e.RunReviewEnded
    rest = rest_after(run, approval_id, now)
    decided = settled(approval_id, outcome, now, UNSET if rest is None else rest.until)
    return merge({approval_id: events, book.run_id: [decided]}, rest_claim(book, rest, now))
