"""Wire contract of the signal map: the approved plan as reads and queries see it (R-MAP-01, R-MAP-02)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from schemas.kernel.shape import Closed, Identifier
from schemas.onboarding.lifecycle import EvidenceStatus, Receipt
from schemas.onboarding.plan import Deploy, Failure, HistoricalEvidence, Milestone, Sha256, SourceSnapshot


class SignalMap(Closed, frozen=True, kw_only=True):
    """The meaning of each event and failure. Trusted as source semantics only with a receipt (R-MAP-03)."""

    project_id: Identifier
    contract_version: Literal[3] = 3
    mode: Literal["onboarding"] = "onboarding"
    plan_sha256: Sha256
    business_question: Annotated[str, Meta(min_length=1, max_length=1000)]
    plan_markdown: Annotated[str, Meta(min_length=1, max_length=65536)]
    source_snapshot: SourceSnapshot
    historical_evidence: HistoricalEvidence | None
    evidence_status: EvidenceStatus
    milestones: Annotated[tuple[Milestone, ...], Meta(min_length=1)]
    failures: Annotated[tuple[Failure, ...], Meta(min_length=1)]
    deploy: Deploy
    receipt: Receipt | None
