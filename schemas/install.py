"""Wire contracts of an install: contract, draft, report, verdict (G-061)."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from schemas.kernel.shape import Closed, Epoch, EvidenceSource, HistoryCheck, Identifier, Role
from schemas.onboarding import EvidenceStatus, Sha256, SourceSnapshot, SourceTarget

# Wire contract of the install contract and of a project's setup (R-INST-01 to R-INST-04, G-061).

InstallState = Literal["project_setup_loaded", "plan_drafted", "plan_approved", "implemented", "verified", "blocked"]
GateCode = Literal[
    "signal_map_missing",
    "implementation_report_missing",
    "no_events_received",
    "no_deploy_recorded",
    "no_error_received",
]


class InstallStep(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """A step of the flow: the operation that leads from one state to the next, and its condition."""

    from_: str
    method: Literal["GET", "POST", "PUT"]
    path: str
    to: str
    condition: str


Instrumentation = Literal["provider", "dsn"]


class InstallWay(msgspec.Struct, frozen=True):
    """A way to instrument a product (G-181)."""

    instrumentation: Instrumentation
    description: str
    guide: str


class InstallContract(msgspec.Struct, frozen=True, kw_only=True):
    """The install flow as a whole. Each operation of it is served here. `gates` stop a verification."""

    contract_version: Literal[3] = 3
    principle: str
    ways: list[InstallWay]
    states: list[str]
    operations: list[InstallStep]
    gates: list[GateCode]
    next_action: str


class SetupProject(msgspec.Struct, frozen=True, kw_only=True):
    """The project, the caller's role in it, and the first characters of its DSN."""

    name: str
    role: Role
    dsn_prefix: str


class ProjectVariable(msgspec.Struct, frozen=True, kw_only=True):
    """An environment variable. `where` it belongs: with the installing person, in the running product, or in CI.

    A value is never shown.
    """

    name: str
    secret: bool
    required: bool
    where: Literal["owner", "runtime", "ci"]


class SetupEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses to send telemetry and deploys to."""

    logs: str
    analytics: str
    deploys: str
    browser_config: str


class SetupReadiness(msgspec.Struct, frozen=True, kw_only=True):
    """The arrivals so far."""

    has_events: bool
    has_deploys: bool
    install_verified: bool


class ProjectSetup(msgspec.Struct, frozen=True, kw_only=True):
    """All that an installation in a product needs to know, but the secrets."""

    project_id: Identifier
    project: SetupProject
    install_state: InstallState
    instrumentation: Instrumentation
    env: list[ProjectVariable]
    endpoints: SetupEndpoints
    readiness: SetupReadiness
    evidence_source: EvidenceSource
    historical_evidence_check: HistoryCheck | None
    docs: str
    next_action: str


# Wire contract of drafting a plan and reporting its implementation (R-INST-05, R-INST-07, G-061, G-156).

Label = Annotated[str, Meta(min_length=1, max_length=100)]


class DraftRequest(Closed, frozen=True, kw_only=True):
    """A business question to plan for. `surfaces` are parts of the product, such as browser or server.

    Only the question gets into the draft, and nothing of the request is kept.
    """

    project_id: Identifier
    business_question: Annotated[str, Meta(min_length=1, max_length=1000)]
    frameworks: Annotated[tuple[Label, ...], Meta(max_length=20)] = ()
    surfaces: Annotated[tuple[Label, ...], Meta(max_length=20)] = ()
    notes: Annotated[str, Meta(max_length=4000)] | msgspec.UnsetType = msgspec.UNSET


class PlanDrafted(msgspec.Struct, frozen=True, kw_only=True):
    """A skeleton with the members of a plan. Each null is a place to fill, and `PUT …/signal-map` refuses it."""

    project_id: Identifier
    status: Literal["plan_drafted"]
    draft_plan: dict[str, Any]
    checklist: list[str]
    next_action: str


class ReportedTest(Closed, frozen=True):
    """A test command and its result."""

    command: Annotated[str, Meta(min_length=1, max_length=1000)]
    passed: bool


class ReportRequest(Closed, frozen=True, kw_only=True):
    """The places where the plan of the signal map is implemented, in a source tree, with tests."""

    plan_sha256: Sha256
    source_snapshot: SourceSnapshot
    files: Annotated[tuple[SourceTarget, ...], Meta(min_length=1, max_length=500)]
    summary_md: Annotated[str, Meta(max_length=16384)] | msgspec.UnsetType = msgspec.UNSET
    tests: Annotated[tuple[ReportedTest, ...], Meta(max_length=100)] = ()


class ReportStored(msgspec.Struct, frozen=True, kw_only=True):
    """The latest report. `revision` counts the reports of the project, `status` is the state of the install flow."""

    project_id: Identifier
    revision: Annotated[int, Meta(ge=1)]
    plan_sha256: Sha256
    status: InstallState
    updated_at: Epoch
    source_snapshot: SourceSnapshot
    files: tuple[SourceTarget, ...]
    summary_md: str | None
    tests: tuple[ReportedTest, ...]
    next_action: str


# Wire contract of verification, its report, and answer contracts (R-INST-08 to R-INST-12, G-061, G-062, G-157).

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
