"""An automation run: phase and status of G-106 as one machine, with PR proof, deploy and verification on its stream.

A status here is the pair that clients see, `phase/status` (`null` until the document's six values apply), so that one
table rules both fields. Every event is one accepted command on the run and raises `state_revision` by one (G-121),
except RunReviewLapsed and RunResumed, which are bookkeeping. Its events are in events.py; what must hold across streams
is decided in starting, running, approving, granting, pr_proof, deploy_binding, verification, reporting and closing.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)
from statemachines.runs import events as e
from statemachines.runs.ledger import Amounts
from statemachines.runs.verdict import BoundDeploy, Verdict


def run_id(project_id: str, receipt_id: str) -> str:
    """Id of the one run that a receipt may ever start."""
    return derived_id("run", project_id, receipt_id)


def stream(project_id: str, run_id: str) -> Stream:
    """Name the history of a run."""
    return Stream(MACHINE, project_id, run_id)


class Status(Enum):
    """`phase/status` as clients see them."""

    ABSENT = "absent/null"
    STARTED = "run_started/null"
    RUNNING = "running/null"
    IN_REVIEW = "human_review/null"
    PROOF_PENDING = "provider_proof_pending/null"
    PR_OPENED = "provider_proof_pending/draft_pr_opened"
    VERIFYING = "provider_proof_pending/verifying"
    SUCCEEDED = "verified_or_reported/succeeded"
    FAILED = "stopped/failed"
    ESCALATED = "stopped/escalated"
    CANCELLED = "stopped/cancelled"
    FAILED_OUTSIDE = "external_follow_up_required/failed"
    ESCALATED_OUTSIDE = "external_follow_up_required/escalated"
    CANCELLED_OUTSIDE = "external_follow_up_required/cancelled"
    FENCED = "deletion_fenced/cancelled"

    @property
    def phase(self) -> str:
        """The flow state."""
        return self.value.split("/")[0]

    @property
    def outcome(self) -> str | None:
        """The document's status, or None before it applies."""
        word = self.value.split("/")[1]
        return None if word == "null" else word


BEFORE_EFFECT = (Status.STARTED, Status.RUNNING, Status.IN_REVIEW)
"""No provider effect can have begun; a lapsed lease or deadline ends these."""

AWAITING_DEPLOY = (Status.PROOF_PENDING, Status.PR_OPENED)
"""The draft-PR grant is consumed and no deploy is bound."""

LIVE = (*BEFORE_EFFECT, *AWAITING_DEPLOY, Status.VERIFYING)
OUTSIDE = (Status.FAILED_OUTSIDE, Status.ESCALATED_OUTSIDE, Status.CANCELLED_OUTSIDE)
"""Over, with something left to follow up outside the service."""

ENDED = (Status.FAILED, Status.ESCALATED, Status.CANCELLED, *OUTSIDE)
"""Over without success, and not by the deletion of the project."""


