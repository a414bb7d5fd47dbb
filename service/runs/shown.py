"""What clients see of runs, receipts, claims, requests and grants, as they truly stand now (G-104 to G-113, R-AUT-46).

Every `next_action` is one of the fixed sentences below. Nothing that telemetry, a provider or a
runner wrote is ever part of one (R-GEN-13, threat 14).
"""

from decimal import Decimal
from typing import Any, Literal, cast

import msgspec

from projections.runs import RunRow
from schemas.cases.case import VerificationStatistics
from schemas.contracts import playbook as playbook_wire
from schemas.kernel.shape import shape_from
from schemas.runs import approval as approval_wire
from schemas.runs import approval as grant_wire
from schemas.runs import decision as wire
from schemas.runs import receipt as claim_wire
from schemas.runs import receipt as trigger_wire
from schemas.runs import run as run_wire
from service.runs.backtesting import Backtest
from service.runs.decision import decision, next_step
from service.runs.past_facts import PastFacts
from statemachines import reports
from statemachines.contracts.contract import Contract, authority_of, policy_of
from statemachines.contracts.documents import Document
from statemachines.contracts.policy import Delivery, Limits, require_enabled
from statemachines.runs import grant as grants
from statemachines.runs import receipt as receipts
from statemachines.runs.approval import Approval
from statemachines.runs.change_scope import PROTECTED_DIRECTORIES, PROTECTED_FILES
from statemachines.runs.claim import Claim
from statemachines.runs.claim import Status as ClaimStatus
from statemachines.runs.events import FollowUp, OverdueCause, Proof, Seen
from statemachines.runs.ledger import WINDOW_SECONDS, Amounts, plain, remaining
from statemachines.runs.receipt import ReceiptState
from statemachines.runs.run import Run
from statemachines.runs.statistics import LEVELS, missing_exposure, rate_ratio, say
from statemachines.runs.steps.book import Book, is_resting, runner_may_act
from statemachines.runs.verdict import Sample, Verdict

# What clients see of receipts, claims, requests and grants, as they truly stand now (G-104, G-105, G-108, G-109).

_RECEIPT_NEXT = {
    receipts.Status.ISSUED: "Claim the case of this receipt at its case_revision, then start the run.",
    receipts.Status.CLAIMED: "The claiming runner starts the run with this receipt.",
    receipts.Status.CONSUMED: "Read the run that consumed_run_id names.",
}
_RECEIPT_OVER = "Nothing can begin from this receipt. Wait for a new one."
_SLOT_NEXT = "Start the run with this receipt before expires_at."
_CLAIM_NEXT = "Renew before lease_expires_at, and start the run with the receipt."
_CLAIM_RUNNING = "Renew before lease_expires_at while its run goes on, up to the deadline of the run."
_CLAIM_OVER = "The claim has ended. Wait for a new receipt for this case."
_APPROVAL_NEXT = {
    "pending": "An owner decides with approve or reject before expires_at. The run rests until its runner is back, "
    "at most 24 hours after the decision."
}
_APPROVAL_OVER = "Read the run for its next step."
_GRANT_NEXT = {
    grants.Status.AUTHORIZED: "Consume the grant before expires_at, then call the provider once.",
    grants.Status.CONSUMED: "The provider may have been called: look there for the result, and let CI prove it.",
    grants.Status.UNRESOLVED: "Inspect the provider. CI can still prove the result.",
}
_CALL_NOW = "Call the provider once, now. A CI credential proves the result."
RECONCILE = "Do not call the provider again. Check the result of the first call there, and let CI prove it."
_GRANT_OVER = "The grant is over."
_GRANT_TOO_LATE = "The grant cannot be consumed any more: the lease or the deadline of the run has passed."


