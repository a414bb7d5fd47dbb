"""Blueprints of ordered funnels: over one period, or over two of the same length, as reports compare them (G-112)."""

from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from schemas.analytics import Column
from service.analytics.blueprints import declared
from service.analytics.blueprints import declared as blueprint
from service.analytics.bounded import FUNNEL_HOGQL, MAX_STEPS, Window, funnel_values, reached
from service.auth.refusals import InvalidPayload
from service.eventstore.connect.facts import DAY
from service.sql import load_query
from statemachines import reports
from statemachines.kernel.machine import ReadFailed

FUNNEL_SQL = load_query("analytics/blueprints", "ordered_funnel")
FUNNEL_COPIED = load_query("analytics/copied", "ordered_funnel").text

Steps = Annotated[
    list[blueprint.EventName],
    Meta(
        min_length=2,
        max_length=MAX_STEPS,
        description="Names of events, all different, in the order of the steps.",
        extra_json_schema={"uniqueItems": True},
    ),
]
PeriodDays = Annotated[int, Meta(ge=1, le=90, description="Days of 86,400 seconds that either period has.")]


class FunnelParams(blueprint.DaysParams, frozen=True, kw_only=True):
    """The steps of a funnel, and a number of days."""

    events: Steps

    def __post_init__(self) -> None:
        """Raise ValueError for a step that comes twice."""
        all_different(self.events)


class CompareParams(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a funnel, and the length of either period."""

    events: Steps
    period_days: PeriodDays

    def __post_init__(self) -> None:
        """Raise ValueError for a step that comes twice."""
        all_different(self.events)


def all_different(events: list[str]) -> None:
    """Raise ValueError for an event that comes twice."""
    if len(set(events)) < len(events):
        raise ValueError("The events must be all different.")


class _Reached(NamedTuple):
    """How many people reached each step, and whether all that was received in the window is still there."""

    people: list[int]
    whole: bool


async def _read(ask: blueprint.Ask, events: list[str], window: Window) -> _Reached | ReadFailed:
    found = await ask(
        blueprint.Read(
            source="events",
            local=FUNNEL_SQL,
            connected=FUNNEL_HOGQL,
            copied=FUNNEL_COPIED,
            row=tuple[declared.Count, declared.Count],
            values=funnel_values(events, window),
            window=window,
        )
    )
    if isinstance(found, ReadFailed):
        return found
    try:
        return _Reached(reached(found.rows, len(events)), found.complete)
    except ValueError:
        return ReadFailed("malformed")


async def _ordered(ask: blueprint.Ask, params: FunnelParams, window: Window) -> blueprint.Counted | ReadFailed:
    found = await _read(ask, params.events, window)
    return (
        found
        if isinstance(found, ReadFailed)
        else blueprint.Counted(blueprint.funnel_rows(params.events, found.people))
    )


async def _compared(ask: blueprint.Ask, params: CompareParams, window: Window) -> blueprint.Counted | ReadFailed:
    length = params.period_days * DAY
    middle = window.since + length
    prior = await _read(ask, params.events, Window(window.since, min(middle, window.until)))
    if isinstance(prior, ReadFailed):
        return prior
    current = await _read(ask, params.events, Window(middle, max(middle, window.until)))
    if isinstance(current, ReadFailed):
        return current
    steps = [reports.FunnelStep(*step) for step in zip(params.events, prior.people, current.people, strict=True)]
    was = prior.whole and middle <= window.until
    now = current.whole and middle + length <= window.until
    return blueprint.Counted([_cells(row, was=was, now=now) for row in reports.rows_of(steps)])


def _cells(row: reports.FunnelRow, *, was: bool, now: bool) -> tuple[Any, ...]:
    """A row of the comparison, without the numbers of a period that is not whole (G-152)."""
    return (
        row.step,
        row.event,
        row.prior_users if was else None,
        row.current_users if now else None,
        row.prior_conversion if was else None,
        row.current_conversion if now else None,
    )


def by_periods(params: CompareParams, since: int | None, until: int | None, as_of: int) -> Window:
    """Both periods, the second of which ends with `to`, else with the time of the read. Raises InvalidPayload."""
    if since is not None:
        reason = "must be left out: period_days and to say where the periods begin"
        raise InvalidPayload("The window is given twice.", invalid=[("from", reason)])
    end = as_of + 1 if until is None else until
    return blueprint.checked(Window(end - 2 * params.period_days * DAY, end))


ORDERED_FUNNEL = blueprint.Blueprint(
    id="ordered-funnel",
    title="Ordered funnel",
    description="How many people reached each step in order. Events of one second count as in order; a person has the "
    "whole window for all steps.",
    source="events",
    copied=frozenset({"events"}),
    params=FunnelParams,
    event_params=("events",),
    columns=(
        declared.integer("step", "position", "Place of the step in the funnel, from 1."),
        declared.text("event", "name", "Name of the step's event."),
        declared.integer("users", "people", "People who reached the step."),
        declared.share("conversion", "Of the people at the first step, the share that reached this one."),
        declared.share("step_conversion", "Of the people at the step before, the share that reached this one."),
        declared.integer("sample_size", "people", "People at the first step."),
    ),
    answer=_ordered,
)

PERIOD_COMPARE = blueprint.Blueprint(
    id=reports.BLUEPRINT,
    title="Ordered funnel, two periods compared",
    description="The same funnel over a period and the one before it, as weekly reports compare them. Numbers of a "
    "period that is not kept or not over are null.",
    source="events",
    copied=frozenset({"events"}),
    params=CompareParams,
    event_params=("events",),
    columns=tuple(Column(*column) for column in reports.COLUMNS),
    answer=_compared,
    span=by_periods,
)