def _rows(topic: str, sources: tuple[Status, ...], target: Status | None) -> list[list[str | Status | None]]:
    return [[topic, source, target] for source in sources]


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [e.RunStarted.TOPIC, Status.ABSENT, Status.STARTED],
        [e.RunProgressed.TOPIC, Status.STARTED, Status.RUNNING],
        *_rows(e.RunCharged.TOPIC, (Status.STARTED, Status.RUNNING), Status.RUNNING),
        [e.RunChargedInReview.TOPIC, Status.IN_REVIEW, Status.IN_REVIEW],
        [e.RunChargedAwaitingProof.TOPIC, Status.PROOF_PENDING, Status.PROOF_PENDING],
        [e.RunChargedAwaitingDeploy.TOPIC, Status.PR_OPENED, Status.PR_OPENED],
        *_rows(e.RunApprovalRequested.TOPIC, BEFORE_EFFECT, Status.IN_REVIEW),
        [e.RunApprovalSettled.TOPIC, Status.IN_REVIEW, Status.IN_REVIEW],
        [e.RunReviewEnded.TOPIC, Status.IN_REVIEW, Status.RUNNING],
        [e.RunReviewLapsed.TOPIC, Status.IN_REVIEW, Status.RUNNING],
        [e.RunResumed.TOPIC, Status.RUNNING, Status.RUNNING],
        *_rows(e.RunDraftPrAuthorized.TOPIC, (Status.STARTED, Status.RUNNING), Status.RUNNING),
        [e.RunDraftPrConsumed.TOPIC, Status.RUNNING, Status.PROOF_PENDING],
        [e.RunPrReported.TOPIC, Status.PROOF_PENDING, Status.PR_OPENED],
        *_rows(e.RunPrProven.TOPIC, AWAITING_DEPLOY, Status.PR_OPENED),
        [e.RunChecksProven.TOPIC, Status.PR_OPENED, Status.PR_OPENED],
        [e.RunAutoMergeAuthorized.TOPIC, Status.PR_OPENED, Status.PR_OPENED],
        [e.RunAutoMergeConsumed.TOPIC, Status.PR_OPENED, Status.PR_OPENED],
        [e.RunAutoMergeProven.TOPIC, Status.PR_OPENED, Status.PR_OPENED],
        [e.RunMergeProven.TOPIC, Status.PR_OPENED, Status.PR_OPENED],
        [e.RunDeployBound.TOPIC, Status.PR_OPENED, Status.VERIFYING],
        [e.RunMergeProvenLater.TOPIC, Status.VERIFYING, Status.VERIFYING],
        [e.RunVerified.TOPIC, Status.VERIFYING, Status.SUCCEEDED],
        [e.RunVerificationFailed.TOPIC, Status.VERIFYING, Status.FAILED],
        *_rows(e.RunReportSourceIntended.TOPIC, (Status.STARTED, Status.RUNNING), Status.RUNNING),
        [e.RunReported.TOPIC, Status.RUNNING, Status.SUCCEEDED],
        *_rows(e.RunFailed.TOPIC, BEFORE_EFFECT, Status.FAILED),
        *_rows(e.RunFailedOutside.TOPIC, AWAITING_DEPLOY, Status.FAILED_OUTSIDE),
        *_rows(e.RunEscalated.TOPIC, BEFORE_EFFECT, Status.ESCALATED),
        *_rows(e.RunEscalatedOutside.TOPIC, AWAITING_DEPLOY, Status.ESCALATED_OUTSIDE),
        *_rows(e.RunCancelled.TOPIC, BEFORE_EFFECT, Status.CANCELLED),
        *_rows(e.RunCancelledOutside.TOPIC, (*AWAITING_DEPLOY, Status.VERIFYING), Status.CANCELLED_OUTSIDE),
        *_rows(e.RunFenced.TOPIC, LIVE, Status.FENCED),
        [e.RunProvenAfterFailure.TOPIC, Status.FAILED_OUTSIDE, Status.FAILED_OUTSIDE],
        [e.RunProvenAfterEscalation.TOPIC, Status.ESCALATED_OUTSIDE, Status.ESCALATED_OUTSIDE],
        [e.RunProvenAfterCancel.TOPIC, Status.CANCELLED_OUTSIDE, Status.CANCELLED_OUTSIDE],
        [e.RunSettledAfterFailure.TOPIC, Status.FAILED_OUTSIDE, Status.FAILED],
        [e.RunSettledAfterEscalation.TOPIC, Status.ESCALATED_OUTSIDE, Status.ESCALATED],
        [e.RunSettledAfterCancel.TOPIC, Status.CANCELLED_OUTSIDE, Status.CANCELLED],
        *_rows(e.RunClosedUnmerged.TOPIC, AWAITING_DEPLOY, Status.FAILED),
        [e.RunClosedDeployed.TOPIC, Status.VERIFYING, Status.FAILED_OUTSIDE],
        *_rows(e.RunMergedChanged.TOPIC, AWAITING_DEPLOY, Status.ESCALATED),
        [e.RunMergedChangedDeployed.TOPIC, Status.VERIFYING, Status.ESCALATED_OUTSIDE],
        [e.RunClosedAfterFailure.TOPIC, Status.FAILED_OUTSIDE, Status.FAILED],
        [e.RunClosedAfterEscalation.TOPIC, Status.ESCALATED_OUTSIDE, Status.ESCALATED],
        [e.RunClosedAfterCancel.TOPIC, Status.CANCELLED_OUTSIDE, Status.CANCELLED],
        *_rows(e.RunSeenAfterEnd.TOPIC, ENDED, None),
    ],
)


