"""What happens to an automation run, and the facts its events carry (G-106, G-110, G-111).

Nothing here holds telemetry or provider text: a reason is what a runner wrote about its own work, everything else is
numbers, hashes, names from the policy, and what a trusted CI observed.
"""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from statemachines.contracts.policy import Delivery, Limits, Playbook, Scope, VerificationTerms
from statemachines.kernel.machine import CiRun, Event
from statemachines.reports import FunnelPlan
from statemachines.runs.verdict import BoundDeploy, Verdict

Action = Literal["draft_pr", "auto_merge", "escalate"]
GrantKind = Literal["draft_pr", "auto_merge"]
ApprovalOutcome = Literal["pending", "approved", "rejected", "expired", "cancelled"]
Observation = Literal["pr_opened", "checks_passed", "auto_merge_enabled", "merged"]
Sight = Literal["closed", "reopened", "merged"]
FollowUpKind = Literal["inspect_pull_request", "inspect_ci", "inspect_auto_merge", "inspect_deploy"]
OverdueCause = Literal["deadline_exceeded", "lease_expired", "claim_not_active", "deploy_overdue"]


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the policy that a run is held to for its whole life, whatever becomes of the contract.

    `review` is what the report of a scheduled run is about. Runs that began before these were kept have none.
    """

    playbook: Playbook = Playbook()
    limits: Limits = Limits()
    delivery: Delivery = Delivery()
    verification: VerificationTerms = VerificationTerms()
    repository: str = ""
    base_branch: str = ""
    environment: str | None = None
    scope: Scope | UnsetType = UNSET
    review: FunnelPlan | UnsetType = UNSET


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The one pull request of a run, as granted and opened."""

    number: int
    url: str
    head_branch: str
    base_branch: str
    head_sha: str
    draft: bool
    grant_id: str
    merge_commit_sha: str | None = None


class StatusCheck(msgspec.Struct, frozen=True):
    """One check on the head commit, and how it ended."""

    name: str
    conclusion: str


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """One observation of a trusted CI; `body_sha256` recognises an exact repeat.

    `files_sha256` is the hash of the list of changed files that came along, absent when none did (G-147). `ci_run` is
    the run of a workflow that sent it by an exchanged credential (G-171).
    """

    proof_id: str
    observation: Observation
    body_sha256: str
    pr_number: int
    pr_url: str
    head_sha: str
    draft: bool
    required_status_checks: list[StatusCheck] = []
    branch_protection_enforced: bool | None = None
    bypass_used: bool | None = None
    auto_merge_enabled: bool | None = None
    merge_method: str | None = None
    merge_commit_sha: str | None = None
    files_sha256: str | UnsetType = UNSET
    recorded_at: int
    ci_run: CiRun | UnsetType = UNSET


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The closing, reopening or changed merge of the pull request by a person, as CI saw it (G-186, G-187).

    People may have pushed to it: `head_sha` is the head of that moment, `commits` are the ones added to the granted
    head. `closed_by` is a name at the code host. Later members are absent unless it was merged with another head.
    """

    proof_id: str
    observation: Sight
    body_sha256: str
    pr_number: int
    pr_url: str
    head_sha: str
    draft: bool
    closed_by: str | None = None
    recorded_at: int
    changed_by_person: bool | UnsetType = UNSET
    merge_commit_sha: str | UnsetType = UNSET
    commits: list[str] | UnsetType = UNSET
    branch_protection_enforced: bool | UnsetType = UNSET
    bypass_used: bool | UnsetType = UNSET
    ci_run: CiRun | UnsetType = UNSET


class FollowUp(msgspec.Struct, frozen=True, kw_only=True):
    """Something outside the service that a person has to look at. `settled_by` names the proof that closes it."""

    kind: FollowUpKind
    grant_id: str | None
    reference: str
    settled_by: Observation | None


class RunStarted(Event, frozen=True, kw_only=True):
    """The one run of a receipt began. `claim_id` and the case are None for a schedule."""

    TOPIC = "run.started.v1"
    automation_id: str
    policy_sha256: str
    terms: Terms
    receipt_id: str
    case_id: str | None
    case_revision: int | None
    claim_id: str | None
    runner_id: str
    lease_epoch: int
    started_at: int
    deadline_at: int


class RunProgressed(Event, frozen=True):
    """The runner reports that it is at work."""

    TOPIC = "run.progressed.v1"
    at: int


class Charge(Event, frozen=True):
    """Turns, cost (exact decimal) and run time were charged, with a label of the runner's."""

    turns: int
    cost_usd: str
    runtime_seconds: int
    label: str | None
    at: int


class RunCharged(Charge, frozen=True):
    """Charged while at work."""

    TOPIC = "run.charged.v1"


class RunChargedInReview(Charge, frozen=True):
    """Charged while a person decides."""

    TOPIC = "run.charged_in_review.v1"


