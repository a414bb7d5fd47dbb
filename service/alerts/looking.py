"""Looks at alerts: reading the blueprint at a time and comparing it with the threshold (G-092, G-162)."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec

from projections.alerts.alert import AlertRow
from schemas.alerts.alert import MOST_LOOKS, MOST_PROVIDED_LOOKS, CreateAlert
from service.alerts.reads import now_us
from service.analytics.blueprints.catalogue import CATALOGUE, Asked, ask_for
from service.analytics.blueprints.running import run_blueprint
from service.analytics.bounded.answers import MOST_ROWS, Table
from service.analytics.queries import QUERY_SECONDS, BoundedQueries
from service.analytics.refusals import QueriesBusy
from service.auth.refusals import InvalidPayload
from service.eventstore.connect.clock import DAY
from service.eventstore.store import EventStore
from statemachines.alerts.alert import EVERY_SECONDS, AlertWish
from statemachines.alerts.threshold import Op, RowMatch, Threshold, ThresholdVerdict, read_number
from statemachines.kernel.canonical import canonical, with_whole_numbers
from statemachines.kernel.readings import ReadFailed

_SECOND = 1_000_000  # microseconds
_SYMBOLS = {">": Op.GT, ">=": Op.GTE, "<": Op.LT, "<=": Op.LTE, "==": Op.EQ, "!=": Op.NEQ}


class BlueprintReading(NamedTuple):
    """The answer of a blueprint, asked at a time in microseconds since the epoch."""

    table: Table
    asked_us: int

    @property
    def at(self) -> int:
        """The second of the read."""
        return self.asked_us // _SECOND


class JudgedLook(NamedTuple):
    """The verdict of an alert at a time in epoch seconds. `complete`: all of its window was counted."""

    at: int
    verdict: ThresholdVerdict
    complete: bool


class PastLooks(NamedTuple):
    """Looks of the past, newest first and `every_seconds` apart, without the `left_out` oldest ones."""

    every_seconds: int
    looks: list[JudgedLook]
    left_out: int


def wish_of(body: CreateAlert, schema: dict[str, object]) -> AlertWish:
    """Check the body of an alert, with its schema, against the blueprint, and freeze the parameters.

    Raises InvalidPayload with the names of bad members.
    """
    blueprint = CATALOGUE.get(body.blueprint_id)
    if blueprint is None:
        reason = "must be the id of a query blueprint; GET /v1/query-blueprints lists them"
        raise InvalidPayload("There is no such blueprint.", invalid=[("blueprint_id", reason)], schema=schema)
    asked = ask_for(body.blueprint_id, body.params, schema=schema)
    if body.threshold_column not in blueprint.numeric:
        reason = f"must be one of {', '.join(sorted(blueprint.numeric))}"
        raise InvalidPayload(
            "The blueprint has no such column of numbers.", invalid=[("threshold_column", reason)], schema=schema
        )
    op = _SYMBOLS.get(body.threshold_op) or Op(body.threshold_op)
    value = with_whole_numbers(body.threshold_value)
    return AlertWish(
        name=None if body.name is msgspec.UNSET else body.name,
        blueprint_id=blueprint.id,
        params=canonical(asked.effective).decode(),
        threshold=Threshold(body.threshold_column, op, value, RowMatch(body.row_match)),
    )


def threshold_of(row: AlertRow) -> Threshold:
    """The threshold of an alert."""
    return Threshold(
        row.threshold_column, Op(row.threshold_op), read_number(row.threshold_value), RowMatch(row.row_match)
    )


def _asked(blueprint_id: str, params: str) -> Asked:
    """The question to a blueprint with frozen parameters, for all rows."""
    return ask_for(blueprint_id, msgspec.json.decode(params), limit=MOST_ROWS)


async def read(
    store: EventStore, queries: BoundedQueries, project_id: str, tenant: str, blueprint_id: str, params: str
) -> BlueprintReading | ReadFailed:
    """Read a blueprint with frozen parameters, in the name of a tenant. Raises as run_blueprint."""
    asked_us = await now_us(store)
    asked = _asked(blueprint_id, params)
    found = await run_blueprint(queries, project_id, tenant, asked, at=asked_us // _SECOND)
    return found if isinstance(found, ReadFailed) else BlueprintReading(found, asked_us)


async def look_back(
    queries: BoundedQueries, project_id: str, tenant: str, wish: AlertWish, days: int
) -> PastLooks | ReadFailed:
    """Judge the past days as an alert, newest first, in the time of one query. Nothing is recorded.

    Looks are as frequent as the schedule, or as MOST_LOOKS allow, or MOST_PROVIDED_LOOKS of a provider. After the
    first look, a timeout or a lost turn only ends the preview. Any other failed read is returned. Raises QueriesBusy
    before the first look, and as run_blueprint.
    """
    asked = _asked(wish.blueprint_id, wish.params)
    span = days * DAY
    every = _apart(span, MOST_LOOKS)
    at = await queries.now()
    looks: list[JudgedLook] = []
    until = asyncio.get_running_loop().time() + QUERY_SECONDS
    while len(looks) < span // every:
        try:
            async with asyncio.timeout_at(until):
                found = await run_blueprint(queries, project_id, tenant, asked, at=at)
        except TimeoutError:
            found = ReadFailed("timeout")
        except QueriesBusy:
            if not looks:
                raise
            break
        if isinstance(found, ReadFailed):
            if looks and found.cause == "timeout":
                break
            return found
        if found.evidence.source == "provider_cloud":
            every = _apart(span, MOST_PROVIDED_LOOKS)
        looks.append(JudgedLook(at, wish.threshold.judge(found.rows), found.evidence.complete))
        at -= every
    return PastLooks(every, looks, span // every - len(looks))


def _apart(span: int, most: int) -> int:
    """Seconds between the looks at a span, at most so many of them."""
    return max(EVERY_SECONDS, -(-span // most))