def receipt(project_id: str, receipt_id: str, state: ReceiptState, title: str | None) -> trigger_wire.TriggerReceipt:
    """Show a receipt as it stands now. `title` is the evidence kept beside it."""
    case, slot, decision = state.case, state.slot, state.issued_materiality
    following = _SLOT_NEXT if slot is not None and state.status is receipts.Status.ISSUED else None
    return shape_from(
        trigger_wire.TriggerReceipt,
        state,
        receipt_id=receipt_id,
        project_id=project_id,
        status=cast("trigger_wire.ReceiptStatus", state.status.value),
        case=None
        if case is None
        else msgspec.convert({**msgspec.structs.asdict(case), "title": title}, trigger_wire.ReceiptCase),
        schedule=None if slot is None else msgspec.convert(msgspec.structs.asdict(slot), trigger_wire.ReceiptSchedule),
        materiality=None
        if decision is None
        else trigger_wire.ReceiptMateriality(
            minimum_event_count=decision.thresholds.minimum_event_count,
            maximum_last_seen_age_seconds=decision.thresholds.maximum_last_seen_age_seconds,
            age_seconds=decision.age_seconds,
        ),
        consumed_run_id=state.run_id,
        next_action=following or _RECEIPT_NEXT.get(state.status, _RECEIPT_OVER),
        origins=trigger_wire.RECEIPT_ORIGINS,
    )


def claim(project_id: str, claim_id: str, state: Claim) -> claim_wire.Claim:
    """Show a claim as it stands now."""
    return shape_from(
        claim_wire.Claim,
        state,
        claim_id=claim_id,
        project_id=project_id,
        trigger_receipt_id=state.receipt_id,
        status=cast("Literal['active']", state.status.value),
        next_action=_claim_next(state),
        origins=claim_wire.CLAIM_ORIGINS,
    )


def _claim_next(state: Claim) -> str:
    if state.status is not ClaimStatus.ACTIVE:
        return _CLAIM_OVER
    return _CLAIM_NEXT if state.run_id is None else _CLAIM_RUNNING


def approval(project_id: str, approval_id: str, state: Approval) -> approval_wire.Approval:
    """Show a request as it stands now."""
    evidence = None if state.evidence_json is None else msgspec.json.decode(state.evidence_json)
    return shape_from(
        approval_wire.Approval,
        state,
        approval_id=approval_id,
        project_id=project_id,
        evidence=evidence,
        status=cast("approval_wire.ApprovalStatus", state.status.value),
        next_action=_APPROVAL_NEXT.get(state.status.value, _APPROVAL_OVER),
        origins=approval_wire.APPROVAL_ORIGINS,
    )


def requested_approval(book: Book, approval_id: str) -> approval_wire.RequestedApproval:
    """Show a request to the runner that made it, with the revision that its next command names."""
    shown = approval(book.project_id, approval_id, book.approval(approval_id))
    members = {name: getattr(shown, name) for name in shown.__struct_fields__}
    members |= {"state_revision": book.run.state_revision, "origins": approval_wire.REQUESTED_ORIGINS}
    return approval_wire.RequestedApproval(**members)


def _grant(project_id: str, grant_id: str, state: grants.Grant) -> dict[str, Any]:
    bound = state.draft_pr if state.draft_pr is not None else state.auto_merge
    return {
        "grant_id": grant_id,
        "project_id": project_id,
        "run_id": state.run_id,
        "automation_id": state.automation_id,
        "kind": state.kind,
        "status": state.status.value,
        "binding": msgspec.convert(msgspec.to_builtins(bound), grant_wire.GrantBinding),
        "approval_id": state.approval_id,
        "authorized_at": state.authorized_at,
        "expires_at": state.expires_at,
        "consumed_at": state.consumed_at,
        "settled_at": state.settled_at,
        "state_revision": state.state_revision,
        "next_action": _GRANT_NEXT.get(state.status, _GRANT_OVER),
        "origins": grant_wire.GRANT_ORIGINS,
    }


def grant(project_id: str, grant_id: str, state: grants.Grant, *, too_late: bool = False) -> grant_wire.Grant:
    """Show a grant as it stands now. `too_late`: nobody may act under the lease or deadline of its run any more."""
    members = _grant(project_id, grant_id, state)
    if too_late and state.status is grants.Status.AUTHORIZED:
        members["next_action"] = _GRANT_TOO_LATE
    return grant_wire.Grant(**members)


