"""The blueprints by their ids, and a run of one: its reads in turn, within one deadline (G-065, G-151, G-152)."""

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Final

import msgspec

from schemas.analytics import BlueprintCatalog, BlueprintEndpoints, BlueprintRun, QueryBlueprint
from schemas.kernel.published import body_schema
from schemas.kernel.shape import shape_from
from service.analytics.blueprints import deploys, events, funnels
from service.analytics.blueprints.declared import Blueprint, Read
from service.analytics.bounded import DEFAULT_ROWS, REACH, Bounded, Question, Rows, Table, Window, table_of
from service.analytics.queries import BlueprintNotFound, BoundedQueries, QueryTime
from service.auth.refusals import InvalidPayload
from statemachines.kernel.canonical import with_whole_numbers
from statemachines.kernel.machine import ReadFailed
from statemachines.kernel.shapes import MISSING, find_faults

# The blueprints by their ids, which are published and never change, and what is asked of one (G-065).

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
VERSION: Final = "1.0.0"

CATALOGUE: Final[Mapping[str, Blueprint]] = {
    blueprint.id: blueprint
    for blueprint in (
        events.EVENT_COUNT,
        events.TOP_EVENTS,
        events.ACTIVE_USERS,
        events.EVENT_TREND,
        funnels.ORDERED_FUNNEL,
        funnels.PERIOD_COMPARE,
        events.RETENTION,
        events.BREAKDOWN,
        events.TOP_ERRORS,
        events.ERROR_FREE_USERS,
        events.ERRORS_BY_RELEASE,
        events.RELEASE_COMPARISON,
        deploys.DEPLOY_IMPACT,
        deploys.DEPLOY_RECURRENCE,
    )
}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is well-formed. `limit` is how many rows are shown at most."""

    blueprint: Blueprint
    params: Any
    since: int | None
    until: int | None
    limit: int

    @property
    def effective(self) -> dict[str, Any]:
        """The parameters that the run goes by, with what those left out count as."""
        named: dict[str, Any] = msgspec.to_builtins(self.params)
        if self.since is not None or self.until is not None:
            named.pop("days", None)
        return named


def find_blueprint(blueprint_id: str) -> Blueprint:
    """Return a blueprint. Raises BlueprintNotFound."""
    found = CATALOGUE.get(blueprint_id)
    if found is None:
        raise BlueprintNotFound
    return found


def ask_for(
    blueprint_id: str,
    params: Mapping[str, Any],
    since: int | None = None,
    until: int | None = None,
    limit: int = DEFAULT_ROWS,
    schema: dict[str, Any] | None = None,
) -> Asked:
    """Check what is asked of a blueprint; `schema` is that of the body it came in.

    Unknown parameters are ignored (G-003). Raises BlueprintNotFound, and InvalidPayload that names every bad member.
    """
    blueprint = find_blueprint(blueprint_id)
    given = with_whole_numbers(dict(params))
    if (since is not None or until is not None) and "days" in given:
        raise InvalidPayload(
            "The window is given twice.",
            invalid=[("params.days", "must be left out where from or to is given")],
            schema=schema,
        )
    try:
        converted = msgspec.convert(given, blueprint.params)
    except msgspec.ValidationError as error:
        found = list(find_faults(given, msgspec.inspect.type_info(blueprint.params), "params"))
        missing = [fault.path for fault in found if fault.code == MISSING]
        invalid = [(fault.path, f"must be {fault.expected}") for fault in found if fault.code != MISSING]
        if not found:
            invalid = [("params", str(error.__cause__ or "must have the form that the schema shows"))]
        raise InvalidPayload(
            "The parameters do not fit the blueprint.", missing=missing, invalid=invalid, schema=schema
        ) from None
    return Asked(blueprint=blueprint, params=converted, since=since, until=until, limit=limit)


# A run of a blueprint: its reads in turn, within one deadline, laid out as a table (G-151, G-152).


class _Run:
    """The reads of one run, and what each said beside its rows."""

    def __init__(
        self,
        queries: BoundedQueries,
        project_id: str,
        tenant: str,
        asked: Asked,
        window: Window,
        as_of: int,
        now: int,
        *,
        reach: int,
        watermark: int | None,
    ) -> None:
        self.reads: list[Rows] = []
        self.main: Rows | None = None
        self.cut = False
        self._queries = queries
        self._project_id = project_id
        self._tenant = tenant
        self._source = asked.blueprint.source
        self._most = asked.blueprint.max_rows
        self._window = window
        self._as_of = as_of
        self._now = now
        self._reach = reach
        self._watermark = watermark
        self._deadline = QueryTime()

    async def ask(self, read: Read) -> Rows | ReadFailed:
        """Carry out one read; of more rows than a run has, the first."""
        query = Bounded(
            source=read.source,
            local=read.local,
            connected=read.connected,
            copied=read.copied,
            watermark=self._watermark,
            row=read.row,
            single=read.single,
            values=read.values,
            window=read.window or self._window,
            as_of=self._as_of,
            now=self._now,
            most=self._most,
            reach=self._reach,
        )
        found = await self._queries.ask(self._project_id, self._tenant, query, self._deadline)
        if isinstance(found, ReadFailed):
            return found
        self.reads.append(found)
        if self.main is None and read.source == self._source:
            self.main = found
        self.cut |= len(found.rows) > self._most
        return msgspec.structs.replace(found, rows=found.rows[: self._most])


async def run_blueprint(
    queries: BoundedQueries, project_id: str, tenant: str, asked: Asked, at: int | None = None
) -> Table | ReadFailed:
    """Answer what was asked of a blueprint, in the name of a tenant. It goes by the time of an event.

    `at` is the time of the read of an alert or its preview, which goes by the time of receipt (G-193). Only a question
    without it may be answered from the copy, as of its watermark (G-200).

    Raises InvalidPayload for a window that cannot be, and as BoundedQueries.ask.
    """
    now = await queries.now()
    as_of = now if at is None else at
    blueprint = asked.blueprint
    window = blueprint.span(asked.params, asked.since, asked.until, as_of)
    watermark = None
    if at is None:
        events = blueprint.events_of(asked.params) or None
        chosen = await queries.watermark(project_id, blueprint.copied, events, window, now)
        if isinstance(chosen, ReadFailed):
            return chosen
        if chosen is not None:
            watermark, as_of = chosen, chosen - 1
            window = blueprint.span(asked.params, asked.since, asked.until, as_of)
    reach = REACH if at is None else 0
    run = _Run(queries, project_id, tenant, asked, window, as_of, now, reach=reach, watermark=watermark)
    # Nothing is received later than now: the days that follow have not begun.
    present = Window(window.since, max(window.since, min(window.until, as_of + 1)))
    counted = await blueprint.answer(run.ask, asked.params, present)
    if isinstance(counted, ReadFailed):
        return counted
    assert run.main is not None, "a blueprint reads its source"
    most = getattr(asked.params, "limit", blueprint.max_rows)
    question = Question(
        asked={"blueprint_id": blueprint.id},
        params=asked.effective,
        window=counted.window or window,
        limit=asked.limit,
    )
    cut = run.cut or len(counted.rows) > most
    lay_out = partial(table_of, question, blueprint.columns, counted.rows[:most], run.main, run.reads, cut=cut)
    return await queries.apart(tenant, len(counted.rows), lay_out)


# How blueprints and their runs are shown (G-065). Every `next_action` is a fixed sentence.


_ANSWER = "Answer with the rows, and say how fresh they are and what they rest on."
_INCOMPLETE = "Say that the window is not whole: it begins before evidence.kept_from, or not all was counted."
_TRUNCATED = "Raise limit, or narrow the window: there are more rows than these."
_NOTHING = (
    "Nothing was found. Read GET /v1/projects/{project_id}/event-names to see what was received, and check the window."
)


@cache
def blueprint(found: Blueprint) -> QueryBlueprint:
    """A blueprint, whole."""
    return QueryBlueprint(
        blueprint_id=found.id,
        title=found.title,
        description=found.description,
        params_schema=params_schema(found),
        columns=found.columns,
        required_events=[f"params.{name}" for name in found.event_params],
        max_rows=found.max_rows,
        endpoints=BlueprintEndpoints(
            detail=f"/v1/query-blueprints/{found.id}",
            run=f"/v1/projects/{{project_id}}/query-blueprints/{found.id}/run",
        ),
        next_action="Check that the events it needs were received, then run it with params that fit params_schema.",
    )


def params_schema(found: Blueprint) -> dict[str, Any]:
    """The schema of its parameters, made from what decodes them."""
    return {"$schema": DIALECT, **body_schema(found.params)}


@cache
def catalog() -> BlueprintCatalog:
    """Every blueprint."""
    blueprints = [blueprint(found) for found in CATALOGUE.values()]
    return BlueprintCatalog(blueprints, len(blueprints), "Choose a blueprint, and run it in a project.")


def run(project_id: str, asked: Asked, table: Table) -> BlueprintRun:
    """An answered run."""
    return shape_from(
        BlueprintRun,
        table,
        project_id=project_id,
        blueprint_id=asked.blueprint.id,
        row_count=len(table.rows),
        next_action=_advice(asked.blueprint, table),
    )


def _advice(asked: Blueprint, table: Table) -> str:
    if not any(row[name] for row in table.rows for name in asked.numeric):
        return _NOTHING
    if table.truncated:
        return _TRUNCATED
    return _ANSWER if table.evidence.complete else _INCOMPLETE
