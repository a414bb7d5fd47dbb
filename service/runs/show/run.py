"""What clients see of a run, as it truly stands now, in the shapes of the wire (G-106, G-107, G-111, G-113, R-AUT-46).

Every `next_action` and `instruction` is a fixed sentence, here or in next_step; nothing a runner or provider wrote is
part of one.
"""

from __future__ import annotations

from decimal import Decimal
from typing import cast

import msgspec

from projections.runs import RunRow
from schemas.contracts.playbook import (
    AutoMerge,
    CodeDelivery,
    FunnelReviewOutput,
    OutputAutoMergeReceipt,
    OutputCheck,
    OutputDeploy,
    OutputProviderProof,
    OutputPullRequest,
    OutputSample,
    OutputVerification,
    PlaybookRef,
    ReviewRequired,
    SelfHealingOutput,
)
from schemas.runs import approval as grant_wire
from schemas.runs import decision as wire
from schemas.runs import run as run_wire
from schemas.runs.run import RUN_POLICY_ORIGINS, RunPolicy
from service.runs.background.backtesting import Backtest
from service.runs.background.past_facts import PastFacts
from service.runs.show.decision import decision, next_step
from service.runs.show.parts import approval, grant
from statemachines import reports
from statemachines.contracts.contract import Contract, authority_of, policy_of
from statemachines.contracts.documents import Document
from statemachines.contracts.policy import Delivery, Limits, require_enabled
from statemachines.runs.change_scope import PROTECTED_DIRECTORIES, PROTECTED_FILES
from statemachines.runs.events import FollowUp, OverdueCause, Proof, Seen
from statemachines.runs.ledger import WINDOW_SECONDS, Amounts, plain, remaining
from statemachines.runs.run import Run
from statemachines.runs.steps.book import Book, is_resting, runner_may_act
from statemachines.runs.verdict import Sample, Verdict

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
    return run_wire.Run(
        run_id=book.run_id,
        project_id=project_id,
        automation_id=state.automation_id,
        playbook=msgspec.convert(msgspec.structs.asdict(state.terms.playbook), PlaybookRef),
        policy_sha256=state.policy_sha256,
        trigger_receipt_id=state.receipt_id,
        case_id=state.case_id,
        case_revision=state.case_revision,
        claim_id=state.claim_id,
        runner_id=state.runner_id,
        phase=cast("run_wire.RunPhase", state.status.phase),
        status=cast("run_wire.RunStatus", state.status.outcome),
        state_revision=state.state_revision,
        lease_epoch=state.lease_epoch,
        lease_expires_at=state.deadline_at if state.claim_id is None else book.claim.lease_expires_at,
        started_at=state.started_at,
        deadline_at=state.deadline_at,
        resting=is_resting(book, book.at),
        updated_at=state.updated_at,
        finished_at=state.finished_at,
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
        scope_checked=state.scope_checked,
        auto_merge_receipt=_auto_merge_receipt(state),
        deploy=None if deploy is None else msgspec.convert(msgspec.structs.asdict(deploy), run_wire.RunDeploy),
        verification=verification(state),
        counted_in=_counted_in(state.verdict),
        evidence_source=None if state.verdict is None else state.verdict.source,
        report_id=book.report_id if book.report.status is reports.Status.RECORDED else None,
        output=_review(book) if parts is None else _output(parts, state),
        output_parts=parts,
        reason=state.reason or _REASONS.get(state.cause),
        external_follow_ups=follow_ups(state.follow_ups),
        idempotent_replay=idempotent_replay,
        next_action=next_step(book).words,
        origins=run_wire.RUN_ORIGINS,
    )


def policy(row: RunRow, contract: Contract) -> RunPolicy:
    """Show the policy of a run as it was saved. Raises PauseInForce, AutomationOff."""
    authority = authority_of(contract, row.automation_id)
    require_enabled(authority, row.state.policy_sha256)
    automation = contract.find(row.automation_id)
    assert automation is not None, "an enabled automation is in the contract"
    return RunPolicy(
        run_id=row.id,
        project_id=row.project_id,
        automation_id=row.automation_id,
        policy_sha256=authority.policy_sha256,
        policy=msgspec.json.decode(automation.saved.policy),
        protected_files=list(PROTECTED_FILES),
        protected_directories=list(PROTECTED_DIRECTORIES),
        next_action="Keep the change within scope. Run test_commands in their order.",
        origins=RUN_POLICY_ORIGINS,
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
    return run_wire.RunProviderProof(
        proof_id=latest.proof_id,
        observation=latest.observation,
        pr_number=latest.pr_number,
        head_sha=latest.head_sha,
        draft=latest.draft,
        required_status_checks=[]
        if ready is None
        else [run_wire.RunCheck(item.name, item.conclusion) for item in ready.required_status_checks],
        branch_protection_enforced=_told("branch_protection_enforced", merged, ready),
        bypass_used=_told("bypass_used", merged, ready),
        auto_merge_enabled=None if ready is None else ready.auto_merge_enabled,
        closed_by=None if closed is None else closed.closed_by,
        changed_by_person=merged is not None,
        commits=merged.commits if merged is not None and isinstance(merged.commits, list) else None,
        recorded_at=latest.recorded_at,
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


def _code_delivery(delivery: Delivery) -> CodeDelivery:
    if delivery.mode == "review_required":
        return ReviewRequired()
    return AutoMerge(
        merge_method=cast("grant_wire.MergeMethod", delivery.merge_method),
        required_status_checks=tuple(delivery.required_status_checks),
        provider_managed=True,
        branch_protection_required=True,
        bypass_forbidden=True,
    )


def _output_proof(state: Run, latest: Proof) -> OutputProviderProof:
    """The latest proof with the readiness that auto-merge was granted on; people merge without a proof of that."""
    ready = state.proof("checks_passed")
    if ready is None:
        return OutputProviderProof(latest.proof_id, latest.observation, latest.head_sha, (), None, None, None)
    return OutputProviderProof(
        latest.proof_id,
        latest.observation,
        latest.head_sha,
        tuple(OutputCheck(item.name, item.conclusion) for item in ready.required_status_checks),
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
        else OutputPullRequest(
            opened.grant_id, state.terms.delivery.mode, opened.draft, opened.head_branch, opened.head_sha
        ),
        provider_proof=_output_proof(state, state.proofs[-1]) if state.proofs else None,
        auto_merge_receipt=None
        if merge is None
        else OutputAutoMergeReceipt(merge.grant_id, merge.head_sha, merge.merge_method),
        deploy=None if deploy is None else OutputDeploy(deploy.deploy_id, deploy.sha, deploy.environment),
        verification=None
        if result is None
        else OutputVerification(
            outcome=result.outcome,
            sample=None if counted is None else OutputSample(counted.event, counted.count, counted.minimum),
            passed=result.passed,
        ),
    )


def _output(parts: run_wire.OutputParts, state: Run) -> SelfHealingOutput | None:
    """The closed output of R-AUT-46, once the run has its verdict and every other part."""
    if parts.pull_request is None or parts.provider_proof is None or state.verdict is None:
        return None
    return SelfHealingOutput(**{name: getattr(parts, name) for name in SelfHealingOutput.__struct_fields__})


def _review(book: Book) -> FunnelReviewOutput | None:
    """The report of a review, once it is recorded, and where it was read along (R-AUT-47)."""
    text = book.report_json
    return None if text is None else msgspec.json.decode(text, type=FunnelReviewOutput)


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
