"""Blueprints about one deploy: what changed with it, and whether an error came back after it (G-111, G-153).

Their time follows from the deploy; neither `from` nor `to` is taken.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from service.analytics.blueprints import declared
from service.analytics.blueprints.declared import Ask, Blueprint, Counted, Read, per_thousand
from service.analytics.bounded import LONGEST_DAYS, Rows, Window
from service.analytics.local import ERRORS_SQL, RepairedCase, count_recurrences
from service.auth.refusals import InvalidPayload
from service.eventstore.connect.facts import DAY
from service.sql import Query, load_query
from statemachines.kernel.machine import ReadFailed

DEPLOY_SQL = load_query("analytics/blueprints", "deploy")
CASE_SQL = load_query("analytics/blueprints", "case")
IMPACT_SQL = load_query("analytics/blueprints", "deploy_impact")
TRAFFIC_SQL = load_query("analytics/blueprints", "traffic")
TRAFFIC_HOGQL = load_query("analytics/connected", "traffic").text

HOUR = 3600
DeployId = Annotated[str, Meta(min_length=1, max_length=200, description="Id of a deploy of the project.")]
CaseId = Annotated[str, Meta(min_length=1, max_length=200, description="Id of a case of the project.")]
Hours = Annotated[int, Meta(ge=1, le=168, description="Hours before the deploy, and after it.")]
Place = Annotated[int, Meta(ge=0, le=1)]
BEFORE, AFTER = 0, 1


class ImpactParams(msgspec.Struct, frozen=True, kw_only=True):
    """A deploy, and how many hours before and after it are compared."""

    deploy_id: DeployId
    hours: Hours = 24


class RecurrenceParams(msgspec.Struct, frozen=True, kw_only=True):
    """A case, and a deploy after which its errors are looked for."""

    case_id: CaseId
    deploy_id: DeployId


class Deployed(NamedTuple):
    """What was deployed, where, and in which second."""

    version: str
    environment: str
    at: int


def of_the_deploy(_: Any, since: int | None, until: int | None, as_of: int) -> Window:
    """The time until now: how much of it counts is known with the deploy. Raises InvalidPayload for `from` and `to`."""
    given = [name for name, value in (("from", since), ("to", until)) if value is not None]
    if given:
        reason = "must be left out: the deploy says what time counts"
        raise InvalidPayload("The window follows from the deploy.", invalid=[(name, reason) for name in given])
    return Window(max(0, as_of + 1 - LONGEST_DAYS * DAY), as_of + 1)


async def _deployed(ask: Ask, deploy_id: str) -> Deployed | ReadFailed:
    """Find the deploy. Raises InvalidPayload when the project has none of this id."""
    found = await ask(
        Read(source="deploys", local=DEPLOY_SQL, row=tuple[str, str, declared.Count], values={"deploy_id": deploy_id})
    )
    if isinstance(found, ReadFailed):
        return found
    if not found.rows:
        raise InvalidPayload(
            "There is no such deploy.", invalid=[("params.deploy_id", "must be a deploy of the project")]
        )
    return Deployed(*found.rows[0])


async def _traffic(ask: Ask, window: Window, moment: int) -> Rows | ReadFailed:
    """How many events came in a window before a moment, and from it on."""
    return await ask(
        Read(
            source="events",
            local=TRAFFIC_SQL,
            connected=TRAFFIC_HOGQL,
            row=tuple[Place, declared.Count],
            values={"moment": moment},
            window=window,
        )
    )


async def _impact(ask: Ask, params: ImpactParams, window: Window) -> Counted | ReadFailed:
    deploy = await _deployed(ask, params.deploy_id)
    if isinstance(deploy, ReadFailed):
        return deploy
    length = params.hours * HOUR
    around = Window(max(0, deploy.at - length), max(deploy.at, min(deploy.at + length, window.until)))
    errors = await ask(
        Read(
            source="errors",
            local=IMPACT_SQL,
            row=tuple[Place, declared.Count, declared.Count],
            values={"deployed_at": deploy.at, "environment": deploy.environment},
            window=around,
        )
    )
    if isinstance(errors, ReadFailed):
        return errors
    traffic = await _traffic(ask, around, deploy.at)
    if isinstance(traffic, ReadFailed):
        return traffic
    failed = {place: counts for place, *counts in errors.rows}
    events = dict(traffic.rows)
    found: list[tuple[Any, ...]] = []
    for place, name, since in ((BEFORE, "before", around.since), (AFTER, "after", deploy.at)):
        (count, new), sample = failed[place], events.get(place, 0)
        kept = errors.kept_from is None or since >= errors.kept_from
        sampled = traffic.kept_from is None or since >= traffic.kept_from
        cells = (count, new) if kept else (None, None)
        found.append(
            (name, *cells, sample if sampled else None, per_thousand(count, sample) if kept and sampled else None)
        )
    return Counted(found, around)


async def _recurrence(ask: Ask, params: RecurrenceParams, window: Window) -> Counted | ReadFailed:
    deploy = await _deployed(ask, params.deploy_id)
    if isinstance(deploy, ReadFailed):
        return deploy
    # As verification counts: what was received in the second of the deploy may have come before it (G-111).
    after = Window(deploy.at + 1, max(deploy.at + 1, min(window.until, deploy.at + 1 + LONGEST_DAYS * DAY)))
    case = await ask(
        Read(source="errors", local=CASE_SQL, row=tuple[bool], values={"case_id": params.case_id}, window=after)
    )
    if isinstance(case, ReadFailed):
        return case
    if not case.rows:
        raise InvalidPayload("There is no such case.", invalid=[("params.case_id", "must be a case of the project")])

    async def read(query: Query, values: Mapping[str, Any]) -> list[tuple[Any, ...]] | ReadFailed:
        of_errors = query == ERRORS_SQL
        found = await ask(
            Read(
                source="errors" if of_errors else "deploys",
                local=query,
                row=tuple[str | None, declared.Count] if of_errors else tuple[str],
                values=values,
                window=after,
            )
        )
        return found if isinstance(found, ReadFailed) else found.rows

    repair = RepairedCase(params.case_id, params.deploy_id, *deploy)
    recurrences = await count_recurrences(read, repair, after.since, after.until)
    if isinstance(recurrences, ReadFailed):
        return recurrences
    traffic = await _traffic(ask, after, after.since)
    if isinstance(traffic, ReadFailed):
        return traffic
    return Counted([(recurrences, dict(traffic.rows).get(AFTER, 0), deploy.at, after.until - 1)], after)


DEPLOY_IMPACT = Blueprint(
    id="deploy-impact",
    title="Impact of a deploy",
    description="Errors of the deploy's environment in the hours before it and in those after it, as far as they have "
    "passed, for each thousand events of the project.",
    source="errors",
    params=ImpactParams,
    columns=(
        declared.text("period", "name", "before or after; the second of the deploy is the first one after."),
        declared.integer("error_count", "errors", "Errors in the deploy's environment; null where not all are kept."),
        declared.integer("new_cases", "cases", "Cases that were opened in the period and had one of these errors."),
        declared.integer("sample_size", "events", "Events of the project; null where not all are kept."),
        declared.rate("errors_per_1000", "Errors for each thousand of these events; null without any."),
    ),
    answer=_impact,
    span=of_the_deploy,
)

DEPLOY_RECURRENCE = Blueprint(
    id="deploy-recurrence",
    title="Recurrence after a deploy",
    description="How often an error of a case came after a deploy, in its environment and of its version, a later one "
    "or none, as verification counts it; with the traffic of the project in the same time.",
    source="errors",
    params=RecurrenceParams,
    columns=(
        declared.integer(
            "recurrence_count", "errors", "Errors of the case after the deploy; of more than 1,000, so many."
        ),
        declared.integer("traffic_count", "events", "Events of the project after the deploy."),
        declared.epoch("observed_from", "When the deploy was recorded; what was received later counts."),
        declared.epoch("observed_to", "The last second that counts: the present one, at most 366 days later."),
    ),
    answer=_recurrence,
    span=of_the_deploy,
)