def consumed(book: Book, grant_id: str, *, call_authorized: bool) -> grant_wire.ConsumedGrant:
    """Answer a call-start (R-AUT-32)."""
    members = _grant(book.project_id, grant_id, book.grant(grant_id))
    members |= {"state_revision": book.run.state_revision, "origins": grant_wire.CONSUMED_ORIGINS}
    if call_authorized:
        members["next_action"] = _CALL_NOW
    elif book.grant(grant_id).status is not grants.Status.SETTLED:
        members["next_action"] = RECONCILE
    return grant_wire.ConsumedGrant(**members, call_authorized=call_authorized, reconcile_only=not call_authorized)


# What clients see of a run, as it truly stands now, in the shapes of the wire (G-106, G-107, G-111, G-113,
# R-AUT-46). Every `next_action` and `instruction` is a fixed sentence, here or in next_step; nothing a runner or
# provider wrote is part of one.

_REASONS: dict[OverdueCause | None, str] = {
    "lease_expired": "The lease of the run ended before its runner renewed it.",
    "deadline_exceeded": "The run reached its deadline.",
    "claim_not_active": "The claim of the run was released.",
    "deploy_overdue": "No deploy of the proven commit came in time.",
}
_INSTRUCTIONS = {
    "inspect_pull_request": "Find out whether the pull request exists, and close it if it is not wanted.",
    "inspect_ci": "Find out whether CI runs for this commit, and stop it if it is not wanted.",
    "inspect_auto_merge": "Find out whether auto-merge is on, and turn it off if it is not wanted.",
    "inspect_deploy": "Find out whether the deploy should stay. The service rolls nothing back.",
}


def charges(amounts: Amounts) -> run_wire.Charges:
    """Show amounts as numbers; sums of at most six decimals are exact enough to print as they were added."""
    return run_wire.Charges(amounts.turns, float(amounts.cost_usd), amounts.runtime_seconds)


def usage(book: Book) -> run_wire.UsageRecorded:
    """Answer a charge."""
    run = book.run
    return run_wire.UsageRecorded(
        run_id=book.run_id,
        charges=charges(run.charges),
        remaining=charges(remaining(run.terms.limits, run.charges)),
        state_revision=run.state_revision,
        next_action=next_step(book).words,
        origins=run_wire.USAGE_ORIGINS,
    )


def follow_ups(items: list[FollowUp]) -> list[run_wire.FollowUp]:
    """Show what a person has to inspect."""
    return [
        run_wire.FollowUp(
            kind=item.kind,
            grant_id=item.grant_id,
            reference=item.reference,
            instruction=_INSTRUCTIONS[item.kind],
            # A deploy was named by a trusted CI under an id of this service; what else there is, by the runner.
            origins=run_wire.FOLLOW_UP_ORIGINS
            | ({"/reference": "server_fact"} if item.kind == "inspect_deploy" else {}),
        )
        for item in items
    ]


def run(book: Book, *, idempotent_replay: bool = False) -> run_wire.Run:
    """Show a run with everything around it. The book is that of `as_of`: as things truly stand."""
    state, project_id = book.run, book.project_id
    parts = None if state.claim_id is None else _parts(book.run_id, state)
    limits = state.terms.limits
    deploy = state.deploy
    return shape_from(
        run_wire.Run,
        state,
        run_id=book.run_id,
        project_id=project_id,
        playbook=msgspec.convert(msgspec.structs.asdict(state.terms.playbook), playbook_wire.PlaybookRef),
        trigger_receipt_id=state.receipt_id,
        phase=cast("run_wire.RunPhase", state.status.phase),
        status=cast("run_wire.RunStatus", state.status.outcome),
        lease_expires_at=state.deadline_at if state.claim_id is None else book.claim.lease_expires_at,
        resting=is_resting(book, book.at),
        limits=run_wire.RunLimits(
            limits.max_runs_per_day,
            limits.max_prs_per_day,
            limits.max_attempts_per_case_revision,
            limits.max_turns_per_run,
            limits.max_runtime_seconds,
            float(limits.max_cost_usd_per_run),
        ),
        charges=charges(state.charges),
        approvals=[approval(project_id, ref.approval_id, book.approvals[ref.approval_id]) for ref in state.approvals],
        grants=[
            grant(project_id, ref.grant_id, book.grants[ref.grant_id], too_late=not runner_may_act(book, book.at))
            for ref in state.grants
        ],
        pull_request=_pull_request(state),
        provider_proof=_provider_proof(state),
        auto_merge_receipt=_auto_merge_receipt(state),
        deploy=None if deploy is None else msgspec.convert(msgspec.structs.asdict(deploy), run_wire.RunDeploy),
        verification=verification(state),
        counted_in=_counted_in(state.verdict),
        evidence_source=None if state.verdict is None else state.verdict.source,
        verification_statistics=statistics(state.verdict),
        report_id=book.report_id if book.report.status is reports.Status.RECORDED else None,
        output=_review(book) if parts is None else _output(parts, state),
        output_parts=parts,
        reason=state.reason or _REASONS.get(state.cause),
        external_follow_ups=follow_ups(state.follow_ups),
        idempotent_replay=idempotent_replay,
        next_action=next_step(book).words,
        origins=run_wire.RUN_ORIGINS,
    )


