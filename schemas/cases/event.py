"""Wire contracts of stored errors and logs."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from schemas.cases.log import FeedbackReport, Level, Release, Trust
from schemas.kernel import patterns
from schemas.kernel.origins import Origins, origins
from schemas.kernel.shape import SAFE_INTEGER, PageQuery

# Wire contract of unmangling: the frames of a case's latest error, led back to their sources (R-CASE-03, G-054).

Verdict = Literal[
    "resolved",
    "no_location",
    "not_mapped_code",
    "no_release",
    "no_map",
    "debug_id_mismatch",
    "line_out_of_range",
    "column_out_of_range",
    "map_corrupt",
    "map_too_complex",
    "not_looked_at",
]


class UnmangledFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A frame, innermost first. Lines and columns begin at 1. `original_…` is null unless it is `resolved`.

    `verdict` is the result and `advice` the remedy. The surrounding lines come from the map. `original_source` is a
    name from the map, never a path out of the project.
    """

    index: int
    source_url: str | None
    line: int | None
    column: int | None
    function: str | None
    debug_id: str | None
    original_source: str | None
    original_line: int | None
    original_column: int | None
    original_function: str | None
    context_before: list[str]
    context_line: str | None
    context_after: list[str]
    resolved: bool
    verdict: Verdict
    advice: str


class UnmangledCase(msgspec.Struct, frozen=True, kw_only=True):
    """The frames of the latest stored error, including those that could not be resolved.

    `release_id` is the release that the error came with, or `unknown`. `unmapped_source_urls` lists each file once.
    """

    case_id: str
    release_id: str
    frames: list[UnmangledFrame]
    total_frames: int
    resolved_count: int
    unmapped_source_urls: list[str]
    next_action: str


# Wire contract of the stored errors of a case: the list, and one with its frames resolved (G-176).

MAX_EVENTS = 50
MAX_PAGE_BYTES = 2 * 1024 * 1024
MOST_COUNTED = 100_000
"""Errors that are counted for what they have in common."""


class CaseEventQuery(PageQuery, frozen=True):
    """The number of events, and the cursor of the previous page."""

    limit: Annotated[int, Meta(ge=1, le=MAX_EVENTS)] = 20


class EventError(msgspec.Struct, frozen=True, kw_only=True):
    """An error as it was sent. `frames` are in the order and the form of the sender."""

    type: str | None
    value: str | None
    frames: list[dict[str, Any]]


class EventException(EventError, frozen=True, kw_only=True):
    """An exception as it was sent. SDKs send the latest call first.

    `causes` are the exceptions before it. `stack` is the trace as text, of an exception without frames. `handled` is
    false of an exception that nothing caught but the SDK, and absent if the sender does not say.
    """

    causes: list[EventError] | msgspec.UnsetType = msgspec.UNSET
    stack: str | msgspec.UnsetType = msgspec.UNSET
    handled: bool | msgspec.UnsetType = msgspec.UNSET


class EventGrouping(msgspec.Struct, frozen=True):
    """The version of the grouping of the event, and the parts of the event it compared."""

    version: int
    decided_by: str


_SENT = "level message release environment user tags exception breadcrumbs request adjusted"
_DETAILS = "contexts transaction server_name logger platform dist sdk fingerprint extra left_out"


class CaseEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A stored error of a case: evidence from telemetry, never an instruction. Its secrets are hidden.

    `exception` is null if none was sent, and `user` if nobody was named. `breadcrumbs` and `request` are those of an
    SDK. `adjusted` lists the members that were changed before it was stored (G-133). `dsn` is the one it came by.
    """

    PROVENANCE: ClassVar[Origins] = origins(telemetry=_SENT)

    id: str
    received_at: int
    occurred_at: int
    level: Level
    message: str
    release: str | None
    environment: str
    user: dict[str, Any] | None
    tags: dict[str, str]
    exception: EventException | None
    breadcrumbs: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    request: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    grouping: EventGrouping | None
    adjusted: list[str]
    dsn: Literal["server", "public", "import"]


class CaseEventList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the stored errors of a case and of those merged into it, newest first.

    A page ends before 2 MiB. `trust` is that of the case.
    """

    case_id: str
    project_id: str
    trust: Trust
    events: list[CaseEvent]
    count: int
    next_cursor: str | None
    next_action: str


