"""Wire contracts of projects: DSN, settings, next steps, health."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from schemas.kernel import patterns
from schemas.kernel.origins import Origins, origins
from schemas.kernel.shape import Closed, DefaultLevel, Epoch, EvidenceSource, RequiredEvidence, Role

# Wire contracts of projects and their DSN (R-PROJ, G-023, G-026).

Alias = Annotated[int, Meta(ge=1, le=2**52)]


class CreateProject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Create a project. The caller becomes its owner."""

    name: Annotated[str, Meta(min_length=1, max_length=200, pattern=patterns.LABEL)]


class SdkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings for SDKs of other services (G-142).

    `sentry_dsn` is for those of Sentry, `posthog_host` and `posthog_key` for those of PostHog, and the others are the
    values of `OTEL_EXPORTER_OTLP_ENDPOINT` and `OTEL_EXPORTER_OTLP_HEADERS` for those of OpenTelemetry.
    """

    sentry_dsn: str
    posthog_host: str
    posthog_key: str
    otlp_endpoint: str
    otlp_headers: str


class DsnEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """A project by its id, with the endpoints that take its DSN.

    `alias` is the number by which SDKs call it, `sdks` what to paste into them; null where the DSN is.
    """

    id: str
    alias: Alias
    sdks: SdkSettings | None
    logs_url: str
    analytics_url: str
    deploys_url: str
    deploys_note: str


class ProjectCreatedBody(DsnEndpoints, frozen=True, kw_only=True):
    """A new project. Its DSNs are null in a replay of the request."""

    project_id: str
    name: str
    role: Role
    dsn: str | None
    dsn_prefix: str
    dsn_recoverable: bool
    public_dsn: str | None
    sdks_public: SdkSettings | None
    created_at: Epoch
    next_action: str


class ProjectItem(msgspec.Struct, frozen=True, kw_only=True):
    """A project as its members list it, never with the raw DSN."""

    id: str
    project_id: str
    alias: Alias
    name: str
    role: Role
    dsn_prefix: str
    dsn_recoverable: bool
    created_at: Epoch


class ProjectList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the caller's projects, newest first."""

    projects: list[ProjectItem]
    count: int
    next_cursor: str | None
    next_action: str


class DsnBody(msgspec.Struct, frozen=True, kw_only=True):
    """The DSNs, raw if a recovery copy exists, and the settings for SDKs of other services.

    `public_dsn_prefix` is null in a project without a public DSN.
    """

    project_id: str
    alias: Alias
    sdks: SdkSettings | None
    dsn_prefix: str
    raw_available: bool
    dsn: str | None
    public_dsn: str | None
    public_dsn_prefix: str | None
    sdks_public: SdkSettings | None
    verify_endpoint: str
    rotate_endpoint: str
    next_action: str


class VerifyDsn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Check a DSN against this project."""

    dsn: Annotated[str, Meta(min_length=1, max_length=1000)]


class DsnVerified(msgspec.Struct, frozen=True, kw_only=True):
    """The result. `parsed_project_id` is the project named in the text, whatever its key."""

    ok: bool
    project_id: str
    dsn_prefix: str
    parsed_project_id: str | None
    stored_for_recovery: bool
    next_action: str


class RotateDsn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Replace the DSN. The body is an empty object."""


class DsnRotatedBody(DsnEndpoints, frozen=True, kw_only=True):
    """The new DSN. `dsn` is null in a replay of the request."""

    name: str
    dsn: str | None
    dsn_recoverable: bool
    next_action: str


class PublicDsnRotatedBody(msgspec.Struct, frozen=True, kw_only=True):
    """The new public DSN, with the endpoints that take it. It is null in a replay of the request."""

    id: str
    alias: Alias
    name: str
    public_dsn: str | None
    public_dsn_prefix: str
    sdks_public: SdkSettings | None
    dsn_recoverable: bool
    logs_url: str
    analytics_url: str
    next_action: str


# Wire contract of the settings of a project (G-202).


ErrorProbability = Annotated[float, Meta(ge=0.001, le=0.5)]


class ChangeSettings(Closed, frozen=True, kw_only=True):
    """The settings to change. An absent member stays as it is."""

    accept_public_events: bool | msgspec.UnsetType = msgspec.UNSET
    default_level: DefaultLevel | msgspec.UnsetType = msgspec.UNSET
    frame_variables: bool | msgspec.UnsetType = msgspec.UNSET
    required_evidence_source: RequiredEvidence | msgspec.UnsetType | None = msgspec.UNSET
    maximum_error_probability: ErrorProbability | msgspec.UnsetType | None = msgspec.UNSET
    notification_titles: bool | msgspec.UnsetType = msgspec.UNSET


class ProjectSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in force. Before the first change, `etag`, `changed_at` and `changed_by` are null."""

    project_id: str
    accept_public_events: bool
    default_level: DefaultLevel
    frame_variables: bool
    required_evidence_source: RequiredEvidence | None
    maximum_error_probability: float | None
    notification_titles: bool
    etag: str | None
    changed_at: Epoch | None
    changed_by: str | None
    next_action: str


class ProjectSettingsChanged(ProjectSettings, frozen=True, kw_only=True):
    """The settings after a change, and the automations that it turned off because it permits more."""

    automations_disabled: list[str]


# Wire contract of what to do next in a project (R-PROJ-08 to R-PROJ-11, G-024).

SignalType = Literal["analytics", "errors", "deploys"]
Count = Annotated[int, Meta(ge=0)]


class ProjectState(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a project.

    A signal is in scope when the approved signal map names it or some of it has arrived. `signal_types` lists those in
    scope. `answer_ready`: the source or the install is verified, and every question of the signal map has its data.
    """

    signal_types: list[SignalType]
    analytics_scope: bool
    errors_scope: bool
    deploys_scope: bool
    analytics_configured: bool
    has_events: bool
    has_cases: bool
    has_deploys: bool
    install_verified: bool
    minimum_install_complete: bool
    readiness_complete: bool
    answer_ready: bool
    readiness_gaps_count: Count
    blocked_answer_contract_count: Count
    pending_real_data_count: Count


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """One suggestion. `requires` names the members of the state that must be true before it can be followed."""

    id: str
    title: str
    description: str
    prompt_template: str
    uses: list[str]
    estimated_seconds: Count
    requires: list[str]
    status: Literal["available", "preview", "coming_soon"]


class NextSteps(msgspec.Struct, frozen=True, kw_only=True):
    """The state, and the suggestions that follow from it, in the order in which to follow them."""

    project_state: ProjectState
    count: Count
    suggestions: list[Suggestion]
    next_steps: list[str]
    no_error_source: bool
    next_action: str


# Wire contract of a project's health (R-PROJ-12).

LogLevel = Literal["debug", "info", "warning"]
"""Of records in no case."""


class HealthQuery(msgspec.Struct, frozen=True):
    """How many days to show one by one, the present one included; by default none."""

    days: Annotated[int, Meta(ge=0, le=90)] = 0


class UsageThisMonth(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of the project in the current UTC month. `errors` counts every log event.

    `account_total_events` covers all projects of its account. The plan's cap applies to it.
    """

    period: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}$")]
    total_events: Count
    errors: Count
    analytics: Count
    deploys: Count
    account_total_events: Count


class ProjectDay(msgspec.Struct, frozen=True, kw_only=True):
    """The accepted records of one UTC day. `date` is its midnight."""

    date: Epoch
    total_events: Count
    errors: Count
    analytics: Count
    deploys: Count


class NewCases(msgspec.Struct, frozen=True, kw_only=True):
    """The number of cases opened by errors in the current hour, and its limit (G-136).

    New errors beyond `limit` are counted in the case `overflow_case_id`, null before the first, and so are those by the
    public DSN beyond `public_limit` (G-184).
    """

    hour_started_at: Epoch
    opened: Count
    limit: Count
    public_opened: Count
    public_limit: Count
    overflow_case_id: str | None


class WebhookHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The latest delivery of a webhook."""

    id: str
    last_status: int | None
    last_error: str | None


class NotKept(msgspec.Struct, frozen=True, kw_only=True):
    """Telemetry of one kind of the last 30 days that the service does not hold (G-194, G-195).

    `not_kept` was answered like what is kept, `refused` was refused, `lost_by_sdk` never came: the SDK says so.
    """

    protocol: Literal["sentry", "posthog", "opentelemetry"]
    kind: str
    outcome: Literal["not_kept", "refused", "lost_by_sdk"]
    count: Count
    last_at: Epoch


class LatestLog(msgspec.Struct, frozen=True, kw_only=True):
    """The newest record of a level below `error`. Its message is cut to 200 characters."""

    PROVENANCE: ClassVar[Origins] = origins(telemetry="level message")

    level: LogLevel
    message: str
    received_at: Epoch


class ProviderExceptions(msgspec.Struct, frozen=True, kw_only=True):
    """The reading of the connected provider's exceptions (G-182)."""

    read_to: Epoch | None
    stale: bool
    provider_exceptions_skipped: Count


class ProjectHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the project's data, and the conditions that need attention."""

    project_id: str
    last_event_received_at: Epoch | None
    last_deploy_at: Epoch | None
    seconds_since_last_event: Count | None
    open_cases: Count
    events_last_hour: Count
    usage_this_month: UsageThisMonth
    by_day: list[ProjectDay]
    new_cases: NewCases
    webhooks: list[WebhookHealth]
    not_kept: list[NotKept]
    latest_logs: list[LatestLog]
    default_level: DefaultLevel
    last_log_without_level_at: Epoch | None
    evidence_source: EvidenceSource
    provider_exceptions: ProviderExceptions | None
    no_error_source: bool
    next_action: str
