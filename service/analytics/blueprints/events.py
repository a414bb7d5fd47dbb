"""Blueprints that count events, the people behind them, and errors beside them (G-032, G-153)."""

from typing import Annotated, Any

from msgspec import Meta

from service.analytics.blueprints import declared
from service.analytics.blueprints.declared import (
    DEFAULT_TOP,
    Ask,
    Blueprint,
    Counted,
    DaysParams,
    ErrorParams,
    EventName,
    EventParams,
    Read,
    TopLimit,
    TopParams,
    each_day,
    error_free,
    one_read,
    per_thousand,
    retained,
    with_share,
)
from service.analytics.bounded import MOST_ROWS, Window
from service.sql import load_query
from statemachines.kernel.machine import ReadFailed

# Blueprints that count events and the people behind them. A person is a `distinct_id` (G-153).

EVENT_COUNT_SQL = load_query("analytics/blueprints", "event_count")
EVENT_COUNT_COPIED = load_query("analytics/copied", "event_count").text
EVENT_COUNT_HOGQL = load_query("analytics/connected", "event_count").text
TOP_EVENTS_SQL = load_query("analytics/blueprints", "top_events")
TOP_EVENTS_COPIED = load_query("analytics/copied", "top_events").text
TOP_EVENTS_HOGQL = load_query("analytics/connected", "top_events").text
ACTIVE_USERS_SQL = load_query("analytics/blueprints", "active_users")
ACTIVE_USERS_COPIED = load_query("analytics/copied", "active_users").text
ACTIVE_USERS_HOGQL = load_query("analytics/connected", "active_users").text
EVENT_TREND_SQL = load_query("analytics/blueprints", "event_trend")
EVENT_TREND_COPIED = load_query("analytics/copied", "event_trend").text
EVENT_TREND_HOGQL = load_query("analytics/connected", "event_trend").text
RETENTION_SQL = load_query("analytics/blueprints", "retention")
RETENTION_COPIED = load_query("analytics/copied", "retention").text
RETENTION_HOGQL = load_query("analytics/connected", "retention").text
BREAKDOWN_SQL = load_query("analytics/blueprints", "breakdown")
BREAKDOWN_COPIED = load_query("analytics/copied", "breakdown").text
BREAKDOWN_HOGQL = load_query("analytics/connected", "breakdown").text

MOST_CHARACTERS = 200
"""Of a value of a property that are shown."""

PropertyName = Annotated[str, Meta(min_length=1, max_length=160, description="Name of a property.")]


class ReturnParams(DaysParams, frozen=True, kw_only=True):
    """The event that puts a person into a cohort, the one that is a return, and a number of days."""

    start_event: EventName
    return_event: EventName


class BreakdownParams(EventParams, frozen=True, kw_only=True):
    """An event, one of its properties, and a number of days and rows."""

    property: PropertyName
    limit: TopLimit = DEFAULT_TOP


def people_by_day() -> Read:
    """Ask how many people had an event, by day."""
    return Read(
        source="events",
        local=ACTIVE_USERS_SQL,
        connected=ACTIVE_USERS_HOGQL,
        copied=ACTIVE_USERS_COPIED,
        row=tuple[declared.Count, declared.Count],
    )


def event_by_day(event: str) -> Read:
    """Ask how often an event came and from how many people, by day."""
    return Read(
        source="events",
        local=EVENT_TREND_SQL,
        connected=EVENT_TREND_HOGQL,
        copied=EVENT_TREND_COPIED,
        row=tuple[declared.Count, declared.Count, declared.Count],
        values={"event": event},
    )


async def _retention(ask: Ask, params: ReturnParams, window: Window) -> Counted | ReadFailed:
    began = await ask(event_by_day(params.start_event))
    if isinstance(began, ReadFailed):
        return began
    returned = await ask(
        Read(
            source="events",
            local=RETENTION_SQL,
            connected=RETENTION_HOGQL,
            copied=RETENTION_COPIED,
            row=tuple[declared.Count, declared.Count, declared.Count],
            values={
                "start_event": params.start_event,
                "return_event": params.return_event,
                "events": sorted({params.start_event, params.return_event}),
            },
        )
    )
    if isinstance(returned, ReadFailed):
        return returned
    sizes = {day: people for day, _, people in began.rows}
    return Counted(retained(window, sizes, returned.rows, MOST_ROWS + 1))


