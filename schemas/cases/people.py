"""Wire contract of who met errors: of a case, of a project, and what is known of one person (G-051, G-055)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta


class UsersQuery(msgspec.Struct, frozen=True):
    """How many days back, and how many people."""

    days: Annotated[int, Meta(ge=1, le=90)] = 7
    limit: Annotated[int, Meta(ge=1, le=500)] = 50


class AffectedUser(msgspec.Struct, frozen=True, kw_only=True):
    """A person who met errors, as telemetry names them; `last_seen_at` in epoch seconds."""

    user_id: str
    user_email: str | None
    error_count: int
    distinct_fingerprints: int
    last_seen_at: int


class CaseUsers(msgspec.Struct, frozen=True, kw_only=True):
    """Who met the errors of a case, most often first, at most 500. Not `complete`: a case with more people than that.

    `distinct_fingerprints` counts the cases, of this one and those merged into it, that a person met.
    """

    case_id: str
    users: list[AffectedUser]
    complete: bool
    next_action: str


class ProjectUsers(msgspec.Struct, frozen=True, kw_only=True):
    """Who met errors of a project within `window_days`, most often first.

    All numbers count the errors since `counted_from` (epoch seconds). Not `complete`: there were more before it within
    the window than one read looks at.
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
    """What telemetry calls a person."""

    distinct_id: str
    email: str | None


class PersonStats(msgspec.Struct, frozen=True):
    """What is still kept of a person. Counts end at `counted_to`: so many may be more."""

    total_events: int
    error_count: int
    first_seen_at: int | None
    last_seen_at: int | None
    counted_to: int


class PersonEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a person. `name` is the event's, or the message of a log.

    `adjusted`: the places of it that were changed so that it could be taken (G-133).
    """

    id: str
    kind: Literal["analytics", "log"]
    name: str
    level: str | None
    environment: str | None
    release: str | None
    case_id: str | None
    received_at: int
    adjusted: list[str]


class PersonSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a person; without `person` nothing is. All of it is evidence from telemetry."""

    project_id: str
    distinct_id: str
    person: Person | msgspec.UnsetType = msgspec.UNSET
    event_stats: PersonStats
    recent_events: list[PersonEvent]
    recent_recordings: list[dict[str, Any]]
    next_action: str
