"""Wire contracts of analytics: events and their names, questions and answers, blueprints, connections."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.kernel import patterns
from schemas.kernel.origins import Origins, origins
from schemas.kernel.shape import SAFE_INTEGER, Closed, Epoch, Identifier, QuestionSource, SafeEpoch

# What every answered question has: columns beside its rows, what it rests on, and how fresh that is (G-065, G-152).

ColumnType = Literal["integer", "number", "string", "epoch", "boolean", "json"]


class Column(msgspec.Struct, frozen=True):
    """A column of the rows. An `epoch` is in seconds, UTC. `unit` is null where there is none."""

    name: str
    type: ColumnType
    unit: str | None
    description: str


class Evidence(msgspec.Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """The basis of the rows. The window is half-open: `from` is included and `to` is not.

    `complete` is false where the window begins before `kept_from`, the first second that is still kept, or where not
    all records were counted. `kept_from` is null where the service removes nothing or the provider decides. The receipt
    is the SHA-256 of the canonical question and rows.
    """

    source: QuestionSource
    since: Epoch
    until: Epoch
    params: dict[str, Any]
    complete: bool
    kept_from: Epoch | None
    query_receipt_sha256: Annotated[str, Meta(pattern=patterns.SHA256)]


class Freshness(msgspec.Struct, frozen=True):
    """Time of the read, and of the newest record of its source in the project: null without one."""

    as_of: Epoch
    last_event_at: Epoch | None
    lag_seconds: Annotated[int, Meta(ge=0)] | None


# Wire contract of `POST /v1/analytics/` and of the browser configuration (R-ING-02, R-ING-05, G-030).


class AnalyticsEvent(msgspec.Struct, frozen=True):
    """A product event. Names are opaque. Unknown keys are ignored (R-ONB-10).

    Invalid numbers and characters, deep nesting and more than 5000 values are adjusted, not rejected (G-133).
    """

    event: Annotated[str, Meta(min_length=1, max_length=200)]
    distinct_id: Annotated[str, Meta(min_length=1, max_length=200)]
    properties: Annotated[dict[str, Any], Meta(max_length=200)] | None = None


class AnalyticsAccepted(msgspec.Struct, frozen=True):
    """The event is stored. `adjusted` is the number of members that were changed before it was stored (G-133)."""

    id: str
    project_id: str
    received_at: int
    event: str
    next_action: str
    adjusted: Annotated[int, Meta(ge=1)] | msgspec.UnsetType = msgspec.UNSET
    ok: Literal[True] = True
    accepted: Literal[True] = True


class BrowserReplay(msgspec.Struct, frozen=True, omit_defaults=True):
    """The session recording setting of a browser. `reason` is set when recording is off."""

    enabled: bool
    provider: str
    token: str | msgspec.UnsetType = msgspec.UNSET
    api_host: str | msgspec.UnsetType = msgspec.UNSET
    reason: str | msgspec.UnsetType = msgspec.UNSET


class BrowserConfig(msgspec.Struct, frozen=True):
    """The settings that a browser reads before it captures."""

    ok: bool
    replay: BrowserReplay
    next_action: str


# Wire contract of names of events and keys of their properties, without a value (R-QRY-05, G-064, G-155).

MAX_NAMES = 20
"""Names of events in `events`."""

JsonType = Literal["array", "boolean", "null", "number", "object", "string"]


class EventNamesQuery(msgspec.Struct, frozen=True):
    """The window in days, and the number of names. `trend` adds the last days of each."""

    days: Annotated[int, Meta(ge=1, le=90)] = 30
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200
    trend: bool = False


class PropertyKeysQuery(msgspec.Struct, frozen=True):
    """The window in days, the number of keys, and the events: at most 20 names with commas between them."""

    days: Annotated[int, Meta(ge=1, le=90)] = 30
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200
    events: Annotated[str, Meta(min_length=1, max_length=4019)] | None = None


class EventName(msgspec.Struct, frozen=True, kw_only=True):
    """The rows and people of an event name within the window, and the times of its first and last row.

    `unique_users` is null for a name with too many rows to count people in. Ask for fewer days then. `trend` has the
    rows of each of the last 14 UTC days, the present one last, whatever the window is. It is absent unless it was asked
    for, and where a connected provider answers.
    """

    PROVENANCE: ClassVar[Origins] = origins(telemetry="event")

    event: str
    row_count: int
    unique_users: int | None
    first_seen_at: Epoch
    last_seen_at: Epoch
    trend: list[int] | msgspec.UnsetType = msgspec.UNSET


class EventNames(msgspec.Struct, frozen=True, kw_only=True):
    """The names of a project's events within `window_days`, most rows first, then by name.

    All numbers count since `counted_from`. `complete` is false for a window with an earlier start, and for one with a
    day of more than 1,000 names.
    """

    project_id: str
    window_days: int
    analytics_events: list[EventName]
    count: int
    counted_from: Epoch
    complete: bool
    next_action: str


class PropertyKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key of an event's properties with its rows and the JSON types of its values."""

    PROVENANCE: ClassVar[Origins] = origins(telemetry="event key types")

    event: str
    key: str
    row_count: int
    types: list[JsonType]


class PropertyKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of the properties of events within `window_days`, most rows first, then by event and key. No values.

    `events` repeats the names of the request, and null means all. All numbers count since `counted_from`. `complete` is
    false for a window with an earlier start, and for one with a day of more than 5,000 keys or a key of more than 160
    characters.
    """

    PROVENANCE: ClassVar[Origins] = origins(telemetry="events")

    project_id: str
    window_days: int
    events: list[str] | None
    keys: list[PropertyKey]
    count: int
    counted_from: Epoch
    complete: bool
    next_action: str


# Wire contracts of query blueprints: the catalogue, and a run (G-065, G-152, G-153).

MAX_LIMIT = 10_000
Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Rows at most.")]


class BlueprintEndpoints(msgspec.Struct, frozen=True):
    """The operations that show and run a blueprint."""

    detail: str
    run: str


class QueryBlueprint(msgspec.Struct, frozen=True, kw_only=True):
    """A named question. `required_events` are its parameters that name events: these have to have been received."""

    blueprint_id: str
    title: str
    description: str
    version: Literal["1.0.0"] = "1.0.0"
    params_schema: dict[str, Any]
    columns: tuple[Column, ...]
    required_events: list[str]
    max_rows: int
    endpoints: BlueprintEndpoints
    next_action: str


class BlueprintCatalog(msgspec.Struct, frozen=True):
    """Every blueprint, whole."""

    blueprints: list[QueryBlueprint]
    count: int
    next_action: str


class RunBlueprint(Closed, frozen=True, rename={"since": "from", "until": "to"}):
    """A run. Unknown parameters are ignored. With `from` or `to`, which are half-open, `params.days` must be absent."""

    params: dict[str, Any] = msgspec.field(default_factory=dict)
    since: SafeEpoch | UnsetType = UNSET
    until: SafeEpoch | UnsetType = UNSET
    limit: Limit = 1000


class BlueprintRun(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a run, with what they rest on. `truncated`: there are more than the limit."""

    PROVENANCE: ClassVar[Origins] = origins(telemetry="rows")
    project_id: str
    blueprint_id: str
    rows: list[dict[str, Any]]
    columns: tuple[Column, ...]
    row_count: Annotated[int, Meta(ge=0)]
    truncated: bool
    evidence: Evidence
    freshness: Freshness
    next_action: str


# Wire contract of analytics queries: fields and aggregates by name, or one select for a provider (G-066, G-154).

MAX_KEY = 160
"""Characters of the key of a property or tag."""
MAX_IN = 100
MAX_SELECT, MAX_FILTERS, MAX_BY = 20, 20, 5
MAX_VALUE = 2000
MAX_QUERY = 20_000

FieldName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_KEY + len("properties."),
        description=(
            "Events: id, event, distinct_id, received_at, occurred_at, properties.<key>. Errors: id, case_id, "
            "fingerprint, level, environment, release, user_id, received_at, occurred_at, tags.<key>. Deploys: id, "
            "version, environment, sha, branch, source, trusted, automation_run_id, recorded_at. A key is whatever "
            "follows the first dot."
        ),
    ),
]
Alias = Annotated[str, Meta(pattern=patterns.COLUMN_NAME, description="Name of the column.")]
_SCALAR = {"anyOf": [{"type": "string", "maxLength": MAX_VALUE}, {"type": "number"}, {"type": "boolean"}]}
Value = Annotated[
    Any,
    Meta(
        description="A text, number or boolean. An array of them for `in`, a boolean for `exists`.",
        extra_json_schema={
            "anyOf": [*_SCALAR["anyOf"], {"type": "array", "items": _SCALAR, "minItems": 1, "maxItems": MAX_IN}]
        },
    ),
]
Operator = Literal["eq", "neq", "in", "gt", "gte", "lt", "lte", "exists", "contains"]


class SelectItem(Closed, frozen=True, kw_only=True, rename={"as_": "as"}):
    """A column: `field` alone, or `fn` with `as`. Without a field `count` counts rows, with one those that have it."""

    field: FieldName | UnsetType = UNSET
    fn: Literal["count", "unique"] | UnsetType = UNSET
    as_: Alias | UnsetType = UNSET


class Filter(Closed, frozen=True, kw_only=True):
    """A condition on one field. All conditions have to hold."""

    field: FieldName
    op: Operator
    value: Value


class Ordering(Closed, frozen=True, kw_only=True):
    """An order of the rows: by a column or a field. Rows that lack the value come last."""

    field: FieldName
    direction: Literal["asc", "desc"]