EVENT_COUNT = Blueprint(
    id="event-count",
    title="Count of an event",
    description="How often an event happened, and from how many people.",
    source="events",
    copied=frozenset({"events"}),
    params=EventParams,
    event_params=("event",),
    columns=(
        declared.integer("row_count", "events", "Events of this name."),
        declared.integer("unique_users", "people", "Different people among them."),
    ),
    answer=one_read(
        lambda params: Read(
            source="events",
            local=EVENT_COUNT_SQL,
            connected=EVENT_COUNT_HOGQL,
            copied=EVENT_COUNT_COPIED,
            row=tuple[declared.Count, declared.Count],
            single=True,
            values={"event": params.event},
        )
    ),
)

TOP_EVENTS = Blueprint(
    id="top-events",
    title="Most frequent events",
    description="The events that happened most often, the most frequent first.",
    source="events",
    copied=frozenset({"events"}),
    params=TopParams,
    columns=(
        declared.text("event", "name", "Name of the event."),
        declared.integer("row_count", "events", "Events of this name."),
        declared.integer("unique_users", "people", "Different people among them."),
        declared.epoch("last_seen_at", "When the latest of them happened."),
    ),
    answer=one_read(
        lambda _: Read(
            source="events",
            local=TOP_EVENTS_SQL,
            connected=TOP_EVENTS_HOGQL,
            copied=TOP_EVENTS_COPIED,
            row=tuple[str, declared.Count, declared.Count, declared.Count],
        )
    ),
)

ACTIVE_USERS = Blueprint(
    id="active-users",
    title="Active people",
    description="How many people had an event on each day.",
    source="events",
    copied=frozenset({"events"}),
    params=DaysParams,
    columns=(
        declared.epoch("day", "UTC midnight of the day."),
        declared.integer("unique_users", "people", "Different people with an event on the day."),
    ),
    answer=one_read(lambda _: people_by_day(), lambda _, window, rows: each_day(window, rows, 0)),
)

EVENT_TREND = Blueprint(
    id="event-trend",
    title="Trend of an event",
    description="How often an event happened on each day, and from how many people.",
    source="events",
    copied=frozenset({"events"}),
    params=EventParams,
    event_params=("event",),
    columns=(
        declared.epoch("day", "UTC midnight of the day."),
        declared.integer("row_count", "events", "Events of this name on the day."),
        declared.integer("unique_users", "people", "Different people among them."),
    ),
    answer=one_read(lambda params: event_by_day(params.event), lambda _, window, rows: each_day(window, rows, 0, 0)),
)

RETENTION = Blueprint(
    id="retention",
    title="Retention by day",
    description="Of the people who had the start event on a day, how many had the return event on each later day. A "
    "person is in the cohort of each day with the start event.",
    source="events",
    copied=frozenset({"events"}),
    params=ReturnParams,
    event_params=("start_event", "return_event"),
    columns=(
        declared.epoch("day", "UTC midnight of the cohort's day."),
        declared.integer("cohort_size", "people", "Different people with the start event on that day."),
        declared.epoch("returned_on", "UTC midnight of the later day."),
        declared.integer("users", "people", "People of the cohort with the return event on the later day."),
        declared.share("share", "Of the cohort, the share that returned on that day; null without a cohort."),
    ),
    answer=_retention,
)