class ApprovalRef(msgspec.Struct, frozen=True):
    """A request as the run knows it."""

    approval_id: str
    action: e.Action
    generation: int
    expires_at: int
    outcome: e.ApprovalOutcome = "pending"


class GrantRef(msgspec.Struct, frozen=True):
    """A grant as the run knows it. Times are None until they happen."""

    grant_id: str
    kind: e.GrantKind
    generation: int
    binding_sha256: str
    head_branch: str
    head_sha: str
    expires_at: int
    consumed_at: int | None = None
    settled_at: int | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What decisions about a run depend on, and what its record shows."""

    status: Status = Status.ABSENT
    automation_id: str = ""
    policy_sha256: str = ""
    terms: e.Terms = e.Terms()
    receipt_id: str = ""
    case_id: str | None = None
    case_revision: int | None = None
    claim_id: str | None = None
    runner_id: str = ""
    state_revision: int = 0
    lease_epoch: int = 0
    started_at: int = 0
    deadline_at: int = 0
    rest: e.Rest | None = None
    rested_seconds: int = 0
    updated_at: int = 0
    finished_at: int | None = None
    charges: Amounts = Amounts()
    approvals: list[ApprovalRef] = []
    grants: list[GrantRef] = []
    pull_request: e.PullRequest | None = None
    proofs: list[e.Proof] = []
    sights: list[e.Seen] = []
    deploy: BoundDeploy | None = None
    verify_until: int | None = None
    verdict: Verdict | None = None
    report_id: str | UnsetType = UNSET
    reason: str | None = None
    summary_md: str | None = None
    cause: e.OverdueCause | None = None
    command_key_sha256: str | None = None
    follow_ups: list[e.FollowUp] = []

    @property
    def live(self) -> bool:
        """Whether the run is not over (and exists)."""
        return self.status in LIVE

    @property
    def pending_approvals(self) -> list[ApprovalRef]:
        """Requests that no event has settled."""
        return [ref for ref in self.approvals if ref.outcome == "pending"]

    def grant(self, kind: e.GrantKind) -> GrantRef | None:
        """Return the latest grant of a kind: no earlier one can still have force."""
        return next((ref for ref in reversed(self.grants) if ref.kind == kind), None)

    @property
    def draft_grant(self) -> GrantRef | None:
        """The latest grant for a pull request."""
        return self.grant("draft_pr")

    @property
    def merge_grant(self) -> GrantRef | None:
        """The latest grant for auto-merge."""
        return self.grant("auto_merge")

    def proof(self, observation: e.Observation) -> e.Proof | None:
        """Return what a CI proved, if it did."""
        return next((proof for proof in self.proofs if proof.observation == observation), None)

    def sight(self, observation: e.Sight) -> e.Seen | None:
        """Return what CI saw of the kind that people do, if it did."""
        return next((seen for seen in self.sights if seen.observation == observation), None)

    @property
    def scope_checked(self) -> bool:
        """Whether a CI listed the files that the granted head changes, and all were within scope (G-147).

        A list that was taken in was within scope, unless the run is too old to know its scope.
        """
        listed = any(isinstance(proof.files_sha256, str) for proof in self.proofs)
        return listed and not isinstance(self.terms.scope, UnsetType)

    @property
    def proven_commit(self) -> str | None:
        """The commit whose deploy counts: the merge, or for a reviewed pull request its head (G-110)."""
        if (merged := self.proof("merged")) is not None:
            return merged.merge_commit_sha
        opened = self.proof("pr_opened")
        return opened.head_sha if opened is not None and self.terms.delivery.mode == "review_required" else None


class RunNotFound(Rejection):
    """There is no such run."""

    code = "run_not_found"


class RunTransitionNotAllowed(Rejection):
    """The run's phase does not allow this (G-106)."""

    code = "run_transition_not_allowed"


