"""Writers of the members of each shape in the results of tools, for shapes without `origins` (G-137, G-168)."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.kernel.origins import Origin

SERVER: Origin = "server_fact"
TELEMETRY: Origin = "untrusted_telemetry"
PROVIDER: Origin = "provider_read"
RUNNER: Origin = "runner_output"

_SAID = "level message release environment user tags exception breadcrumbs request adjusted"
_HELD = "contexts transaction server_name logger platform dist sdk fingerprint extra left_out"
WRITTEN: Mapping[str, Mapping[Origin, str]] = {
    "AffectedUser": {TELEMETRY: "user_id user_email"},
    "AlertShown": {TELEMETRY: "last_value"},
    "AnalyticsReceipt": {PROVIDER: "observed_properties row_count"},
    "CaseEvent": {TELEMETRY: _SAID},
    "CaseEventRecord": {TELEMETRY: f"{_SAID} {_HELD} frames unmapped_source_urls feedback"},
    "CaseItem": {TELEMETRY: "title level environment release"},
    "CommonTag": {TELEMETRY: "name"},
    "CommonValue": {TELEMETRY: "value"},
    "DeliveryBody": {TELEMETRY: "data"},
    "DeployRecord": {TELEMETRY: "version environment sha branch message source"},
    "ErrorReceipt": {PROVIDER: "observed_context row_count"},
    "EventName": {TELEMETRY: "event"},
    "ExperimentList": {PROVIDER: "experiments"},
    "FeatureFlagList": {PROVIDER: "feature_flags"},
    "FeedbackReport": {TELEMETRY: "text name email url user_id release environment sdk_event_id adjusted"},
    "HistoricalEvidence": {PROVIDER: "observations"},
    "LatestLog": {TELEMETRY: "level message"},
    "LoggedEvent": {TELEMETRY: "payload"},
    "Person": {TELEMETRY: "distinct_id email"},
    "PersonEvent": {TELEMETRY: "kind name level environment release adjusted"},
    "PersonSummary": {TELEMETRY: "distinct_id", PROVIDER: "recent_recordings"},
    "ProjectEvent": {TELEMETRY: "data"},
    "ProofEvent": {TELEMETRY: "payload"},
    "PropertyKey": {TELEMETRY: "event key types"},
    "PropertyKeys": {TELEMETRY: "events"},
    "PublicAnswer": {TELEMETRY: "rows"},
    "ReplayStanding": {PROVIDER: "status replay last_recording_at"},
    "ScheduledAlert": {TELEMETRY: "last_value"},
    "SessionRecordingList": {PROVIDER: "session_recordings"},
    "SourceMap": {TELEMETRY: "debug_id release source_url"},
    "StoredLog": {TELEMETRY: f"{_SAID} {_HELD}"},
    "SurveyList": {PROVIDER: "surveys stats", TELEMETRY: "responses"},
}
"""The members of a shape from others than the service."""


_OWN = """
AdapterItem AdapterList AgentAExecution AgentBExecution AlertList AnswerBlocker AnswerContract AnswerContracts
ApprovalList ApprovedState AuthType AutoMerge AutomationContract AutomationControl BillingState BillingStatus
BlueprintCatalog BlueprintEndpoints Breakdown Capabilities Capability CaseBudgets CaseCommon CaseEventList
CaseLimits CaseList CaseTrend CaseTrigger CaseUsers Charges Check ChunkUpload ClientMetadata Column ConsistencyProof
ContractAutomation Control ControlAutomation ControlBounds ControlBudget ControlContract ControlException
ControlOperation ControlReport ControlTruncation CredentialList CredentialMetadata CustomExecution CustomHost
DailyUse DataBoundary DataResidency Decision DecisionCheck DecisionInputs DecisionList DecisionThresholds
DeclaredScopes DeliveryItem DeliveryList Deploy DeployList DeployReceipt DisabledContract DsnBody EnableReceipt
ErrorCatalogue ErrorCatalogueEntry ErrorText ErrorToDraftPrAssertions ErrorToDraftPrBindings ErrorToDraftPrPolicy
Escalation EventGrouping EventNames Evidence EvidenceStatus Failure FeedbackReportList FenceEvent FrameworkVariables
Freshness Funnel GateFailure HostVariables HostedCi HostedCiExecution Included InclusionProof InstallContract
InstallStep InstallWay InvitationBody InvitationItem Invocation KeyItem KeyList Live LocalState LogPage Materiality
MemberItem MemberList Milestone NewCases NextAction NextOperation NextSteps NotKept OpenProofSession PauseAnswer
PersonStats Plan PlannedState Playbook PlaybookCatalog PlaybookEndpoints PlaybookRef PreflightCheck PreflightChecks
PrivacyDisclosure ProjectDay ProjectEventList ProjectHealth ProjectItem ProjectList ProjectSettings ProjectSetup
ProjectState ProjectUsers ProjectVariable ProofContract ProofHead ProofInclusion ProofLink ProofStream
ProviderExceptions ProvingState PublicQueries Publication PublicationList QueryBlueprint QuickStart Quota
ReadinessGap Ready Receipt RelatedOperation ReportBudgets ReportLimits ReportPlan ReportRunner RepositoryRunner
RequiredProperties ReviewRequired Root RunProof SatisfiedProofSession Schedule Scheduled SchemaDocument Scope
SdkFile SdkPackage SdkSettings SdkSnippet SdkVariable SentryNoRelease SentryProject SessionItem SessionList
SetupEndpoints SetupManifest SetupProject SetupReadiness SetupVariable Signal SignalMap Snapshot SourceMapList
SourceSnapshot SourceTarget StartedEffect StoredLogList Suggestion Suppression SuppressionList Surface Surfaces
TopicSchemas TrendBucket UnhandledCases Upgrade UpgradeOperation Usage UsageHistory UsageThisMonth UsageTotal
VerificationPolicy VerificationWindow VerifiedState VerifyReport WebhookDetail WebhookEvent WebhookEventList
WebhookHealth WebhookItem WebhookList WeeklyFunnelReviewAssertions WeeklyFunnelReviewBindings
WeeklyFunnelReviewPolicy Window Workflow
"""
OWN = frozenset(_OWN.split())
"""Shapes whose own members are all the service's: its counts and decisions, and the texts of members of a project."""
