"""Wire contract of verification, its report, and answer contracts (R-INST-08 to R-INST-12, G-061, G-062, G-157)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.install.contract import GateCode
from schemas.kernel.shape import Closed, Epoch, EvidenceSource, HistoryCheck, Identifier
from schemas.onboarding.lifecycle import EvidenceStatus

GapWord = Literal["milestone_event_missing", "milestone_property_missing", "safe_error_missing"]
Count = Annotated[int, Meta(ge=0)]


class VerifyRequest(Closed, frozen=True):
    """An empty object, or no body."""


class GateFailure(msgspec.Struct, frozen=True):
    """A gate that stops the verification."""

    code: GateCode
    message: str


class ReadinessGap(msgspec.Struct, frozen=True):
    """An approved event, property or safe error that no data shows yet. The install works without it."""

    code: GapWord
    message: str


class DailyUse(msgspec.Struct, frozen=True, kw_only=True):
    """The next step of daily use (R-QRY-02, R-QRY-03). Without `reasons` against it, questions are asked."""

    state: Literal["queried", "needs_data_or_instrumentation"]
    reasons: list[str]


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal of the plan in the newest telemetry. `row_count` counts at most 200 rows of it.

    The name of an error is the marker of the plan's safe failure, that of a deploy is the environment.
    """

    kind: Literal["analytics", "error", "deploy"]
    name: str
    observed: bool
    row_count: Count
    last_seen_at: Epoch | None


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """The install as a verification would find it now.

    `verified_at` is the beginning of the recorded success, null without one. `answer_ready` needs a recorded success,
    or a verified source.
    """

    project_id: Identifier
    ok: bool
    status: Literal["verified", "blocked"]
    answer_ready: bool
    gate_failures: list[GateFailure]
    readiness_gaps: list[ReadinessGap]
    signals: list[Signal]
    evidence_status: EvidenceStatus
    evidence_source: EvidenceSource
    historical_evidence_check: HistoryCheck | None
    daily_use: DailyUse
    verified_at: Epoch | None
    generated_at: Epoch
    next_action: str


class InstallVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A verification. `ok` means that no gate failed. Gaps limit the questions, not the install.

    `verify_report` is the path of the report.
    """

    ok: bool
    project_id: Identifier
    status: Literal["verified", "blocked"]
    gate_failures: list[GateFailure]
    readiness_gaps: list[ReadinessGap]
    answer_ready: bool
    verified_at: Epoch | None
    verify_report: str
    next_action: str


class RequiredProperties(msgspec.Struct, frozen=True):
    """The properties that a question needs of an event."""

    event: str
    properties: list[str]


class AnswerBlocker(msgspec.Struct, frozen=True):
    """A missing event, or a missing property of it."""

    code: GapWord
    event: str
    property: str | None


class AnswerContract(msgspec.Struct, frozen=True, kw_only=True):
    """A question that the plan promises to answer, and the blueprint that answers it."""

    id: str
    question: str
    blueprint_id: str
    required_events: list[str]
    required_properties: list[RequiredProperties]
    status: Literal["ready", "blocked", "pending_real_data"]
    blockers: list[AnswerBlocker]


class AnswerContracts(msgspec.Struct, frozen=True, kw_only=True):
    """The questions of a project's signal map. None before there is one."""

    project_id: Identifier
    answer_contracts: list[AnswerContract]
    count: Count
    answer_ready: bool
    daily_use: DailyUse
    next_action: str