class RunTerminal(Rejection):
    """The run is over (G-106)."""

    code = "run_terminal"


def _mark(state: Run, kind: e.GrantKind, **changes: int) -> dict[str, Any]:
    """Change the latest grant of a kind."""
    latest = state.grant(kind)
    return {"grants": [msgspec.structs.replace(ref, **changes) if ref is latest else ref for ref in state.grants]}


def _settled(refs: list[ApprovalRef], outcomes: Mapping[str, e.ApprovalOutcome]) -> list[ApprovalRef]:
    return [
        msgspec.structs.replace(ref, outcome=outcomes[ref.approval_id]) if ref.approval_id in outcomes else ref
        for ref in refs
    ]


def _proven(state: Run, proof: e.Proof, pull_request: e.PullRequest | None) -> dict[str, Any]:
    """What a proof changes: the proof itself, the grant it answers, the merge commit it names."""
    changes: dict[str, Any] = {"proofs": [*state.proofs, proof], "pull_request": pull_request}
    match proof.observation:
        case "pr_opened":
            changes |= _mark(state, "draft_pr", settled_at=proof.recorded_at)
        case "auto_merge_enabled":
            changes |= _mark(state, "auto_merge", settled_at=proof.recorded_at)
        case "merged" if pull_request is not None:
            changes["pull_request"] = msgspec.structs.replace(pull_request, merge_commit_sha=proof.merge_commit_sha)
    return changes


def _seen(state: Run, seen: e.Seen) -> dict[str, Any]:
    """What a sight changes: the sight itself, the merge commit it names."""
    changes: dict[str, Any] = {"sights": [*state.sights, seen]}
    if isinstance(seen.merge_commit_sha, str) and state.pull_request is not None:
        merged = msgspec.structs.replace(state.pull_request, merge_commit_sha=seen.merge_commit_sha)
        changes["pull_request"] = merged
    return changes


def _began(event: e.RunStarted) -> dict[str, Any]:
    names = ("automation_id", "policy_sha256", "terms", "receipt_id", "case_id", "case_revision", "claim_id")
    changes = {name: getattr(event, name) for name in (*names, "runner_id", "lease_epoch", "started_at", "deadline_at")}
    return {**changes, "updated_at": event.started_at}


def _of_approvals(state: Run, event: Event) -> dict[str, Any]:
    """What an event changes in the requests that the run knows."""
    outcomes: dict[str, e.ApprovalOutcome] = {}
    match event:
        case e.RunApprovalRequested():
            ref = ApprovalRef(event.approval_id, event.action, event.generation, event.expires_at)
            return {"approvals": [*state.approvals, ref]}
        case e.RunApprovalSettled() | e.RunReviewEnded():
            outcomes = {event.approval_id: event.outcome}
        case e.RunReviewLapsed():
            outcomes.update(dict.fromkeys(event.expired, "expired"))
            outcomes.update(dict.fromkeys(event.cancelled, "cancelled"))
        case e.RunEnd():
            outcomes = {ref.approval_id: "cancelled" for ref in state.pending_approvals}
    return {"approvals": _settled(state.approvals, outcomes)} if outcomes else {}