class RunChargedAwaitingProof(Charge, frozen=True):
    """Charged while the pull request is being opened."""

    TOPIC = "run.charged_awaiting_proof.v1"


class RunChargedAwaitingDeploy(Charge, frozen=True):
    """Charged while the pull request is open."""

    TOPIC = "run.charged_awaiting_deploy.v1"


class Rest(msgspec.Struct, frozen=True, kw_only=True):
    """A rest of lease and deadline for a review: since when, until when at the latest, and the rest of both in seconds.

    A stop of the generation ends it (G-185).
    """

    began_at: int
    until: int
    generation: int
    deadline_left: int
    lease_left: int


class RunApprovalRequested(Event, frozen=True):
    """A person is asked. The clocks of the run rest, unless its reviews took all their time."""

    TOPIC = "run.approval_requested.v1"
    approval_id: str
    action: Action
    generation: int
    expires_at: int
    at: int
    rest: Rest | UnsetType = UNSET


class RunApprovalSettled(Event, frozen=True):
    """One of several requests was decided; others are pending."""

    TOPIC = "run.approval_settled.v1"
    approval_id: str
    outcome: ApprovalOutcome
    at: int
    rests_until: int | UnsetType = UNSET


class RunReviewEnded(Event, frozen=True):
    """The last pending request was decided."""

    TOPIC = "run.review_ended.v1"
    approval_id: str
    outcome: ApprovalOutcome
    at: int
    rests_until: int | UnsetType = UNSET


class RunReviewLapsed(Event, frozen=True):
    """Every pending request ended without a decision: by time, or because authority was withdrawn meanwhile.

    Bookkeeping: it is no command on the run and leaves the state revision alone.
    """

    TOPIC = "run.review_lapsed.v1"
    expired: list[str]
    cancelled: list[str]
    at: int


class RunResumed(Event, frozen=True):
    """The runner is back from a review: lease and deadline run on (G-185).

    Bookkeeping: it is part of the command that came, and leaves the state revision alone.
    """

    TOPIC = "run.resumed.v1"
    rested_seconds: int
    deadline_at: int
    at: int


class RunGrantAuthorized(Event, frozen=True):
    """A one-time grant was authorized."""

    grant_id: str
    generation: int
    binding_sha256: str
    head_branch: str
    head_sha: str
    expires_at: int
    at: int


class RunDraftPrAuthorized(RunGrantAuthorized, frozen=True):
    """The grant is for opening the pull request."""

    TOPIC = "run.draft_pr_authorized.v1"


class RunAutoMergeAuthorized(RunGrantAuthorized, frozen=True):
    """The grant is for turning on the provider's own auto-merge."""

    TOPIC = "run.auto_merge_authorized.v1"


class RunDraftPrConsumed(Event, frozen=True):
    """The runner may open the pull request now: the intent, committed before any call to the provider."""

    TOPIC = "run.draft_pr_consumed.v1"
    grant_id: str
    at: int


class RunAutoMergeConsumed(Event, frozen=True):
    """The runner may turn on auto-merge now: the intent, committed before any call to the provider."""

    TOPIC = "run.auto_merge_consumed.v1"
    grant_id: str
    at: int


class RunPrReported(Event, frozen=True):
    """The runner says that the pull request is open; a CI has yet to prove it."""

    TOPIC = "run.pr_reported.v1"
    pull_request: PullRequest
    at: int


class RunPrProven(Event, frozen=True):
    """A CI proved the pull request that was granted."""

    TOPIC = "run.pr_proven.v1"
    proof: Proof
    pull_request: PullRequest
    at: int


class ProofEvent(Event, frozen=True):
    """A CI proved something more about the pull request."""

    proof: Proof
    at: int


class RunChecksProven(ProofEvent, frozen=True):
    """The pull request is ready: exact checks, enforced protection, no bypass, auto-merge still off."""

    TOPIC = "run.checks_proven.v1"


class RunAutoMergeProven(ProofEvent, frozen=True):
    """The provider's auto-merge is on, as granted."""

    TOPIC = "run.auto_merge_proven.v1"


class RunMergeProven(ProofEvent, frozen=True):
    """The pull request was merged."""

    TOPIC = "run.merge_proven.v1"


class RunMergeProvenLater(ProofEvent, frozen=True):
    """The pull request was merged after its head had been deployed."""

    TOPIC = "run.merge_proven_later.v1"


class RunDeployBound(Event, frozen=True):
    """A trusted CI deploy of the proven commit."""

    TOPIC = "run.deploy_bound.v1"
    deploy: BoundDeploy
    verify_until: int
    at: int


class RunVerified(Event, frozen=True):
    """Enough traffic, no recurrence."""

    TOPIC = "run.verified.v1"
    verdict: Verdict
    at: int


class RunVerificationFailed(Event, frozen=True):
    """The error came back, or traffic never sufficed."""

    TOPIC = "run.verification_failed.v1"
    verdict: Verdict
    at: int


