"""Alerts: made, looked at, deleted (R-ALR, G-092, G-162).

The read of a look comes before the unit, as an argument. The definition of an alert never changes. Under the lock of
its stream, the unit checks that it still exists and has no later look.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec
import structlog
from psycopg_pool import PoolTimeout

from projections.alerts import ALERT_COUNTS, ALERT_LOOKS, ALERTS, AlertLookRow, AlertRow
from schemas import alerts as wire
from service.analytics.blueprints.asking import CATALOGUE, Asked, ask_for, run_blueprint
from service.analytics.bounded import MOST_ROWS, Table
from service.analytics.queries import QUERY_SECONDS, BoundedQueries, QueriesBusy
from service.auth.authority import carry_out
from service.auth.refusals import InvalidPayload
from service.eventstore.connect.facts import DAY, NOT_WRITTEN
from service.eventstore.declare.commands import Intent, Lookup, OutcomeUnknown, Unit
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from service.ids import new_id
from service.runs import sweep
from service.sql import load_query
from statemachines import alerts
from statemachines.alerts import (
    EVERY_SECONDS,
    AlertWish,
    Number,
    Op,
    RowMatch,
    Status,
    Threshold,
    ThresholdVerdict,
    read_number,
    write_number,
)
from statemachines.kernel.canonical import canonical, with_whole_numbers
from statemachines.kernel.machine import ReadFailed, Rejection, Stream

# Queries about alerts of a project: all, one, and the due ones.

_OF_PROJECT = load_query("alerts", "of_project")
_DUE = load_query("alerts", "due")
_NOW = load_query("alerts", "now")


class StandingAlert(NamedTuple):
    """An alert, its latest look, and the time of the read in epoch seconds."""

    row: AlertRow
    look: AlertLookRow
    now: int


class DueAlerts(NamedTuple):
    """The due alerts of a project, the longest due first, and the account to count them for."""

    rows: list[AlertRow]
    account: str


async def alerts_of(store: EventStore, project_id: str, alert_id: str | None = None) -> list[StandingAlert]:
    """Read the alerts of a project, newest first, or one of them."""
    return [
        StandingAlert(msgspec.json.decode(row, type=AlertRow), msgspec.json.decode(look, type=AlertLookRow), now)
        for row, look, now in await store.fetch(_OF_PROJECT, project_id=project_id, id=alert_id)
    ]


async def due_alerts(store: EventStore, project_id: str) -> DueAlerts:
    """Read the due alerts of a project."""
    found = await store.fetch(_DUE, project_id=project_id)
    rows = [msgspec.json.decode(row, type=AlertRow) for row, _ in found]
    return DueAlerts(rows, found[0][1] if found else "")


async def now_us(store: EventStore) -> int:
    """Return service_now() in microseconds since the epoch."""
    [[found]] = await store.fetch(_NOW)
    return int(found)


# Looks at alerts: reading the blueprint at a time and comparing it with the threshold (G-092, G-162).

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


def wish_of(body: wire.CreateAlert, schema: dict[str, object]) -> AlertWish:
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
    every = _apart(span, wire.MOST_LOOKS)
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
            every = _apart(span, wire.MOST_PROVIDED_LOOKS)
        looks.append(JudgedLook(at, wish.threshold.judge(found.rows), found.evidence.complete))
        at -= every
    return PastLooks(every, looks, span // every - len(looks))


def _apart(span: int, most: int) -> int:
    """Seconds between the looks at a span, at most so many of them."""
    return max(EVERY_SECONDS, -(-span // most))


class EvaluatedAlert(NamedTuple):
    """An alert, and the latest look at it."""

    row: AlertRow
    look: AlertLookRow


class EndedAlert(NamedTuple):
    """A deleted alert, and the time in epoch seconds."""

    id: str
    deleted_at: int


def create(project_id: str, wish: AlertWish) -> Intent[EvaluatedAlert]:
    """Make an alert. Raises TooManyAlerts.

    A fence of the project: rivals for its last place come one after the other.
    """
    stream = alerts.stream(project_id, new_id("alert"))

    def decide(unit: Unit) -> EvaluatedAlert:
        count = unit.row(ALERT_COUNTS, project_id, project_id)
        unit.append(
            stream, alerts.decide_create(unit.state(stream), wish, unit.now, standing=count.standing if count else 0)
        )
        look = AlertLookRow(project_id=project_id, id=stream.id, due_at=unit.now + EVERY_SECONDS)
        unit.put(stream, ALERT_LOOKS, look)
        return EvaluatedAlert(_row(unit, stream), look)

    return Intent([stream], decide, lookups=[Lookup(ALERT_COUNTS, project_id, project_id)], fence=True, saves=True)


def record_look(row: AlertRow, reading: BlueprintReading) -> Intent[EvaluatedAlert]:
    """Record a look at an alert, unless there is a later one. Raises AlertNotFound once it is deleted.

    Returns the latest look, this one or the other.
    """
    stream = alerts.stream(row.project_id, row.id)
    verdict = threshold_of(row).judge(reading.table.rows)
    mine = AlertLookRow(
        project_id=row.project_id,
        id=row.id,
        due_at=reading.at + EVERY_SECONDS,
        asked_us=reading.asked_us,
        evaluated_at=reading.at,
        value=None if verdict.observed is None else write_number(verdict.observed),
    )

    def decide(unit: Unit) -> EvaluatedAlert:
        events = alerts.decide_look(unit.state(stream), verdict, reading.at)
        latest = unit.row(ALERT_LOOKS, row.project_id, row.id)
        if latest is not None and latest.asked_us > mine.asked_us:
            return EvaluatedAlert(_row(unit, stream), latest)
        unit.append(stream, events)
        unit.put(stream, ALERT_LOOKS, mine)
        return EvaluatedAlert(_row(unit, stream), mine)

    return Intent([stream], decide, lookups=[Lookup(ALERT_LOOKS, row.project_id, row.id)])


def delete(project_id: str, alert_id: str) -> Intent[EndedAlert]:
    """Delete an alert. After the answer nobody records a look at it. Raises AlertNotFound."""
    stream = alerts.stream(project_id, alert_id)

    def decide(unit: Unit) -> EndedAlert:
        unit.append(stream, alerts.decide_delete(unit.state(stream), unit.now))
        unit.put(stream, ALERT_LOOKS, AlertLookRow(project_id=project_id, id=alert_id, due_at=None))
        return EndedAlert(alert_id, unit.now)

    return Intent([stream], decide)


def _row(unit: Unit, stream: Stream) -> AlertRow:
    row = unit.row(ALERTS, stream.project_id, stream.id)
    assert row is not None, "an alert that stands has a row"
    return row


# Alerts on the wire. Every `next_action` is a fixed sentence.

_NEXT = {
    Status.CREATED: "Evaluate it with POST …/evaluate, or wait for its schedule.",
    Status.EVALUATED_CLEAR: "Nothing to do. The schedule evaluates it again.",
    Status.TRIGGERED: "Run its blueprint to see the rows behind observed_value, and act on them.",
}
_LATE = "Its evaluation is late: the service is behind, or the project's analytics provider does not answer."


def created(made: EvaluatedAlert) -> wire.AlertCreated:
    """A new alert."""
    return wire.AlertCreated(**_members(made.row, made.look), next_action=_NEXT[Status.CREATED])


def alert(found: StandingAlert) -> wire.AlertShown:
    """One alert."""
    late = _late_seconds(found)
    following = _LATE if late >= EVERY_SECONDS else _NEXT[Status(found.row.status)]
    return wire.AlertShown(
        **_members(found.row, found.look), evaluation_due_at=_due_at(found), late_seconds=late, next_action=following
    )


def listed(project_id: str, found: Sequence[StandingAlert]) -> wire.AlertList:
    """All alerts of a project."""
    shown = [
        wire.ScheduledAlert(
            **_members(one.row, one.look), evaluation_due_at=_due_at(one), late_seconds=_late_seconds(one)
        )
        for one in found
    ]
    late = max((one.late_seconds for one in shown), default=0)
    if late >= EVERY_SECONDS:
        following = "Some evaluations are late: the service is behind, or the analytics provider does not answer."
    elif shown:
        following = "Act on the triggered ones."
    else:
        following = "Try a threshold with POST …/alerts/preview, then create an alert."
    return wire.AlertList(
        project_id=project_id, alerts=shown, count=len(shown), late_seconds=late, next_action=following
    )


def evaluated(found: EvaluatedAlert) -> wire.AlertEvaluated:
    """The verdict of the latest look."""
    row, look = found
    assert look.evaluated_at is not None, "somebody has looked"
    status = Status(row.status)
    return wire.AlertEvaluated(
        id=row.id,
        status=row.status,  # type: ignore[arg-type] # a row has no other status than these
        triggered=status is Status.TRIGGERED,
        observed_value=_number(look.value),
        threshold_column=row.threshold_column,
        threshold_op=row.threshold_op,  # type: ignore[arg-type] # nor another word
        threshold_value=read_number(row.threshold_value),
        evaluated_at=look.evaluated_at,
        next_action=_NEXT[status],
    )


def deleted(ended: EndedAlert) -> wire.AlertDeleted:
    """A deleted alert."""
    return wire.AlertDeleted(
        id=ended.id, status="deleted", deleted_at=ended.deleted_at, next_action="Nothing to do. It is not evaluated."
    )


def preview(project_id: str, wish: AlertWish, days: int, past: PastLooks) -> wire.AlertPreview:
    """A look back."""
    looks = [
        wire.PastLook(
            at=look.at,
            triggered=look.verdict.crossed,
            observed_value=look.verdict.observed,
            complete=look.complete,
        )
        for look in past.looks
    ]
    triggered = sum(look.triggered for look in looks)
    if past.left_out:
        following = "There was no time for the oldest looks. Use fewer days, or create the alert."
    elif triggered:
        following = "Create the alert if it would have triggered when you wanted it to."
    else:
        following = "It would not have triggered. Compare the observed values with the threshold."
    threshold = wish.threshold
    return wire.AlertPreview(
        project_id=project_id,
        blueprint_id=wish.blueprint_id,
        params=msgspec.json.decode(wish.params),
        threshold_column=threshold.column,
        threshold_op=threshold.op.value,
        threshold_value=threshold.value,
        row_match=threshold.row_match.value,
        days=days,
        every_seconds=past.every_seconds,
        looks=looks,
        count=len(looks),
        triggered_count=triggered,
        looks_left_out=past.left_out,
        next_action=following,
    )


def _members(row: AlertRow, look: AlertLookRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "project_id": row.project_id,
        "name": row.name,
        "blueprint_id": row.blueprint_id,
        "params": msgspec.json.decode(row.params),
        "threshold_column": row.threshold_column,
        "threshold_op": row.threshold_op,
        "threshold_value": read_number(row.threshold_value),
        "row_match": row.row_match,
        "status": row.status,
        "last_value": _number(look.value),
        "last_evaluated_at": look.evaluated_at,
        "created_at": row.created_at,
    }


def _due_at(found: StandingAlert) -> int:
    assert found.look.due_at is not None, "an alert that stands is looked at again"
    return found.look.due_at


def _late_seconds(found: StandingAlert) -> int:
    return max(0, found.now - _due_at(found))


def _number(text: str | None) -> Number | None:
    return None if text is None else read_number(text)


# The schedule of alerts: every 300 s each, projects in turn, equal questions of a project once (G-162, P27). A run
# works for most of the minute until the next one. It takes up projects in order of their waiting time, like a sweep.
# The rest stays due, and so does an alert after a failed read. Metrics, readiness and the alert itself show the
# longest delay.

log = structlog.get_logger(__name__)

AT_MOST: Final = 500
"""Most projects of a run."""
AT_ONCE: Final = 4
"""Projects at once: more would only wait for the connections of queries."""
RUN_SECONDS: Final = 45.0
"""After these a run takes up no further project."""
PROJECT_SECONDS: Final = 10.0
"""After these the turn of a project ends."""
EVALUATED, UNREAD, LEFT = "evaluated", "unread", "left"

_LATER = (Rejection, CommandNotDone, OutcomeUnknown, PoolTimeout, *NOT_WRITTEN, TimeoutError)
"""Failures after which an alert waits for its next turn."""


class AlertSchedule:
    """One run over the due alerts. `done` counts them: evaluated, unread after a failed read, left to a later turn.

    Fenced projects are skipped.
    """

    def __init__(self, store: EventStore, queries: BoundedQueries) -> None:
        self._store = store
        self._queries = queries
        self.done: Counter[str] = Counter()

    async def run(self) -> Counter[str]:
        """Evaluate due alerts until RUN_SECONDS are over. Raises psycopg.Error if the due ones cannot be read."""
        began = await sweep.moment(self._store)
        due = await sweep.waiting(self._store, sweep.Turn.ALERTS, AT_MOST)
        until = asyncio.get_running_loop().time() + RUN_SECONDS
        coming = iter(due)
        await asyncio.gather(*(self._work(coming, began, until) for _ in range(AT_ONCE)))
        return +self.done

    async def _work(self, coming: Iterable[sweep.Name], began: datetime, until: float) -> None:
        for name in coming:
            if asyncio.get_running_loop().time() >= until:
                return
            try:
                if await sweep.take(self._store.facts, sweep.Turn.ALERTS, [name], began):
                    await self._project(name[0])
            except _LATER as error:
                log.info("alerts_left_to_the_next_turn", project=name[0], error=type(error).__name__)

    async def _project(self, project_id: str) -> None:
        """Evaluate the due alerts of a project: the longest due question first, each of them once."""
        found = await due_alerts(self._store, project_id)
        questions: dict[tuple[str, str], list[AlertRow]] = {}
        for row in found.rows:
            questions.setdefault((row.blueprint_id, row.params), []).append(row)
        left = list(questions.values())
        until = asyncio.get_running_loop().time() + PROJECT_SECONDS
        while left:
            await self._question(project_id, found.account, left.pop(0))
            if asyncio.get_running_loop().time() >= until:
                break
        self.done[LEFT] += sum(map(len, left))

    async def _question(self, project_id: str, account: str, rows: Sequence[AlertRow]) -> None:
        """Ask one question of a project, and record its answer for each of its alerts."""
        first = rows[0]
        try:
            reading = await read(self._store, self._queries, project_id, account, first.blueprint_id, first.params)
        except _LATER as error:
            log.info("alerts_left_to_the_next_turn", project=project_id, error=type(error).__name__)
            self.done[LEFT] += len(rows)
            return
        if isinstance(reading, ReadFailed):
            log.info("alerts_unread", project=project_id, blueprint=first.blueprint_id, cause=reading.cause)
            self.done[UNREAD] += len(rows)
            return
        await asyncio.gather(*(self._record(row, reading) for row in rows))

    async def _record(self, row: AlertRow, reading: BlueprintReading) -> None:
        intent = record_look(row, reading)
        try:
            await carry_out(self._store, "alerts", "evaluate alert", intent, project=row.project_id)
        except _LATER as error:
            log.info("alerts_left_to_the_next_turn", alert=row.id, error=type(error).__name__)
            self.done[LEFT] += 1
        else:
            self.done[EVALUATED] += 1