def policy(row: RunRow, contract: Contract) -> run_wire.RunPolicy:
    """Show the policy of a run as it was saved. Raises PauseInForce, AutomationOff."""
    authority = authority_of(contract, row.automation_id)
    require_enabled(authority, row.state.policy_sha256)
    automation = contract.find(row.automation_id)
    assert automation is not None, "an enabled automation is in the contract"
    return run_wire.RunPolicy(
        run_id=row.id,
        project_id=row.project_id,
        automation_id=row.automation_id,
        policy_sha256=authority.policy_sha256,
        policy=msgspec.json.decode(automation.saved.policy),
        protected_files=list(PROTECTED_FILES),
        protected_directories=list(PROTECTED_DIRECTORIES),
        next_action="Keep the change within scope. Run test_commands in their order.",
        origins=run_wire.RUN_POLICY_ORIGINS,
    )


def _pull_request(state: Run) -> run_wire.RunPullRequest | None:
    opened = state.pull_request
    if opened is None:
        return None
    return run_wire.RunPullRequest(
        **msgspec.structs.asdict(opened),
        repository=state.terms.repository,
        delivery_mode=state.terms.delivery.mode,
    )


def _provider_proof(state: Run) -> run_wire.RunProviderProof | None:
    """The latest proof, with the readiness facts of checks_passed once there are any."""
    found: list[Proof | Seen] = [*state.proofs, *state.sights]
    if not found:
        return None
    latest, closed, merged = found[-1], state.sight("closed"), state.sight("merged")
    ready = state.proof("checks_passed") or (state.proofs[-1] if state.proofs else None)
    return shape_from(
        run_wire.RunProviderProof,
        latest,
        required_status_checks=[]
        if ready is None
        else [run_wire.RunCheck(item.name, item.conclusion) for item in ready.required_status_checks],
        branch_protection_enforced=_told("branch_protection_enforced", merged, ready),
        bypass_used=_told("bypass_used", merged, ready),
        auto_merge_enabled=None if ready is None else ready.auto_merge_enabled,
        closed_by=None if closed is None else closed.closed_by,
        changed_by_person=merged is not None,
        commits=merged.commits if merged is not None and isinstance(merged.commits, list) else None,
        ci_run=latest.ci_run,
    )


def _told(fact: str, merged: Seen | None, ready: Proof | None) -> bool | None:
    """A fact of a changed merge, or else the one known before."""
    told = (getattr(source, fact) for source in (merged, ready) if source is not None)
    return next((value for value in told if isinstance(value, bool)), None)


def _auto_merge_receipt(state: Run) -> run_wire.RunAutoMergeReceipt | None:
    proof, granted = state.proof("auto_merge_enabled"), state.merge_grant
    if proof is None or granted is None:
        return None
    return run_wire.RunAutoMergeReceipt(
        grant_id=granted.grant_id,
        proof_id=proof.proof_id,
        pr_number=proof.pr_number,
        head_sha=proof.head_sha,
        merge_method=cast("grant_wire.MergeMethod", proof.merge_method),
        recorded_at=proof.recorded_at,
    )


def sample(counted: Sample) -> run_wire.VerificationSample:
    """Show what was counted."""
    return msgspec.convert(msgspec.to_builtins(counted), run_wire.VerificationSample)


