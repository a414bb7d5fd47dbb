"""Blueprints that set errors, which are our own records, beside the events of the project's provider (G-032, G-153).

Events count in the whole project and in every environment of it, whichever environment errors are counted in.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from service.analytics.blueprints import declared
from service.analytics.blueprints.declared import Ask, Blueprint, Counted, ErrorParams, Read
from service.analytics.blueprints.events import people_by_day
from service.analytics.blueprints.finishing import error_free, rate
from service.analytics.bounded import Window
from service.sql import load_query
from statemachines.kernel.readings import ReadFailed

PEOPLE_WITH_ERRORS_SQL = load_query("analytics/blueprints", "people_with_errors")
RELEASE_ERRORS_SQL = load_query("analytics/blueprints", "release_errors")
RELEASE_TRAFFIC_SQL = load_query("analytics/blueprints", "release_traffic")
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
        found.append((release, *whole, counted, rate(count, sample) if errors.complete and traffic.complete else None))
    return Counted(found)


ERROR_FREE_USERS = Blueprint(
    id="error-free-users",
    title="People without errors",
    description="For each day, how many people had an event, how many met an error, and the share that met none. The "
    "same people must be called the same in events (distinct_id) and errors (user.id).",
    source="events",
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
