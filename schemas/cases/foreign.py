"""Wire contracts of answers to the clients of Sentry, PostHog and OpenTelemetry (G-142)."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from schemas.kernel import patterns

# Wire contract of uploads, releases and deploys by `sentry-cli`: names and shapes of its protocol (G-142).

Sha1 = Annotated[str, Meta(pattern=patterns.SHA1)]


class ChunkUpload(msgspec.Struct, frozen=True, kw_only=True):
    """The settings for uploading parts of bundles. Sizes are in bytes."""

    url: str
    chunkSize: int  # noqa: N815 - so the protocol calls it
    chunksPerRequest: int  # noqa: N815
    maxFileSize: int  # noqa: N815
    maxRequestSize: int  # noqa: N815
    concurrency: int = 1
    hashAlgorithm: str = "sha1"  # noqa: N815
    compression: tuple[str, ...] = ("gzip",)
    accept: tuple[str, ...] = ("release_files", "artifact_bundles", "artifact_bundles_v2")


class ChunksStored(msgspec.Struct, frozen=True):
    """The SHA-1 of each part that is kept now."""

    stored: list[str]


class AssembleBundle(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle: the SHA-1 of the whole and of its parts in order. Unknown keys are ignored.

    `projects` are ids of projects and `version` is the release.
    """

    checksum: Sha1
    chunks: Annotated[list[Sha1], Meta(min_length=1, max_length=200)]
    projects: Annotated[list[str], Meta(max_length=10)] = []
    version: Annotated[str, Meta(min_length=1, max_length=200, pattern=patterns.LABEL)] | None = None


