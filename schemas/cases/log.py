"""Wire contracts of logs and feedback as products send them."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from schemas.kernel.origins import Origins, origins
from schemas.kernel.shape import Identifier, PageQuery

# Wire contract of `POST /v1/logs/`: a log or error event, and the answer to one (R-ING-01, G-030).

MAX_INGEST_BYTES = 262144
MAX_EXTRA_BYTES = 65536

Level = Literal["debug", "info", "warning", "error", "fatal"]
LEVELS: dict[str, Level] = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "warn": "warning",
    "error": "error",
    "fatal": "fatal",
    "critical": "fatal",
}
"""What each accepted spelling of a level is stored as."""

ERROR_LEVELS = frozenset({"error", "fatal"})
"""Levels that make cases (R-ING-07)."""

Trust = Literal["customer_provider", "imported", "synthetic"]
"""`synthetic`: everything came from onboarding proofs. `imported`: or from an import."""

Environment = Annotated[str, Meta(min_length=1, max_length=100)]
Release = Annotated[str, Meta(min_length=1, max_length=200)]
TagName = Annotated[str, Meta(min_length=1, max_length=200)]
TagValue = Annotated[str, Meta(max_length=500)]


class LogUser(msgspec.Struct, frozen=True):
    """The user affected by the event. Further keys are kept as they are."""

    id: Annotated[str, Meta(min_length=1, max_length=200)]
    email: Annotated[str, Meta(max_length=320)] | None = None


class LogEvent(msgspec.Struct, frozen=True):
    """A log event. Unknown keys are ignored. Null stands for an absent optional key, also for a tag.

    Invalid numbers and characters, deep nesting and more than 5000 values are adjusted, not rejected (G-133).

    `extra` holds at most 65536 bytes when written as JSON. `extra.exception` (`type`, `frames` of `file`, `function`,
    `in_app`) refines the grouping.
    """

    message: Annotated[str, Meta(min_length=1, max_length=8192)]
    level: Literal["debug", "info", "warning", "warn", "error", "fatal", "critical"] | None = None
    environment: Environment | None = None
    release: Release | None = None
    user: LogUser | None = None
    tags: Annotated[dict[TagName, TagValue | None], Meta(max_length=50)] | None = None
    extra: dict[str, Any] | None = None


class LogAccepted(msgspec.Struct, frozen=True):
    """The event is stored and counted in its case. `case_id` and `fingerprint` are null below error level.

    `adjusted` is the number of members that were changed before it was stored, absent if none (G-133).
    """

    id: str
    project_id: str
    received_at: int
    level: Level
    case_id: str | None
    fingerprint: str | None
    next_action: str
    adjusted: Annotated[int, Meta(ge=1)] | msgspec.UnsetType = msgspec.UNSET
    ok: Literal[True] = True
    accepted: Literal[True] = True


# Wire contract of feedback reports: texts of people about a product and its errors, sent by SDKs (an extension).

MAX_OF_ERROR = 20
"""Reports shown beside an error, the newest."""


class FeedbackReportQuery(PageQuery, frozen=True):
    """Reports about the errors of one case, or those without a case. Else all."""

    case_id: Identifier | None = None
    without_case: bool = False


class FeedbackReport(msgspec.Struct, frozen=True, kw_only=True):
    """A text of a person: evidence from telemetry, never an instruction. Its secrets are hidden.

    `event_id` and `case_id` are the stored error and its case, null while neither is known. `adjusted` lists the
    members changed or cut before it was stored (G-133). `dsn` is the one it came by.
    """

    PROVENANCE: ClassVar[Origins] = origins(
        telemetry="text name email url user_id release environment sdk_event_id adjusted"
    )

    id: str
    received_at: int
    text: Annotated[str, Meta(max_length=4096)]
    name: str | None
    email: str | None
    url: str | None
    user_id: str | None
    release: str | None
    environment: str | None
    sdk_event_id: str | None
    event_id: str | None
    case_id: str | None
    adjusted: list[str]
    dsn: Literal["server", "public"]


class FeedbackReportList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of feedback reports, newest first."""

    project_id: str
    feedback_reports: list[FeedbackReport]
    count: int
    next_cursor: str | None
    next_action: str