def verification(state: Run, verdict: Verdict | None = None) -> run_wire.Verification | None:
    """Show how the deploy turned out: a verdict just made, the stored one, or pending once a deploy is bound."""
    known = verdict or state.verdict
    if known is not None:
        return run_wire.Verification(outcome=known.outcome, sample=sample(known.sample), passed=known.passed)
    if state.deploy is None:
        return None
    return run_wire.Verification(outcome="pending", sample=None, passed=False)


def _counted_in(verdict: Verdict | None) -> run_wire.CountedIn | None:
    if verdict is None or isinstance(verdict.counted_in, msgspec.UnsetType):
        return None
    place = verdict.counted_in
    return run_wire.CountedIn(
        environment=place.environment, unnamed=place.unnamed, looked_at=place.looked, named=place.named
    )


def statistics(verdict: Verdict | None) -> VerificationStatistics | None:
    """Show how likely a verdict is wrong (G-173). None before one, and where the time before could not be read."""
    if verdict is None or isinstance(verdict.statistics, msgspec.UnsetType):
        return None
    told, asked = verdict.statistics, verdict.maximum_error_probability
    low, high = rate_ratio(told) or (None, None)
    missing = [missing_exposure(told, level) for level in LEVELS]
    return VerificationStatistics(
        **msgspec.structs.asdict(told) | {"error_probability": told.probability},
        maximum_error_probability=None if isinstance(asked, msgspec.UnsetType) else float(asked),
        rate_ratio_low=low,
        rate_ratio_high=high,
        exposure_missing_5_percent=missing[0],
        exposure_missing_1_percent=missing[1],
        sentence=say(told),
    )


def _code_delivery(delivery: Delivery) -> playbook_wire.CodeDelivery:
    if delivery.mode == "review_required":
        return playbook_wire.ReviewRequired()
    return playbook_wire.AutoMerge(
        merge_method=cast("grant_wire.MergeMethod", delivery.merge_method),
        required_status_checks=tuple(delivery.required_status_checks),
        provider_managed=True,
        branch_protection_required=True,
        bypass_forbidden=True,
    )


def _output_proof(state: Run, latest: Proof) -> playbook_wire.OutputProviderProof:
    """The latest proof with the readiness that auto-merge was granted on; people merge without a proof of that."""
    ready = state.proof("checks_passed")
    if ready is None:
        return playbook_wire.OutputProviderProof(
            latest.proof_id, latest.observation, latest.head_sha, (), None, None, None
        )
    return playbook_wire.OutputProviderProof(
        latest.proof_id,
        latest.observation,
        latest.head_sha,
        tuple(playbook_wire.OutputCheck(item.name, item.conclusion) for item in ready.required_status_checks),
        ready.branch_protection_enforced,
        ready.bypass_used,
        ready.auto_merge_enabled,
    )


def _parts(run_id: str, state: Run) -> run_wire.OutputParts:
    """The parts of the output of a repair as far as they came to be, however its run ended (R-AUT-46)."""
    opened, deploy, result = state.pull_request, state.deploy, verification(state)
    merge = _auto_merge_receipt(state)
    counted = None if result is None else result.sample
    return run_wire.OutputParts(
        run_id=run_id,
        status=cast("run_wire.RunStatus | None", state.status.outcome),
        code_delivery=_code_delivery(state.terms.delivery),
        pull_request=None
        if opened is None
        else playbook_wire.OutputPullRequest(
            opened.grant_id, state.terms.delivery.mode, opened.draft, opened.head_branch, opened.head_sha
        ),
        provider_proof=_output_proof(state, state.proofs[-1]) if state.proofs else None,
        auto_merge_receipt=None
        if merge is None
        else playbook_wire.OutputAutoMergeReceipt(merge.grant_id, merge.head_sha, merge.merge_method),
        deploy=None if deploy is None else playbook_wire.OutputDeploy(deploy.deploy_id, deploy.sha, deploy.environment),
        verification=None
        if result is None
        else playbook_wire.OutputVerification(
            outcome=result.outcome,
            sample=None
            if counted is None
            else playbook_wire.OutputSample(counted.event, counted.count, counted.minimum),
            passed=result.passed,
        ),
    )