class RunReportSourceIntended(Event, frozen=True):
    """The run's report has begun: its source is wanted."""

    TOPIC = "run.report_source_intended.v1"
    report_id: str
    at: int


class RunReported(Event, frozen=True):
    """The run's report is recorded."""

    TOPIC = "run.reported.v1"
    report_id: str
    report_sha256: str
    at: int


class RunEnd(Event, frozen=True):
    """The run is over. `follow_ups` are what is left outside the service; `summary_md` is the runner's own account."""

    reason: str | None
    cause: OverdueCause | None
    command_key_sha256: str | None
    follow_ups: list[FollowUp]
    at: int
    summary_md: str | None = None


class RunFailed(RunEnd, frozen=True):
    """The runner gave up, or time ran out, before any provider effect."""

    TOPIC = "run.failed.v1"


class RunFailedOutside(RunEnd, frozen=True):
    """The runner gave up, or no deploy came, after a provider effect may have begun."""

    TOPIC = "run.failed_outside.v1"


class RunEscalated(RunEnd, frozen=True):
    """The runner handed over to people before any provider effect."""

    TOPIC = "run.escalated.v1"


class RunEscalatedOutside(RunEnd, frozen=True):
    """The runner handed over to people after a provider effect may have begun."""

    TOPIC = "run.escalated_outside.v1"


class RunCancelled(RunEnd, frozen=True):
    """Service authority was withdrawn before any provider effect."""

    TOPIC = "run.cancelled.v1"


class RunCancelledOutside(RunEnd, frozen=True):
    """Service authority was withdrawn after a provider effect may have begun."""

    TOPIC = "run.cancelled_outside.v1"


class RunFenced(RunEnd, frozen=True):
    """The project is being deleted."""

    TOPIC = "run.fenced.v1"


class RunClosed(RunEnd, frozen=True, kw_only=True):
    """A person closed the pull request: without a merge (G-187), or by one with commits of others (G-186)."""

    seen: Seen


class RunClosedUnmerged(RunClosed, frozen=True, kw_only=True):
    """It was closed before any deploy."""

    TOPIC = "run.closed_unmerged.v1"


class RunClosedDeployed(RunClosed, frozen=True, kw_only=True):
    """It was closed while a deploy of its head was verified. The deploy is left to follow up."""

    TOPIC = "run.closed_deployed.v1"


class RunMergedChanged(RunClosed, frozen=True, kw_only=True):
    """It was merged with another head than the granted one, before any deploy."""

    TOPIC = "run.merged_changed.v1"


class RunMergedChangedDeployed(RunClosed, frozen=True, kw_only=True):
    """It was merged with another head while a deploy was verified. The deploy is left to follow up."""

    TOPIC = "run.merged_changed_deployed.v1"


class LateProof(Event, frozen=True):
    """A CI proved something about a run that was over. Nothing downstream revives (R-AUT-33)."""

    proof: Proof
    pull_request: PullRequest | None
    follow_ups: list[FollowUp]
    at: int


class RunProvenAfterFailure(LateProof, frozen=True):
    """More is left to follow up."""

    TOPIC = "run.proven_after_failure.v1"


class RunProvenAfterEscalation(LateProof, frozen=True):
    """More is left to follow up."""

    TOPIC = "run.proven_after_escalation.v1"


class RunProvenAfterCancel(LateProof, frozen=True):
    """More is left to follow up."""

    TOPIC = "run.proven_after_cancel.v1"


class RunSettledAfterFailure(LateProof, frozen=True):
    """Nothing is left to follow up."""

    TOPIC = "run.settled_after_failure.v1"


class RunSettledAfterEscalation(LateProof, frozen=True):
    """Nothing is left to follow up."""

    TOPIC = "run.settled_after_escalation.v1"


class RunSettledAfterCancel(LateProof, frozen=True):
    """Nothing is left to follow up."""

    TOPIC = "run.settled_after_cancel.v1"


class LateSight(Event, frozen=True):
    """People closed, merged or reopened the pull request after the end of its run. `follow_ups` are still open."""

    seen: Seen
    follow_ups: list[FollowUp]
    at: int


class RunSeenAfterEnd(LateSight, frozen=True):
    """It leaves the run as it is: it was reopened, or a deploy is left to follow up."""

    TOPIC = "run.seen_after_end.v1"


class RunClosedAfterFailure(LateSight, frozen=True):
    """It was closed or merged by people, and nothing is left to follow up."""

    TOPIC = "run.closed_after_failure.v1"


class RunClosedAfterEscalation(LateSight, frozen=True):
    """It was closed or merged by people, and nothing is left to follow up."""

    TOPIC = "run.closed_after_escalation.v1"


class RunClosedAfterCancel(LateSight, frozen=True):
    """It was closed or merged by people, and nothing is left to follow up."""

    TOPIC = "run.closed_after_cancel.v1"
