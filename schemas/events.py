"""Wire contracts of events of the log, with the hashes to check them by (G-169)."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from schemas.kernel.origins import Origins, origins
from schemas.kernel.shape import SAFE_INTEGER

MOST_EVENTS = 200

LogPosition = Annotated[int, Meta(ge=0, le=SAFE_INTEGER, description="A position in the log of all events.")]
LogHash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$", description="32 bytes in lowercase hex.")]


class LogQuery(msgspec.Struct, frozen=True):
    """The position behind which to begin, the length of a page, and the form of each event.

    `before` turns the page around: it has the last events before a position.
    """

    after: LogPosition = 0
    before: LogPosition | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_EVENTS)] = 50
    format: Literal["event", "cloudevents"] = "event"


class LoggedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event with its whole envelope. `recorded_at` counts microseconds since the epoch, as the leaf hash does.

    An erased payload is null, and so is its salt. The envelope still proves itself.
    """

    PROVENANCE: ClassVar[Origins] = origins(telemetry="payload")

    position: Annotated[int, Meta(ge=1)]
    project_id: str
    stream_id: str
    revision: Annotated[int, Meta(ge=1)]
    kind: str
    topic: str
    event_id: str
    command_id: str
    actor_kind: str
    actor_id: str
    request_id: str
    correlation_id: str
    causation_id: str
    recorded_at: Annotated[int, Meta(description="Microseconds since the epoch.")]
    erased: bool
    payload: Annotated[msgspec.Raw, Meta(extra_json_schema={"type": ["object", "null"]})]
    salt: str | None
    payload_hash: LogHash
    leaf: LogHash
    chain: LogHash


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of events in the order of the log. Read on with `next_after`, also after an empty page.

    `next_before` is null but for a page that was asked for with `before`, and has earlier ones.
    """

    project_id: str
    events: list[LoggedEvent]
    next_after: LogPosition
    next_before: LogPosition | None = None
    log_size: LogPosition
    next_action: str


# Wire contracts of the forms of events: JSON Schemas by topic.


class TopicQuery(msgspec.Struct, frozen=True):
    """One topic, or all of them."""

    topic: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class TopicSchemas(msgspec.Struct, frozen=True):
    """The JSON Schema of the payload of each topic. Within a version a topic only gains optional members."""

    schemas: dict[str, dict[str, Any]]
