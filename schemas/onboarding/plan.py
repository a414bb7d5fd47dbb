"""Wire contract of an onboarding's plan, part by part, and the forms that its texts and numbers have.

Every object is closed: an unknown key is refused at every level (R-ONB-01 to R-ONB-15). The shapes under a plan are
also what the onboarding and signal map events hold; within `/v1` their bounds only ever widen (G-013), so stored
plans stay readable.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from schemas.kernel import patterns
from schemas.kernel.shape import SAFE_INTEGER, Closed, Identifier, SafeEpoch

MAX_PLAN_BYTES = 524288

Sha256 = Annotated[str, Meta(min_length=64, max_length=64, pattern=patterns.SHA256)]
GitSha = Annotated[str, Meta(min_length=7, max_length=64, pattern=patterns.GIT_SHA)]
QuotedTag = Annotated[str, Meta(pattern=patterns.QUOTED_TAG)]
RowCount = Annotated[int, Meta(ge=1, le=SAFE_INTEGER)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
PropertyName = Annotated[str, Meta(min_length=1, max_length=160)]
Meaning = Annotated[str, Meta(min_length=1, max_length=1000)]
ObservedProperties = Annotated[tuple[PropertyName, ...], Meta(max_length=100)]

Boundary = Literal["browser_provider", "server_provider"]


class SourceSnapshot(Closed, frozen=True):
    """A source tree by its commit and content hash (R-ONB-01)."""

    git_head_sha: GitSha | None
    source_fingerprint_sha256: Sha256
    source_fingerprint_algorithm: Literal["service-source-tree-sha256-v1"]


class SourceTarget(Closed, frozen=True):
    """A place in the source: a repository-relative file and exact text in it (R-ONB-08)."""

    file: Annotated[str, Meta(min_length=1, max_length=800)]
    anchor: Annotated[str, Meta(min_length=1, max_length=500)]


Targets = Annotated[tuple[SourceTarget, ...], Meta(min_length=1)]


class Milestone(Closed, frozen=True):
    """A durable success to be captured as an analytics event (R-ONB-05)."""

    event: Name
    meaning: Meaning
    provider_boundary: Boundary
    properties: tuple[PropertyName, ...]
    targets: Targets


class Failure(Closed, frozen=True):
    """A failure exit to capture as an exception. Exactly one of a plan is safe to provoke (R-ONB-06)."""

    marker: Name
    meaning: Meaning
    provider_boundary: Boundary
    context: tuple[PropertyName, ...]
    safe_live_proof: bool
    targets: Targets


class Deploy(Closed, frozen=True):
    """The target of the deploy of the instrumented commit (R-ONB-07)."""

    environment: Annotated[str, Meta(min_length=1, max_length=160)]
    sha_source: Literal["git_head"]
    targets: Targets


class Window(Closed, frozen=True, rename={"from_": "from"}):
    """The audited span of provider history."""

    from_: SafeEpoch
    to: SafeEpoch


class AnalyticsObservation(Closed, frozen=True, tag_field="kind", tag="analytics"):
    """An analytics event found in the provider's history: counts and names only."""

    event: Name
    observed_properties: ObservedProperties
    row_count: RowCount


class ErrorObservation(Closed, frozen=True, tag_field="kind", tag="error"):
    """An error issue found in the provider's history: counts and names only."""

    issue_id: Identifier
    observed_properties: ObservedProperties
    row_count: RowCount


class HistoricalEvidence(Closed, frozen=True):
    """The audited window of provider history, never proof of current placement (R-ONB-12 to R-ONB-15)."""

    status: Literal["historically_observed"]
    source: Literal["provider_cloud"]
    provider_project_id: Annotated[int, Meta(ge=1, le=SAFE_INTEGER)]
    observed_at: SafeEpoch
    window: Window
    query_receipt_sha256: Sha256
    observations: Annotated[tuple[AnalyticsObservation | ErrorObservation, ...], Meta(min_length=1, max_length=200)]


class Plan(Closed, frozen=True):
    """The plan that a human approves as a whole, by its hash (R-ONB-02, G-081)."""

    business_question: Annotated[str, Meta(min_length=1, max_length=1000)]
    plan_markdown: Annotated[str, Meta(min_length=1, max_length=65536)]
    source_snapshot: SourceSnapshot
    historical_evidence: HistoricalEvidence | None
    milestones: Annotated[tuple[Milestone, ...], Meta(min_length=1)]
    failures: Annotated[tuple[Failure, ...], Meta(min_length=1)]
    deploy: Deploy