class Assembled(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a bundle: parts missing, stored, or failed with a reason."""

    state: Literal["not_found", "ok", "error"]
    missingChunks: list[str]  # noqa: N815 - so the protocol calls it
    detail: str | None


_Moment = Annotated[str, Meta(min_length=1, max_length=40)] | None
_Projects = Annotated[list[str], Meta(max_length=10)]
_Release = Annotated[str, Meta(min_length=1, max_length=200)]


class SentryNewRelease(msgspec.Struct, frozen=True, kw_only=True):
    """A release that begins. `projects` are ids of projects. Unknown keys are ignored."""

    version: _Release
    projects: _Projects = []
    dateReleased: _Moment = None  # noqa: N815


class SentryReleaseChange(msgspec.Struct, frozen=True, kw_only=True):
    """A release that is finished or gets its commits. Commits and unknown keys are ignored."""

    projects: _Projects = []
    dateReleased: _Moment = None  # noqa: N815


class SentryProject(msgspec.Struct, frozen=True):
    """A project by its id."""

    slug: str
    name: str


class SentryRelease(msgspec.Struct, frozen=True, kw_only=True):
    """The release as it was sent. None of it is stored. Times are ISO 8601."""

    version: str
    dateCreated: str  # noqa: N815
    dateReleased: str | None  # noqa: N815
    projects: list[SentryProject]
    newGroups: int = 0  # noqa: N815


class SentryNoRelease(msgspec.Struct, frozen=True):
    """No release."""


class SentryNewDeploy(msgspec.Struct, frozen=True, kw_only=True):
    """A deploy that happened. `projects` are ids of projects, and may be left out with a CI credential."""

    environment: Annotated[str, Meta(min_length=1, max_length=160)]
    name: Annotated[str, Meta(max_length=2000)] | None = None
    url: Annotated[str, Meta(max_length=2000)] | None = None
    dateStarted: _Moment = None  # noqa: N815
    dateFinished: _Moment = None  # noqa: N815
    projects: _Projects | None = None


class SentryDeploy(msgspec.Struct, frozen=True, kw_only=True):
    """The deploy, as it is recorded. Address and times are those of the request, and are not stored."""

    environment: str
    name: str | None
    url: str | None
    dateStarted: str | None  # noqa: N815
    dateFinished: str | None  # noqa: N815


# Wire contract of the answers to PostHog's SDKs. PostHog describes the requests (G-142).

MAX_POSTHOG_BYTES = 20 * 1024 * 1024
"""Of a body, as it is sent and once its content coding is taken off."""

MAX_EVENT_BYTES = 1024 * 1024
"""Of one event."""

MAX_EVENTS = 10_000
"""Of one body."""

MAX_QUESTION_BYTES = 1024 * 1024
"""Of a body that asks for flags, as it is sent and once its content coding is taken off."""

Refused = Annotated[int, Meta(ge=1)] | msgspec.UnsetType


class PosthogAccepted(msgspec.Struct, frozen=True):
    """All events are stored, except those `refused`. Do not retry those."""

    status: Annotated[int, Meta(ge=1, le=1)]
    refused: Refused = msgspec.UNSET


class PosthogCaptured(msgspec.Struct, frozen=True):
    """The same, in the form of their newest route."""

    status: Literal["Ok"]
    refused: Refused = msgspec.UNSET


class PosthogFlags(msgspec.Struct, frozen=True, kw_only=True):
    """No flags, no session recording and no configuration: an SDK keeps its defaults."""

    flags: dict[str, Any] = {}
    featureFlags: dict[str, bool] = {}  # noqa: N815 - a name of theirs, as all below
    featureFlagPayloads: dict[str, Any] = {}  # noqa: N815
    errorsWhileComputingFlags: bool = False  # noqa: N815
    sessionRecording: bool = False  # noqa: N815
    surveys: bool = False
    heatmaps: bool = False
    capturePerformance: bool = False  # noqa: N815
    autocaptureExceptions: bool = False  # noqa: N815
    isAuthenticated: bool = False  # noqa: N815
    hasFeatureFlags: bool = False  # noqa: N815
    siteApps: list[str] = []  # noqa: N815
    supportedCompression: tuple[str, ...] = ("gzip", "gzip-js", "base64")  # noqa: N815


# Wire contract of the answers to Sentry's SDKs. Sentry describes the requests (G-142).

MAX_ENVELOPE_BYTES = 20 * 1024 * 1024
"""Of an envelope as it is sent."""

MAX_UNPACKED_BYTES = 40 * 1024 * 1024
"""Of an envelope once its content coding is taken off."""


class SentryAccepted(msgspec.Struct, frozen=True, omit_defaults=True):
    """The event with this id is stored and counted in its case. The id is absent for an envelope without event."""

    id: str | msgspec.UnsetType = msgspec.UNSET


class SentryReportQuery(msgspec.Struct, frozen=True):
    """Parameters of the address to which browsers report."""

    sentry_release: str | None = None
    sentry_environment: str | None = None


class SentryReported(msgspec.Struct, frozen=True, omit_defaults=True):
    """All reports are stored or counted, except those `refused`."""

    refused: Refused = msgspec.UNSET


class SentryUserText(msgspec.Struct, frozen=True):
    """A text that a person wrote on an error."""

    event_id: str
    comments: str
    name: str | None = None
    email: str | None = None


class SentryUserReport(msgspec.Struct, frozen=True):
    """The text of a person is stored as it stands here, without secrets."""

    event_id: str = msgspec.field(name="eventID")
    comments: str
    name: str | None
    email: str | None


# Wire contract of the answers to an OpenTelemetry exporter. In protobuf the messages are the same (G-142).


class ExportLogsPartialSuccess(msgspec.Struct, frozen=True, rename="camel"):
    """The number of log records of an export that were rejected, as text, and the reason.

    With none rejected, a warning: it names unread members, and those of an older form (G-206).
    """

    rejected_log_records: str
    error_message: str


class ExportLogsAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to an export. Without `partialSuccess` every record is stored whole."""

    partial_success: ExportLogsPartialSuccess | msgspec.UnsetType = msgspec.UNSET


class ExportStatus(msgspec.Struct, frozen=True):
    """An error as google.rpc.Status: the gRPC code, and a message that begins with this service's error code."""

    code: int
    message: str


# Wire contract of the import of exported events of Sentry, GlitchTip and Bugsink.

MAX_IMPORT_BYTES = 4 * MAX_EVENT_BYTES
MAX_IMPORTED_EVENTS = 100

IssueState = Literal["unresolved", "resolved", "ignored"]
ImportOutcome = Literal["imported", "already_there", "too_old", "malformed"]


class ExportedEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event of an export, and the state of its issue there."""

    event: Annotated[str, Meta(min_length=2, max_length=MAX_EVENT_BYTES)]
    state: IssueState = "unresolved"


class ImportEvents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Exported events. With `dry_run` nothing is stored."""

    events: Annotated[list[ExportedEvent], Meta(min_length=1, max_length=MAX_IMPORTED_EVENTS)]
    dry_run: bool = False


class ImportedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an event. `case_id` names its case once it was imported, if it is an error."""

    event_id: str | None
    outcome: ImportOutcome
    case_id: str | None
    reason: str | None


class EventsImported(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of each event, in their order, and how many have which."""

    project_id: str
    dry_run: bool
    retention_days: int
    imported: int
    already_there: int
    too_old: int
    malformed: int
    events: list[ImportedEvent]
    next_action: str