BREAKDOWN = Blueprint(
    id="breakdown",
    title="Values of a property",
    description="The values that a property of an event had, the most frequent first.",
    source="events",
    copied=frozenset({"events"}),
    params=BreakdownParams,
    event_params=("event",),
    columns=(
        declared.text(
            "value", None, "The value as a text of at most 200 characters; null where it is absent, null or no scalar."
        ),
        declared.integer("row_count", "events", "Events with this value."),
        declared.integer("unique_users", "people", "Different people among them."),
        declared.share("share", "Of all events of this name, the share with this value."),
        declared.integer("sample_size", "events", "All events of this name."),
    ),
    answer=one_read(
        lambda params: Read(
            source="events",
            local=BREAKDOWN_SQL,
            connected=BREAKDOWN_HOGQL,
            copied=BREAKDOWN_COPIED,
            row=tuple[str | None, declared.Count, declared.Count, declared.Count],
            values={"event": params.event, "property": params.property, "characters": MOST_CHARACTERS},
        ),
        lambda _, __, rows: with_share(rows),
    ),
)


# Blueprints that count errors: always our own records, and in top-errors what the looks at the connected provider
# counted. A person is the `user.id` of an error (G-153, G-182).

ERRORS_BY_RELEASE_SQL = load_query("analytics/blueprints", "errors_by_release")
ERRORS_BY_RELEASE_COPIED = load_query("analytics/copied", "errors_by_release").text
TOP_ERRORS_SQL = load_query("analytics/blueprints", "top_errors")


class TopErrorsParams(ErrorParams, frozen=True, kw_only=True):
    """A number of days, an environment or none, and a number of rows."""

    limit: TopLimit = DEFAULT_TOP


TOP_ERRORS = Blueprint(
    id="top-errors",
    title="Most frequent errors",
    description="The cases with most errors, the most frequent first. Errors of merged cases count in the case "
    "that they were merged into.",
    source="errors",
    params=TopErrorsParams,
    columns=(
        declared.text("case_id", None, "Id of the case."),
        declared.integer("error_count", "errors", "Errors of the case."),
        declared.integer("users_affected", "people", "Different people who met one of them."),
        declared.epoch("last_seen_at", "When the latest of them happened."),
        declared.text("source", None, "Where they come from: local, provider_cloud or both."),
    ),
    answer=one_read(
        lambda params: Read(
            source="errors",
            local=TOP_ERRORS_SQL,
            row=tuple[str, declared.Count, declared.Count, declared.Count, str],
            values={"environment": params.environment},
        )
    ),
)

ERRORS_BY_RELEASE = Blueprint(
    id="errors-by-release",
    title="Errors by release",
    description="How many errors each release had and how many people met them, the most errors first.",
    source="errors",
    copied=frozenset({"errors"}),
    params=ErrorParams,
    columns=(
        declared.text("release", "name", "The release; null for errors that name none."),
        declared.integer("error_count", "errors", "Errors of the release."),
        declared.integer("users_affected", "people", "Different people who met one of them."),
        declared.epoch("first_seen_at", "When the first of them happened."),
        declared.epoch("last_seen_at", "When the latest of them happened."),
    ),
    answer=one_read(
        lambda params: Read(
            source="errors",
            local=ERRORS_BY_RELEASE_SQL,
            copied=ERRORS_BY_RELEASE_COPIED,
            row=tuple[str | None, declared.Count, declared.Count, declared.Count, declared.Count],
            values={"environment": params.environment},
        )
    ),
)


# Blueprints that set errors, which are our own records, beside the events of the project's provider (G-032, G-153).
# Events count in the whole project and in every environment of it, whichever environment errors are counted in.

PEOPLE_WITH_ERRORS_SQL = load_query("analytics/blueprints", "people_with_errors")
PEOPLE_WITH_ERRORS_COPIED = load_query("analytics/copied", "people_with_errors").text
RELEASE_ERRORS_SQL = load_query("analytics/blueprints", "release_errors")
RELEASE_ERRORS_COPIED = load_query("analytics/copied", "release_errors").text
RELEASE_TRAFFIC_SQL = load_query("analytics/blueprints", "release_traffic")
RELEASE_TRAFFIC_COPIED = load_query("analytics/copied", "release_traffic").text
RELEASE_TRAFFIC_HOGQL = load_query("analytics/connected", "release_traffic").text

