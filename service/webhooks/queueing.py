"""The outbox of webhooks: deliveries composed of events and queued for their targets.

Of a case, status and revision are those after the event, from its own history. The rest is as at the first attempt.
Further names carry ids, states and revisions alone: no text of telemetry, of reports or of people.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec
from eventsourcing.persistence import Tracking
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from projections.alerts import ALERTS
from projections.cases import CASE_BATCHES, CASES
from projections.deploys import DEPLOY_NOTES, DEPLOYS
from projections.onboarding import ONBOARDING
from projections.runs import APPROVALS, PULL_REQUESTS, RUNS, RunRow
from schemas import webhooks as wire
from service import deploys as deploy_show
from service.cases import case as case_show
from service.cases.listing import listed_case
from service.eventstore.connect.connection import Connection
from service.eventstore.connect.facts import Facts
from service.eventstore.log.reactor import BUSY_POLL, Repeating
from service.eventstore.read.recorder import FencedRecorder, PositionRecorder
from service.eventstore.read.stored import LogEvent
from service.eventstore.store import EventStore
from service.history.as_of import Mark, Past
from service.sql import Query, load_query
from service.webhooks.sending import delivery_id, is_destination
from service.webhooks.testing import DOCUMENTED, TOPICS, is_subscribed, name_of, occasion_of
from statemachines.alerts import FIRST_LOOK
from statemachines.cases.batch import CaseBatchEnded, is_batch
from statemachines.kernel.machine import derived_id
from statemachines.kernel.topics import UnknownTopic, latest_topic
from statemachines.notifications import (
    DestinationAdded,
    DestinationDeleted,
    DestinationReopened,
    DestinationStopped,
    RuleRemoved,
    RuleSet,
)
from statemachines.projects.project import ProjectFenced
from statemachines.webhooks import WebhookChanged, WebhookDeleted, WebhookRegistered, WebhookReopened, WebhookStopped

# Bodies of deliveries, made before the first attempt and never again (G-091, G-160).


class ToldEvent(NamedTuple):
    """An event to tell of: `revision` is that of its stream right after it."""

    project_id: str
    id: str
    event: str
    subject_id: str
    revision: int
    created_at: int


Data = dict[str, Any]


async def compose(store: EventStore, told: ToldEvent) -> bytes | None:
    """Make the body of a delivery. None when its subject is gone. Raises as reading does."""
    data = await data_of(store, told)
    if data is None:
        return None
    body = wire.DeliveryBody(
        id=told.id, event=told.event, project_id=told.project_id, created_at=told.created_at, data=data
    )
    return msgspec.json.encode(body)


async def data_of(store: EventStore, told: ToldEvent) -> Data | None:
    """Read the data of an event. None when its subject is gone. Raises as reading does."""
    kind, _, _ = told.event.partition(".")
    made = await _MAKERS[kind](store, told)
    return None if made is None else cast("Data", msgspec.to_builtins(made))


async def _of_case(store: EventStore, told: ToldEvent) -> msgspec.Struct | None:
    row = await _past(store, told).get(CASES, told.project_id, told.subject_id)
    if row is None:
        return None
    status, revision = case_show.status_of(row.status), row.case_revision
    if told.event == "case.merged":
        assert row.merged_into is not None, "the event says so"
        return wire.CaseMergedTold(case_id=row.id, status=status, revision=revision, merged_into=row.merged_into)
    if told.event == "case.assigned":
        return wire.CaseAssignedTold(case_id=row.id, status=status, revision=revision, assignee=row.assignee)
    if told.event not in DOCUMENTED:
        return wire.CaseTold(case_id=row.id, status=status, revision=revision)
    listed = await listed_case(store, told.project_id, told.subject_id)
    if listed is None:
        return None
    return replace(case_show.item(told.project_id, listed), status=status, revision=revision)


async def _of_case_batch(store: EventStore, told: ToldEvent) -> msgspec.Struct | None:
    row = await store.get(CASE_BATCHES, told.project_id, told.subject_id)
    if row is None:
        return None
    return wire.CaseBatchTold(
        batch_id=row.id,
        action=cast("Any", row.action),
        assignee=row.assignee,
        cases=row.cases,
        moved=row.moved,
        revision=row.revision,
    )


async def _of_deploy(store: EventStore, told: ToldEvent) -> msgspec.Struct | None:
    row = await store.get(DEPLOYS, told.project_id, told.subject_id)
    if row is None:
        return None
    note = await store.get(DEPLOY_NOTES, told.project_id, told.subject_id)
    return deploy_show.shown_record(deploy_show.Noted(row, None if note is None else note.message))


async def _of_onboarding(store: EventStore, told: ToldEvent) -> msgspec.Struct | None:
    row = await _past(store, told).get(ONBOARDING, told.project_id, told.subject_id)
    if row is None:
        return None
    return wire.OnboardingTold(onboarding_id=row.id, status=cast("Any", row.status), revision=row.state_revision)


async def _of_run(store: EventStore, told: ToldEvent) -> msgspec.Struct | None:
    row = await _past(store, told).get(RUNS, told.project_id, told.subject_id)
    if row is None:
        return None
    return wire.RunTold(
        run_id=row.id,
        automation_id=row.automation_id,
        case_id=row.case_id,
        status=cast("Any", row.outcome or row.phase),
        revision=row.revision,
        error_probability=UNSET if told.event != "run.ended" else _error_probability(row),
    )


def _error_probability(row: RunRow) -> float | UnsetType | None:
    verdict = row.state.verdict
    if verdict is None or isinstance(verdict.statistics, UnsetType):
        return UNSET
    return verdict.statistics.probability


async def _of_approval(store: EventStore, told: ToldEvent) -> msgspec.Struct | None:
    row = await _past(store, told).get(APPROVALS, told.project_id, told.subject_id)
    if row is None:
        return None
    return wire.ApprovalTold(
        approval_id=row.id,
        run_id=row.run_id,
        automation_id=row.automation_id,
        status=cast("Any", row.status),
        revision=row.revision,
    )


async def _of_pull_request(store: EventStore, told: ToldEvent) -> msgspec.Struct | None:
    row = await _past(store, told).get(PULL_REQUESTS, told.project_id, told.subject_id)
    if row is None:
        return None
    return wire.PullRequestTold(
        pull_request_id=row.id,
        run_id=row.run_id,
        status=cast("Any", row.status),
        automations_disabled=row.state.breaches[-1].automation_ids,
        revision=row.revision,
    )


async def _of_alert(store: EventStore, told: ToldEvent) -> msgspec.Struct | None:
    """The state of an alert. None also for a first look that an earlier release recorded as cleared: nothing was."""
    if told.event == "alert.cleared" and told.revision == FIRST_LOOK:
        return None
    row = await _past(store, told).get(ALERTS, told.project_id, told.subject_id)
    return (
        None if row is None else wire.AlertTold(alert_id=row.id, status=cast("Any", row.status), revision=row.revision)
    )


async def _of_project(_: EventStore, told: ToldEvent) -> msgspec.Struct:
    return wire.ProjectTold(project_id=told.project_id, status="fenced", revision=told.revision)


def _past(store: EventStore, told: ToldEvent) -> Past:
    return Past(store, Mark("r", told.revision))


_MAKERS: dict[str, Callable[[EventStore, ToldEvent], Awaitable[msgspec.Struct | None]]] = {
    "case": _of_case,
    "case_batch": _of_case_batch,
    "deploy": _of_deploy,
    "onboarding": _of_onboarding,
    "run": _of_run,
    "approval": _of_approval,
    "pull_request": _of_pull_request,
    "alert": _of_alert,
    "project": _of_project,
}


# The queueing half of the outbox, a reader of the log, in the transaction of its own checkpoint (R-WEB-07, G-159). A
# delivery exists exactly when its event has a position and the checkpoint has passed it, so that a crash neither
# loses one nor makes one for work that was rolled back. The events of the webhooks themselves come in the same
# order: the reader keeps them, and so knows whether a webhook was registered and active at an event. A stop and a
# fence drop the queue: only positions after `since` count.

NAME = "outbox"
PAGE = 500
POLL = 60.0  # seconds; the sequencer of the same worker wakes it, whoever numbered events

_SUBSCRIPTIONS = load_query("webhooks", "subscriptions")
_KEEP = load_query("webhooks", "keep_subscriptions")
_FORGET = load_query("webhooks", "forget_subscriptions")
_QUEUE = load_query("webhooks", "queue")

_OWN = frozenset(
    event.TOPIC
    for event in (
        WebhookRegistered,
        WebhookChanged,
        WebhookStopped,
        WebhookReopened,
        WebhookDeleted,
        DestinationAdded,
        RuleSet,
        RuleRemoved,
        DestinationStopped,
        DestinationReopened,
        DestinationDeleted,
        ProjectFenced,
    )
)

ACTS: Mapping[str, str] = {
    "resolve": "case.resolved",
    "ignore": "case.ignored",
    "suppress": "case.ignored",
    "assign": "case.assigned",
}
"""By the action of a batch, the name under which one such act is delivered."""

Key = tuple[str, str]


class Subscription(NamedTuple):
    """A webhook at the place of the reader. Events after the position `since` are queued while `active`."""

    events: tuple[str, ...]
    active: bool
    since: int


def queue_once(connection: Connection) -> int | None:
    """Read the next page of the log. Returns its number of events. None: another process is reading it."""
    with connection.transaction():
        places = PositionRecorder.over(connection)
        position = places.take(NAME)
        if position is None:
            return None
        events = FencedRecorder.over(connection).select_after(position, PAGE)
        if not events:
            return 0
        _Page(connection, [event for event in events if _concerns(event)]).queue()
        places.insert_tracking(Tracking(NAME, events[-1].id))
        return len(events)


def _concerns(event: LogEvent) -> bool:
    return _is_own(event) or name_of(event.topic) is not None or occasion_of(event.topic) is not None


def _is_own(event: LogEvent) -> bool:
    """Whether an event of any version is one of webhooks themselves, or the fence of their project."""
    try:
        return latest_topic(event.topic) in _OWN
    except UnknownTopic:
        return False


class _Page:
    """The events of one page about webhooks and their subjects."""

    def __init__(self, connection: Connection, events: list[LogEvent]) -> None:
        self._connection = connection
        self._events = events
        self._known: dict[str, dict[str, Subscription]] = {}
        self._changed: dict[Key, Subscription | None] = {}
        self._deliveries: list[dict[str, Any]] = []

    def queue(self) -> None:
        """Go through them in order, then write the result."""
        if not self._events:
            return
        projects = sorted({event.project_id for event in self._events})
        found = self._connection.execute(_SUBSCRIPTIONS, {"projects": projects})
        for project_id, webhook_id, names, active, since in found.fetchall():
            self._known.setdefault(project_id, {})[webhook_id] = Subscription(tuple(names), active, since)
        for event in self._events:
            if is_batch(event.correlation_id) and event.topic != CaseBatchEnded.TOPIC:
                continue  # Its batch is told of as a whole.
            if not _is_own(event):
                self._queue(event, name_of(event.topic), occasion_of(event.topic))
            elif event.payload is not None:  # An erased event is one of a project that is gone.
                self._follow(event)
        self._write()

    def _follow(self, event: LogEvent) -> None:
        """Take in an event of a webhook, or of its whole project."""
        assert event.position is not None, "the log is read by position"
        mine = self._known.setdefault(event.project_id, {})
        before = mine.get(event.stream_id)
        match event.recorded().event:
            case WebhookRegistered(events=events):
                after: Subscription | None = Subscription(tuple(events), active=True, since=event.position)
            case DestinationAdded():
                after = Subscription((), active=True, since=event.position)
            case RuleSet(told=told) if before is None:  # the release before met its beginning
                after = Subscription(tuple(told), active=True, since=event.position)
            case WebhookDeleted() | DestinationDeleted():
                after = None
            case ProjectFenced():
                self._queue(event, wire.FENCED, None)  # the last that webhooks are told
                for webhook_id, one in list(mine.items()):
                    self._change(event.project_id, webhook_id, one._replace(active=False))
                return
            case _ if before is None:
                return
            case WebhookChanged(events=events):
                after = before._replace(events=tuple(events))
            case RuleSet(told=told) | RuleRemoved(told=told):
                after = before._replace(events=tuple(told))
            case WebhookStopped() | DestinationStopped():
                after = before._replace(active=False)
            case WebhookReopened() | DestinationReopened():
                after = before._replace(active=True, since=event.position)
            case _:
                return
        self._change(event.project_id, event.stream_id, after)

    def _change(self, project_id: str, webhook_id: str, after: Subscription | None) -> None:
        if after is None:
            self._known[project_id].pop(webhook_id, None)
        else:
            self._known[project_id][webhook_id] = after
        self._changed[project_id, webhook_id] = after

    def _queue(self, event: LogEvent, of_webhooks: str | None, occasion: str | None) -> None:
        """Queue an event for each webhook subscribed to its name, and each destination told of its occasion."""
        for webhook_id, one in self._known.get(event.project_id, {}).items():
            name = occasion if is_destination(webhook_id) else of_webhooks
            if name is not None and one.active and _is_told(one.events, name, event):
                self._deliveries.append(
                    {
                        "project_id": event.project_id,
                        "webhook_id": webhook_id,
                        "position": event.position,
                        "id": delivery_id(webhook_id, event.event_id),
                        "event": name,
                        "subject_id": event.stream_id,
                        "stream_revision": event.revision,
                        "created_at": int(event.recorded_at.timestamp()),
                    }
                )

    def _write(self) -> None:
        kept = [(key, one) for key, one in self._changed.items() if one is not None]
        gone = [key for key, one in self._changed.items() if one is None]
        if kept:
            rows = [
                {"project_id": key[0], "id": key[1], "events": one.events, "active": one.active, "since": one.since}
                for key, one in kept
            ]
            self._connection.execute(_KEEP, {"rows": msgspec.json.encode(rows).decode()})
        if gone:
            projects, webhooks = map(list, zip(*gone, strict=True))
            self._connection.execute(_FORGET, {"projects": projects, "webhooks": webhooks})
        if self._deliveries:
            rows_text = msgspec.json.encode(self._deliveries).decode()
            self._connection.execute(_QUEUE, {"rows": rows_text})


def _is_told(events: Collection[str], name: str, event: LogEvent) -> bool:
    """Whether a subscription holds the name of an event, of a batch also the name of each of its acts."""
    if is_subscribed(events, name):
        return True
    if event.topic != CaseBatchEnded.TOPIC or event.payload is None:
        return False
    match event.recorded().event:
        case CaseBatchEnded(action=action):
            return is_subscribed(events, ACTS[action])
    return False


class OutboxReader(Repeating):
    """Runs `queue_once` for ever. `read` is called after each page with events."""

    def __init__(self, conninfo: str, read: Callable[[], object] = lambda: None) -> None:
        super().__init__(NAME, conninfo)
        self._read = read

    def turn(self, connection: Connection) -> float:
        """Read a page. Look again at once after a full one."""
        if count := queue_once(connection):
            self._read()
        return BUSY_POLL if count is None else 0.0 if count == PAGE else POLL


# Statements for many deliveries at once: while one runs, the next gathers (G-159). Hundreds of deliveries a second
# begin and end. A statement and a commit for each of these would cost more than all else. With little to do, a
# statement is for one delivery, and waits for nobody.

MOST = 32
"""Deliveries of one statement."""
KEY = ("project_id", "webhook_id", "position")


class _Asked(NamedTuple):
    values: Mapping[str, Any]
    waiter: asyncio.Future[tuple[Any, ...] | None]


class DeliveryNotes:
    """The statements of one kind. They take each column as an array, and return the key of a delivery first."""

    def __init__(self, facts: Facts, query: Query, columns: Sequence[str]) -> None:
        self._facts = facts
        self._query = query
        self._columns = (*KEY, "epoch", *columns)
        self._gathered: list[_Asked] = []
        self._running: asyncio.Task[None] | None = None

    async def note(self, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Run the statement for one delivery, beside others. Returns its row without the key, if there is one.

        Raises what NOT_WRITTEN names.
        """
        waiter: asyncio.Future[tuple[Any, ...] | None] = asyncio.get_running_loop().create_future()
        self._gathered.append(_Asked(values, waiter))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await waiter

    async def stop(self) -> None:
        """Give up the statement under way."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while self._gathered:
                some, self._gathered = self._gathered[:MOST], self._gathered[MOST:]
                await self._carry_out(some)
        finally:
            self._running = None

    async def _carry_out(self, some: Sequence[_Asked]) -> None:
        try:
            columns = {name: [asked.values[name] for asked in some] for name in self._columns}
            async with self._facts.connection() as connection:
                rows = await (await connection.execute(self._query, columns)).fetchall()
        except Exception as error:  # noqa: BLE001 - each that waits hears of it
            for asked in some:
                if not asked.waiter.done():
                    asked.waiter.set_exception(error)
            return
        found = {row[: len(KEY)]: row[len(KEY) :] for row in rows}
        for asked in some:
            if not asked.waiter.done():
                asked.waiter.set_result(found.get(tuple(asked.values[name] for name in KEY)))


# The events of a project as webhooks are told of them, read by position (G-161).

LOOKED_AT = 5_000
"""Events of a project that one page looks at."""

_PROJECT_EVENTS = load_query("webhooks", "project_events")


class FollowedEvent(NamedTuple):
    """An event at its position."""

    told: ToldEvent
    position: int
    data: Data


async def events_of(
    store: EventStore, project_id: str, names: Collection[str], after: int, limit: int
) -> tuple[list[FollowedEvent], int]:
    """Read events under some names after a position, and the position to go on from. Raises as reading does."""
    topics = [topic for name in names for topic in TOPICS[name]]
    rows = await store.fetch(
        _PROJECT_EVENTS, project_id=project_id, after=after, looked=LOOKED_AT, topics=topics, limit=limit
    )
    found = []
    for _, position, event_id, topic, stream_id, revision, at in rows:
        if position is None:
            continue
        name = name_of(topic)
        assert name is not None, "only topics with a name are asked for"
        told = ToldEvent(project_id, derived_id("evt", project_id, event_id), name, stream_id, revision, at)
        data = await data_of(store, told)
        if data is not None:
            found.append(FollowedEvent(told, position, data))
    full = len(rows) == limit and rows[-1][1] is not None
    return found, rows[-1][1] if full else rows[0][0]
