"""Wire contract of who met errors: of a case, of a project, and what is known of one person (G-051, G-055)."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from schemas.kernel.origins import Origins, origins
from schemas.provider import SessionRecording


class UsersQuery(msgspec.Struct, frozen=True):
    """How many days back, and how many people."""

    days: Annotated[int, Meta(ge=1, le=90)] = 7
    limit: Annotated[int, Meta(ge=1, le=500)] = 50


class AffectedUser(msgspec.Struct, frozen=True, kw_only=True):
    """A person affected by errors, as telemetry names them. `last_seen_at` is in epoch seconds."""

    PROVENANCE: ClassVar[Origins] = origins(telemetry="user_id user_email")

    user_id: str
    user_email: str | None
    error_count: int
    distinct_fingerprints: int
    last_seen_at: int


class CaseUsers(msgspec.Struct, frozen=True, kw_only=True):
    """The people affected by a case, most affected first, at most 500. `complete` is false beyond that.

    `distinct_fingerprints` counts the cases that affected a person, merged ones included.
    """

    case_id: str
    users: list[AffectedUser]
    complete: bool
    next_action: str


class ProjectUsers(msgspec.Struct, frozen=True, kw_only=True):
    """The people affected by errors of a project within `window_days`, most affected first.

    All numbers count the errors that happened since `counted_from` (epoch seconds). Not `complete`: there were more
    before it within the window than one read looks at.
    """

    project_id: str
    users: list[AffectedUser]
    window_days: int
    unique_users: int
    total_events: int
    counted_from: int
    complete: bool
    next_action: str


class Person(msgspec.Struct, frozen=True):
    """A person in telemetry: the id asked for, and all names and properties that a product told (G-197)."""

    PROVENANCE: ClassVar[Origins] = origins(telemetry="distinct_id email")

    distinct_id: str
    email: str | None
    names: Annotated[list[str], Meta(min_length=1, max_length=1000)]
    identified: bool
    properties: Annotated[dict[str, Any], Meta(max_length=64)]
    links_refused: Annotated[int, Meta(ge=0)]


class PersonStats(msgspec.Struct, frozen=True):
    """The stored data of a person. Each count stops at `counted_to`."""

    total_events: int
    error_count: int
    first_seen_at: int | None
    last_seen_at: int | None
    first_occurred_at: int | None
    last_occurred_at: int | None
    counted_to: int


class PersonEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a person. `name` is the event's, or the message of a log.

    `adjusted` lists the members that were changed before it was stored (G-133).
    """

    PROVENANCE: ClassVar[Origins] = origins(telemetry="kind name level environment release adjusted")

    id: str
    kind: Literal["analytics", "log"]
    name: str
    level: str | None
    environment: str | None
    release: str | None
    case_id: str | None
    received_at: int
    occurred_at: int
    adjusted: list[str]


class PersonSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A summary of a person, from telemetry. Without `person` the person is unknown.

    `recordings_read` is false if the provider's recordings were not read: it did not answer, or the account is over its
    quota. The address opens the person's page at the provider.
    """

    PROVENANCE: ClassVar[Origins] = origins(telemetry="distinct_id", provider="recent_recordings")

    project_id: str
    distinct_id: str
    person: Person | msgspec.UnsetType = msgspec.UNSET
    event_stats: PersonStats
    recent_events: list[PersonEvent]
    recent_recordings: Annotated[list[SessionRecording], Meta(max_length=20)]
    recordings_read: bool
    web_ui_url: str | msgspec.UnsetType = msgspec.UNSET
    next_action: str