def _output(parts: run_wire.OutputParts, state: Run) -> playbook_wire.SelfHealingOutput | None:
    """The closed output of R-AUT-46, once the run has its verdict and every other part."""
    if parts.pull_request is None or parts.provider_proof is None or state.verdict is None:
        return None
    return playbook_wire.SelfHealingOutput(
        **{name: getattr(parts, name) for name in playbook_wire.SelfHealingOutput.__struct_fields__}
    )


def _review(book: Book) -> playbook_wire.FunnelReviewOutput | None:
    """The report of a review, once it is recorded, and where it was read along (R-AUT-47)."""
    text = book.report_json
    return None if text is None else msgspec.json.decode(text, type=playbook_wire.FunnelReviewOutput)


def cancelled(book: Book) -> run_wire.CancelledRun:
    """Answer a cancel, or its repeat."""
    state = book.run
    return run_wire.CancelledRun(
        run_id=book.run_id,
        phase=cast("run_wire.RunPhase", state.status.phase),
        status="cancelled",
        state_revision=state.state_revision,
        cancelled_at=state.finished_at or state.updated_at,
        external_follow_ups=follow_ups(state.follow_ups),
        next_action=next_step(book).words,
        origins=run_wire.CANCELLED_ORIGINS,
    )


# A back-test on the wire, with what it assumes and what it could have cost at most.

ASSUMPTIONS = [
    "Every automation of the contract was enabled for the whole period, whatever it still needs today.",
    "No receipt was claimed: each held its case until it expired, and no run changed or closed a case.",
    (
        "The service looked for work at the recorded times: those of the automation with the same "
        "id, or else those of every sweep of the project."
    ),
    "An error in the same second as a look counts as seen.",
    "A case with unknown facts is left out, and another may have come in its place.",
    "Cases changed as they really did, also where a run of another contract closed them.",
]
_NOTHING = (
    "The service did not look for work in this period. It does so for enabled automations only. "
    "Enable one, and try later."
)
_NEXT = "Compare receipts and limits with your expectations, adjust the thresholds and try again."


def backtest(project_id: str, document: Document, past: PastFacts, result: Backtest) -> wire.Backtest:
    """Put the answer together."""
    unknown = [wire.BacktestUnknown(case_id, list(missing)) for case_id, missing in past.unknown]
    if not past.looks:
        unknown.insert(0, wire.BacktestUnknown(None, ["looks"]))
    shown = wire.MAX_SHOWN
    return wire.Backtest(
        project_id=project_id,
        period_start=past.start,
        period_end=past.end,
        looks=result.looks,
        looked_from=past.looks[0].at if past.looks else None,
        looked_until=past.looks[-1].at if past.looks else None,
        considered=result.considered,
        automations=[
            _use(saved.automation_id, policy_of(saved).limits, result.receipts) for saved in document.automations
        ],
        receipts=result.receipts[:shown],
        receipts_truncated=len(result.receipts) > shown,
        decisions=[decision(row) for row in result.decisions[:shown]],
        decisions_truncated=len(result.decisions) > shown,
        unknown=unknown[:shown],
        unknown_truncated=len(unknown) > shown,
        assumptions=ASSUMPTIONS,
        next_action=_NEXT if past.looks else _NOTHING,
    )


def _use(automation_id: str, limits: Limits, receipts: list[wire.BacktestReceipt]) -> wire.BacktestUse:
    """The most that could have been used: a run for each receipt, as many as the windows of a day hold."""
    own = [receipt for receipt in receipts if receipt.automation_id == automation_id]
    span = max((receipt.expires_at for receipt in own), default=0) - min((r.issued_at for r in own), default=0)
    windows = -(-span // WINDOW_SECONDS)
    runs = min(len(own), windows * limits.max_runs_per_day)
    return wire.BacktestUse(
        automation_id=automation_id,
        receipts=len(own),
        max_runs=runs,
        max_prs=min(runs, windows * limits.max_prs_per_day),
        max_cost_usd=plain(runs * Decimal(limits.max_cost_usd_per_run)),
    )