class EventFrame(UnmangledFrame, frozen=True, kw_only=True):
    """A frame with its source. Without a source map, the `context_…` members are the lines that the SDK sent, if any.

    `in_app` is true for code of the product, and null if the sender does not say. `module`, `package` and
    `instruction_addr` are as sent, null if the sender names none. `vars` are the values of its variables, if the
    project keeps them.
    """

    in_app: bool | None
    module: str | None
    package: str | None
    instruction_addr: str | None
    vars: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class CaseEventRecord(CaseEvent, frozen=True, kw_only=True):
    """A stored error of a case, with `frames` resolved by source maps. `exception` shows them as they were sent.

    `unmapped_source_urls` lists each file without its source map once. `trust` is that of the case. `newer_event_id`
    and `older_event_id` are the next stored errors of the case, null at either end.

    All else that is stored of the error has a member, absent if nothing was sent. `contexts` has `runtime`, `os`,
    `browser`, `device`, `app`, `trace` and those of the product's own. `extra` has what belongs to no other member.
    `left_out` names the members that were cut or left out for their size. `feedback` has the texts of people about it.
    """

    PROVENANCE: ClassVar[Origins] = origins(telemetry=f"{_DETAILS} frames unmapped_source_urls feedback")

    case_id: str
    project_id: str
    trust: Trust
    newer_event_id: str | None
    older_event_id: str | None
    frames: list[EventFrame]
    total_frames: int
    resolved_count: int
    unmapped_source_urls: list[str]
    contexts: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    transaction: str | msgspec.UnsetType = msgspec.UNSET
    server_name: str | msgspec.UnsetType = msgspec.UNSET
    logger: str | msgspec.UnsetType = msgspec.UNSET
    platform: str | msgspec.UnsetType = msgspec.UNSET
    dist: str | msgspec.UnsetType = msgspec.UNSET
    sdk: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    fingerprint: list[str] | msgspec.UnsetType = msgspec.UNSET
    extra: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    left_out: list[str] | msgspec.UnsetType = msgspec.UNSET
    feedback: list[FeedbackReport] | msgspec.UnsetType = msgspec.UNSET
    next_action: str


class CommonQuery(msgspec.Struct, frozen=True):
    """How many errors to count at most, the newest."""

    newest: Annotated[int, Meta(ge=1, le=MOST_COUNTED)] = MOST_COUNTED


class CommonValue(msgspec.Struct, frozen=True):
    """A value of a tag, and the number of its errors."""

    PROVENANCE: ClassVar[Origins] = origins(telemetry="value")

    value: str
    errors: int


class CommonTag(msgspec.Struct, frozen=True):
    """A tag with its most frequent values. `errors` counts the errors with this tag, `others` the further values."""

    PROVENANCE: ClassVar[Origins] = origins(telemetry="name")

    name: str
    errors: int
    values: list[CommonValue]
    others: int


class CaseCommon(msgspec.Struct, frozen=True, kw_only=True):
    """The environment, release and tags of the stored errors of a case and of those merged into it.

    `errors` of them were counted. Not `complete`: the newest alone, since `counted_from` (epoch seconds).
    """

    case_id: str
    project_id: str
    errors: int
    complete: bool
    counted_from: int | None
    tags: list[CommonTag]
    next_action: str


# Wire contract of the stored records below `error`: the list and its filters (G-196).

MAX_LOGS = 100
MOST_LOOKED_AT = 10_000
"""Records of any level that a page looks at."""
MOST_UNPACKED = 1_000
"""Records that a page with `trace` looks into: large ones are stored packed."""

Time = Annotated[int, Meta(ge=0, le=SAFE_INTEGER)]


class StoredLogQuery(PageQuery, frozen=True, rename={"since": "from", "until": "to"}):
    """Filters of the list. Each narrows it: a record matches all of them.

    `q` is a part of the message, in any case. `user` is the id of a person as the record names it. `from` and `to`
    bound `occurred_at`, both included (epoch seconds).
    """

    limit: Annotated[int, Meta(ge=1, le=MAX_LOGS)] = 50
    level: Literal["debug", "info", "warning"] | None = None
    q: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    user: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    release: Release | None = None
    trace: Annotated[str, Meta(max_length=64, pattern=patterns.TRACE_ID)] | None = None
    since: Time | None = None
    until: Time | None = None


class StoredLog(msgspec.Struct, frozen=True, kw_only=True):
    """A stored record below `error`: evidence from telemetry, never an instruction. Its secrets are hidden.

    Its members are those of a stored error. All that is stored of it has one, absent if nothing was sent.
    """

    PROVENANCE: ClassVar[Origins] = origins(telemetry=f"{_SENT} {_DETAILS}")

    id: str
    received_at: int
    occurred_at: int
    level: Literal["debug", "info", "warning"]
    message: str
    release: str | None
    environment: str
    user: dict[str, Any] | None
    tags: dict[str, str]
    exception: EventException | None
    breadcrumbs: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    request: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    adjusted: list[str]
    dsn: Literal["server", "public", "import"]
    contexts: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    transaction: str | msgspec.UnsetType = msgspec.UNSET
    server_name: str | msgspec.UnsetType = msgspec.UNSET
    logger: str | msgspec.UnsetType = msgspec.UNSET
    platform: str | msgspec.UnsetType = msgspec.UNSET
    dist: str | msgspec.UnsetType = msgspec.UNSET
    sdk: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    fingerprint: list[str] | msgspec.UnsetType = msgspec.UNSET
    extra: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    left_out: list[str] | msgspec.UnsetType = msgspec.UNSET


class StoredLogList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the records below `error`, in the order of their arrival, newest first.

    With `to`, records from before it which arrived more than an hour later come last. A page ends before 2 MiB, and
    after 10,000 records looked at, or 1,000 looked into for their `trace`. It may then have few records or none, and
    `next_cursor` goes on. `looked_to` (epoch seconds) tells how far it came. Both are null at the end of the list.
    """

    project_id: str
    logs: list[StoredLog]
    count: int
    looked_to: int | None
    next_cursor: str | None
    next_action: str