def _of_effects(state: Run, event: Event) -> dict[str, Any]:
    """What an event changes in grants, proofs, deploy, verification and report."""
    changes: dict[str, Any] = {}
    match event:
        case e.RunGrantAuthorized():
            names = ("grant_id", "generation", "binding_sha256", "head_branch", "head_sha", "expires_at")
            kind: e.GrantKind = "draft_pr" if isinstance(event, e.RunDraftPrAuthorized) else "auto_merge"
            grant = GrantRef(kind=kind, **{name: getattr(event, name) for name in names})
            changes = {"grants": [*state.grants, grant]}
        case e.RunDraftPrConsumed():
            changes = _mark(state, "draft_pr", consumed_at=event.at)
        case e.RunAutoMergeConsumed():
            changes = _mark(state, "auto_merge", consumed_at=event.at)
        case e.RunPrReported():
            changes = {"pull_request": event.pull_request}
        case e.RunPrProven():
            changes = _proven(state, event.proof, event.pull_request)
        case e.ProofEvent():
            changes = _proven(state, event.proof, state.pull_request)
        case e.LateProof():
            changes = _proven(state, event.proof, event.pull_request or state.pull_request)
            changes["follow_ups"] = event.follow_ups
        case e.RunClosed():
            changes = _seen(state, event.seen)
            if state.draft_grant is not None and state.draft_grant.settled_at is None:
                changes |= _mark(state, "draft_pr", settled_at=event.seen.recorded_at)
        case e.LateSight():
            changes = _seen(state, event.seen) | {"follow_ups": event.follow_ups}
        case e.RunDeployBound():
            changes = {"deploy": event.deploy, "verify_until": event.verify_until}
        case e.RunReportSourceIntended():
            changes = {"report_id": event.report_id}
    return changes


def _rests(rest: e.Rest) -> dict[str, Any]:
    """The deadline of a run whose clocks rest: what was left of it, after the latest end of the rest."""
    return {"rest": rest, "deadline_at": rest.until + rest.deadline_left}


def _of_rest(state: Run, event: Event) -> dict[str, Any]:
    """What an event changes in the clocks of the run (G-185)."""
    match event:
        case e.RunApprovalRequested() if not isinstance(event.rest, UnsetType):
            return _rests(event.rest)
        case e.RunApprovalSettled() | e.RunReviewEnded() if state.rest and not isinstance(event.rests_until, UnsetType):
            return _rests(msgspec.structs.replace(state.rest, until=event.rests_until))
        case e.RunResumed():
            rested = state.rested_seconds + event.rested_seconds
            return {"rest": None, "rested_seconds": rested, "deadline_at": event.deadline_at}
        case e.RunEnd():
            return {"rest": None}
    return {}


def _of_course(state: Run, event: Event) -> dict[str, Any]:
    """What an event changes in the course of the run: its beginning, its charges, its end."""
    changes: dict[str, Any] = {}
    match event:
        case e.RunStarted():
            changes = _began(event)
        case e.Charge():
            amounts = Amounts(event.turns, event.cost_usd, event.runtime_seconds)
            changes = {"charges": state.charges.plus(amounts)}
        case e.RunVerified() | e.RunVerificationFailed():
            changes = {"verdict": event.verdict, "finished_at": event.at}
        case e.RunReported():
            changes = {"finished_at": event.at}
        case e.RunEnd():
            names = ("reason", "summary_md", "cause", "command_key_sha256", "follow_ups")
            changes = {name: getattr(event, name) for name in names} | {"finished_at": event.at}
    return changes


def evolve(state: Run, event: Event) -> Run:
    """Fold an event of a run."""
    raised = 0 if isinstance(event, e.RunReviewLapsed | e.RunResumed) else 1
    changes = {
        "status": Status[destination(TABLE, event, state.status)],
        "state_revision": state.state_revision + raised,
        "updated_at": getattr(event, "at", state.updated_at) if raised else state.updated_at,
        **_of_approvals(state, event),
        **_of_effects(state, event),
        **_of_rest(state, event),
        **_of_course(state, event),
    }
    return msgspec.structs.replace(state, **changes)


MACHINE = StateMachine("run", TABLE, Run(), evolve, RunTransitionNotAllowed, Run)