class QueryInput(Closed, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """Either `source` and `select` with all that belongs to them, or `query` alone: one select for the provider.

    The window is half-open: 30 days that end now unless `from` or `to` says otherwise, at most 366 days. It goes by
    `occurred_at`, of deploys by `recorded_at`, and of a provider's events by `received_at`.
    """

    source: Literal["events", "errors", "deploys"] | UnsetType = UNSET
    select: Annotated[list[SelectItem], Meta(min_length=1, max_length=MAX_SELECT)] | UnsetType = UNSET
    filters: Annotated[list[Filter], Meta(max_length=MAX_FILTERS)] | UnsetType = UNSET
    group_by: Annotated[list[FieldName], Meta(max_length=MAX_BY)] | UnsetType = UNSET
    order_by: Annotated[list[Ordering], Meta(max_length=MAX_BY)] | UnsetType = UNSET
    since: SafeEpoch | UnsetType = UNSET
    until: SafeEpoch | UnsetType = UNSET
    limit: Limit | UnsetType = UNSET
    query: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=MAX_QUERY,
                description=(
                    "One select over events, persons or sessions of the connected provider, in its dialect of SQL. At "
                    "most 1,000 rows come back."
                ),
            ),
        ]
        | UnsetType
    ) = UNSET


class QueryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a query and their basis. The window of a text is all time up to the read."""

    PROVENANCE: ClassVar[Origins] = origins(telemetry="rows")
    project_id: str
    rows: list[dict[str, Any]]
    columns: tuple[Column, ...]
    row_count: Annotated[int, Meta(ge=0)]
    truncated: bool
    evidence: Evidence
    freshness: Freshness
    next_action: str


# Wire contracts of connecting the customer's analytics provider, read-only (G-022).

REQUIRED_SCOPES = ("project:read", "query:read")
READ_SCOPES = (
    *REQUIRED_SCOPES,
    "session_recording:read",
    "feature_flag:read",
    "survey:read",
    "experiment:read",
)
"""All scopes that are asked for. Without one of the others, the list that needs it is empty (G-164)."""
CONNECT_SECONDS = 900  # lifetime of a pending authorization
POLL_INTERVAL = 5

# An origin and at most a path: no credentials, query or fragment can hide in a host.
HttpsUrl = Annotated[str, Meta(min_length=9, max_length=500, pattern=patterns.HTTPS_HOST)]
ProviderProjectId = Annotated[int, Meta(ge=1, le=SAFE_INTEGER)]


class ConnectRequest(Closed, frozen=True):
    """Body of a connection start. `host` is for a self-hosted provider and goes before `region`."""

    project_id: Identifier
    region: Literal["us", "eu"] | None = None
    host: HttpsUrl | None = None
    provider_project_id: ProviderProjectId | None = None


class ConnectionStarted(Closed, frozen=True, kw_only=True):
    """The page where a person grants read access, and the lifetime of the request."""

    connection_id: Identifier
    status: Literal["pending"]
    authorization_url: str
    user_code: str
    scopes: tuple[str, ...]
    expires_in: Annotated[int, Meta(ge=0, description="Seconds.")]
    interval: Annotated[int, Meta(ge=1, description="Seconds between two polls.")]
    next_action: str


class CallbackQuery(msgspec.Struct, frozen=True):
    """What the provider sends a human back with: the state, and a code or an error."""

    state: Annotated[str, Meta(max_length=300)] | None = None
    code: Annotated[str, Meta(max_length=2048)] | None = None
    error: Annotated[str, Meta(max_length=200)] | None = None


class CallbackForm(Closed, frozen=True):
    """What the form of our page sends. Any `decision` but `allow` refuses."""

    state: Annotated[str, Meta(max_length=300)]
    token: Annotated[str, Meta(max_length=300)]
    decision: Annotated[str, Meta(max_length=20)]


class DeclaredScopes(Closed, frozen=True):
    """The most that a grant to our client may hold, as the provider reads it."""

    scopes: tuple[str, ...]


class ClientMetadata(Closed, frozen=True, kw_only=True):
    """Our OAuth client, as a provider fetches it from the address that is its id."""

    client_id: str
    client_name: str
    client_uri: str
    redirect_uris: tuple[str, ...]
    grant_types: tuple[str, ...] = ("authorization_code", "refresh_token")
    response_types: tuple[str, ...] = ("code",)
    token_endpoint_auth_method: Literal["none"] = "none"  # noqa: S105 - the name of a method
    scope: str
    declared: DeclaredScopes = msgspec.field(name="com.posthog")


class ProviderDisconnected(Closed, frozen=True, kw_only=True):
    """The end of a project's connection."""

    project_id: Identifier
    connection_id: Identifier
    status: Literal["disconnected"]
    disconnected_at: SafeEpoch
    next_action: str


class PollRequest(Closed, frozen=True):
    """Body of a poll."""

    connection_id: Identifier


class ConnectionStatus(Closed, frozen=True, kw_only=True):
    """The state of a connection. Tokens are never shown."""

    status: Literal["pending", "connected", "denied", "expired", "disconnected"]
    connection_id: Identifier
    project_id: Identifier
    provider: Literal["provider_cloud"] = "provider_cloud"
    provider_project_id: ProviderProjectId | None
    scopes: tuple[str, ...]
    connected_at: SafeEpoch | None
    next_action: str