Release = Annotated[str, Meta(min_length=1, max_length=200, description="Name of a release.")]


class ReleasesParams(ErrorParams, frozen=True, kw_only=True):
    """A release and the one that it is compared with, a number of days, and perhaps an environment."""

    release: Release
    base_release: Release


async def _error_free(ask: Ask, params: ErrorParams, window: Window) -> Counted | ReadFailed:
    active = await ask(people_by_day())
    if isinstance(active, ReadFailed):
        return active
    failing = await ask(
        Read(
            source="errors",
            local=PEOPLE_WITH_ERRORS_SQL,
            copied=PEOPLE_WITH_ERRORS_COPIED,
            row=tuple[declared.Count, declared.Count],
            values={"environment": params.environment},
        )
    )
    if isinstance(failing, ReadFailed):
        return failing
    return Counted(error_free(window, dict(active.rows), dict(failing.rows), failing.kept_from))


async def _releases(ask: Ask, params: ReleasesParams, _: Window) -> Counted | ReadFailed:
    wanted = [params.release, params.base_release]
    errors = await ask(
        Read(
            source="errors",
            local=RELEASE_ERRORS_SQL,
            copied=RELEASE_ERRORS_COPIED,
            row=tuple[str, declared.Count, declared.Count],
            values={"releases": wanted, "environment": params.environment},
        )
    )
    if isinstance(errors, ReadFailed):
        return errors
    traffic = await ask(
        Read(
            source="events",
            local=RELEASE_TRAFFIC_SQL,
            connected=RELEASE_TRAFFIC_HOGQL,
            copied=RELEASE_TRAFFIC_COPIED,
            row=tuple[str, declared.Count],
            values={"releases": wanted},
        )
    )
    if isinstance(traffic, ReadFailed):
        return traffic
    failed: dict[str, tuple[int, int]] = {release: (count, people) for release, count, people in errors.rows}
    events: dict[str, int] = dict(traffic.rows)
    found: list[tuple[Any, ...]] = []
    for release in wanted:
        (count, people), sample = failed.get(release, (0, 0)), events.get(release, 0)
        whole = (count, people) if errors.complete else (None, None)
        counted = sample if traffic.complete else None
        found.append(
            (release, *whole, counted, per_thousand(count, sample) if errors.complete and traffic.complete else None)
        )
    return Counted(found)


ERROR_FREE_USERS = Blueprint(
    id="error-free-users",
    title="People without errors",
    description="For each day, how many people had an event, how many met an error, and the share that met none. The "
    "same people must be called the same in events (distinct_id) and errors (user.id).",
    source="events",
    copied=frozenset({"events", "errors"}),
    params=ErrorParams,
    columns=(
        declared.epoch("day", "UTC midnight of the day."),
        declared.integer("users", "people", "Different people with an event on the day."),
        declared.integer(
            "users_with_errors", "people", "Different people with an error on the day; null where they are not kept."
        ),
        declared.share(
            "share",
            "Of the people with an event, the share without an error; null of nobody, and where more people met an "
            "error than had an event.",
        ),
    ),
    answer=_error_free,
)

RELEASE_COMPARISON = Blueprint(
    id="release-comparison",
    title="Two releases compared",
    description="Errors of a release and of another one in the same time, for each thousand events. An event belongs "
    "to the release that its property `release`, `$release` or `$app_version` names.",
    source="errors",
    copied=frozenset({"events", "errors"}),
    params=ReleasesParams,
    columns=(
        declared.text("release", "name", "The release, then the one that it is compared with."),
        declared.integer("error_count", "errors", "Errors of the release; null where not all are kept."),
        declared.integer("users_affected", "people", "Different people who met one of them."),
        declared.integer("sample_size", "events", "Events of the release; null where not all are kept."),
        declared.rate("errors_per_1000", "Errors for each thousand of these events; null without any."),
    ),
    answer=_releases,
)
