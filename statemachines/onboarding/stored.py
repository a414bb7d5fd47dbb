"""Shapes that the events of onboarding and of the signal map hold: a plan as it was approved, and its receipt.

They are the storage's own. Those of the wire (schemas/onboarding) are made from them and into them at the doors, so a
change there leaves history as it is. What a shape here takes only ever widens: what is stored stays readable.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.kernel import patterns
from schemas.kernel.shape import SAFE_INTEGER, Identifier, SafeEpoch

Sha256 = Annotated[str, Meta(min_length=64, max_length=64, pattern=patterns.SHA256)]
GitSha = Annotated[str, Meta(min_length=7, max_length=64, pattern=patterns.GIT_SHA)]
RowCount = Annotated[int, Meta(ge=1, le=SAFE_INTEGER)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
PropertyName = Annotated[str, Meta(min_length=1, max_length=160)]
Meaning = Annotated[str, Meta(min_length=1, max_length=1000)]
ObservedProperties = Annotated[tuple[PropertyName, ...], Meta(max_length=100)]

Boundary = Literal["browser_provider", "server_provider"]


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of an event: exactly its declared members."""


class SourceSnapshot(Shape, frozen=True):
    """A source tree by its commit and content hash (R-ONB-01)."""

    git_head_sha: GitSha | None
    source_fingerprint_sha256: Sha256
    source_fingerprint_algorithm: Literal["service-source-tree-sha256-v1"]


class SourceTarget(Shape, frozen=True):
    """A place in the source: a repository-relative file and exact text in it (R-ONB-08)."""

    file: Annotated[str, Meta(min_length=1, max_length=800)]
    anchor: Annotated[str, Meta(min_length=1, max_length=500)]


Targets = Annotated[tuple[SourceTarget, ...], Meta(min_length=1)]


class Milestone(Shape, frozen=True):
    """A durable success to be captured as an analytics event (R-ONB-05)."""

    event: Name
    meaning: Meaning
    provider_boundary: Boundary
    properties: tuple[PropertyName, ...]
    targets: Targets


class Failure(Shape, frozen=True):
    """A failure exit to be captured as an exception; exactly one of a plan is safe to provoke (R-ONB-06)."""

    marker: Name
    meaning: Meaning
    provider_boundary: Boundary
    context: tuple[PropertyName, ...]
    safe_live_proof: bool
    targets: Targets


class Deploy(Shape, frozen=True):
    """Where the instrumented commit is to be deployed (R-ONB-07)."""

    environment: Annotated[str, Meta(min_length=1, max_length=160)]
    sha_source: Literal["git_head"]
    targets: Targets


class Window(Shape, frozen=True, rename={"from_": "from"}):
    """The audited span of provider history."""

    from_: SafeEpoch
    to: SafeEpoch


class AnalyticsObservation(Shape, frozen=True, tag_field="kind", tag="analytics"):
    """An analytics event found in the provider's history: counts and names only."""

    event: Name
    observed_properties: ObservedProperties
    row_count: RowCount


class ErrorObservation(Shape, frozen=True, tag_field="kind", tag="error"):
    """An error issue found in the provider's history: counts and names only."""

    issue_id: Identifier
    observed_properties: ObservedProperties
    row_count: RowCount


class HistoricalEvidence(Shape, frozen=True):
    """The audited window of provider history, never proof of current placement (R-ONB-12 to R-ONB-15)."""

    status: Literal["historically_observed"]
    source: Literal["provider_cloud"]
    provider_project_id: Annotated[int, Meta(ge=1, le=SAFE_INTEGER)]
    observed_at: SafeEpoch
    window: Window
    query_receipt_sha256: Sha256
    observations: Annotated[tuple[AnalyticsObservation | ErrorObservation, ...], Meta(min_length=1, max_length=200)]


class Plan(Shape, frozen=True):
    """The plan that a human approves as a whole, by its hash (R-ONB-02, G-081)."""

    business_question: Annotated[str, Meta(min_length=1, max_length=1000)]
    plan_markdown: Annotated[str, Meta(min_length=1, max_length=65536)]
    source_snapshot: SourceSnapshot
    historical_evidence: HistoricalEvidence | None
    milestones: Annotated[tuple[Milestone, ...], Meta(min_length=1)]
    failures: Annotated[tuple[Failure, ...], Meta(min_length=1)]
    deploy: Deploy


class AnalyticsReceipt(Shape, frozen=True):
    """One milestone seen under the session's marker."""

    event: Name
    provider_boundary: Boundary
    required_properties: tuple[PropertyName, ...]
    observed_properties: tuple[PropertyName, ...]
    row_count: RowCount


class ErrorReceipt(Shape, frozen=True):
    """The safe error seen under the session's marker."""

    marker: Name
    provider_boundary: Boundary
    required_context: tuple[PropertyName, ...]
    observed_context: tuple[PropertyName, ...]
    row_count: RowCount


class DeployReceipt(Shape, frozen=True):
    """The trusted deploy as it was seen under the session's CI marker."""

    environment: Annotated[str, Meta(min_length=1, max_length=160)]
    source_snapshot: SourceSnapshot
    row_count: RowCount


class Receipt(Shape, frozen=True):
    """Proof that the approved plan is in the running source (R-ONB-35)."""

    evidence_status: Literal["source_verified"]
    source_verified_at: SafeEpoch
    analytics: Annotated[tuple[AnalyticsReceipt, ...], Meta(min_length=1)]
    error: ErrorReceipt
    deploy: DeployReceipt
