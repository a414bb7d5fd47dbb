"""What a run of each playbook hands over (R-AUT-46 to R-AUT-48): published with the playbook, fixed by its version.

The parts of a self-healing output name their binding facts and may carry more of the record they come from; the
outputs themselves and the findings of a review are closed.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.contracts.playbook import CodeDelivery, Name, Sha256
from schemas.kernel.shape import Closed

Text1000 = Annotated[str, Meta(min_length=1, max_length=1000)]
Text2000 = Annotated[str, Meta(min_length=1, max_length=2000)]
Columns = tuple[Name, ...]


# ---- error-to-draft-pr@4.0.0


class OutputPullRequest(msgspec.Struct, frozen=True):
    """The one pull request, as its grant bound it."""

    grant_id: str
    delivery_mode: Literal["review_required", "auto_merge"]
    draft: bool
    head_branch: str
    head_sha: str


class OutputCheck(msgspec.Struct, frozen=True):
    """One required check, and how it ended."""

    name: str
    conclusion: str


class OutputProviderProof(msgspec.Struct, frozen=True):
    """The last observation of trusted CI. For auto_merge, also the one before the grant.

    That is: the required checks as they passed, protection enforced, no bypass, auto-merge still off (R-AUT-42).
    """

    proof_id: str
    observation: str
    head_sha: str
    required_status_checks: tuple[OutputCheck, ...]
    branch_protection_enforced: bool | None
    bypass_used: bool | None
    auto_merge_enabled: bool | None


class OutputAutoMergeReceipt(msgspec.Struct, frozen=True):
    """The provider's own auto-merge, enabled under its separate grant."""

    grant_id: str
    head_sha: str
    merge_method: Literal["squash", "merge", "rebase"]


class OutputDeploy(msgspec.Struct, frozen=True):
    """The trusted CI deploy of the proven commit."""

    deploy_id: str
    sha: str
    environment: str


class OutputSample(msgspec.Struct, frozen=True):
    """The traffic that verification counted."""

    event: str
    count: int
    minimum: int


class OutputVerification(Closed, frozen=True):
    """The result of the deploy."""

    outcome: Literal["pending", "no_recurrence", "recurred", "insufficient_traffic"]
    sample: OutputSample | None
    passed: bool


class SelfHealingOutput(Closed, frozen=True):
    """Output of `error-to-draft-pr` (R-AUT-46)."""

    run_id: str
    status: Literal["draft_pr_opened", "verifying", "succeeded", "failed", "escalated", "cancelled"]
    code_delivery: CodeDelivery
    pull_request: OutputPullRequest
    provider_proof: OutputProviderProof
    auto_merge_receipt: OutputAutoMergeReceipt | None
    deploy: OutputDeploy
    verification: OutputVerification


# ---- weekly-funnel-review@2.0.0


class MetricFinding(Closed, frozen=True, tag_field="kind", tag="metric"):
    """A number of the source, with its change."""

    metric: Name
    unit: Name
    prior_value: float | None
    current_value: float | None
    change: float | None
    source_columns: Columns


class HypothesisFinding(Closed, frozen=True, tag_field="kind", tag="hypothesis"):
    """A guess worth a human's time, never a claim of cause."""

    rank: Annotated[int, Meta(ge=1, le=100)]
    title: Name
    rationale: Text2000
    expected_impact: Text1000
    confidence: Literal["low", "medium", "high"]
    evidence_columns: Columns
    suggested_human_next_step: Text1000


class ReadinessGapFinding(Closed, frozen=True, tag_field="kind", tag="readiness_gap"):
    """A gap that limited the review."""

    code: Annotated[str, Meta(min_length=1, max_length=160)]
    message: Text2000


Finding = MetricFinding | HypothesisFinding | ReadinessGapFinding


class FunnelReviewOutput(Closed, frozen=True):
    """Output of `weekly-funnel-review` (R-AUT-47): private, untrusted, without authority."""

    kind: Literal["funnel_review"]
    period_start: int
    period_end: int
    source_hash: Sha256
    findings: Annotated[tuple[Finding, ...], Meta(max_length=100)]
    limitations: Annotated[tuple[Text2000, ...], Meta(max_length=20)]
