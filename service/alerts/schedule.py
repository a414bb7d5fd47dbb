"""The schedule of alerts: every 300 s each, projects in turn, equal questions of a project once (G-162, P27).

A run works for most of the minute until the next one. It takes up projects in order of their waiting time, like a
sweep. The rest stays due, and so does an alert after a failed read. Metrics, readiness and the alert itself show the
longest delay.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import structlog
from psycopg_pool import PoolTimeout

from projections.alerts import AlertRow
from service.alerts import alert
from service.alerts.alert import BlueprintReading, due_alerts
from service.analytics.queries import BoundedQueries
from service.auth.authority import carry_out
from service.eventstore.connect.facts import NOT_WRITTEN
from service.eventstore.declare.commands import OutcomeUnknown
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from service.runs import sweep
from service.runs.sweep import Name, Turn
from statemachines.kernel.machine import ReadFailed, Rejection

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
        due = await sweep.waiting(self._store, Turn.ALERTS, AT_MOST)
        until = asyncio.get_running_loop().time() + RUN_SECONDS
        coming = iter(due)
        await asyncio.gather(*(self._work(coming, began, until) for _ in range(AT_ONCE)))
        return +self.done

    async def _work(self, coming: Iterable[Name], began: datetime, until: float) -> None:
        for name in coming:
            if asyncio.get_running_loop().time() >= until:
                return
            try:
                if await sweep.take(self._store.facts, Turn.ALERTS, [name], began):
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
            reading = await alert.read(
                self._store, self._queries, project_id, account, first.blueprint_id, first.params
            )
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
        intent = alert.record_look(row, reading)
        try:
            await carry_out(self._store, "alerts", "evaluate alert", intent, project=row.project_id)
        except _LATER as error:
            log.info("alerts_left_to_the_next_turn", alert=row.id, error=type(error).__name__)
            self.done[LEFT] += 1
        else:
            self.done[EVALUATED] += 1
