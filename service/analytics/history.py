"""What came before a deploy, to compare the time after it with: errors of the case, and traffic (G-173).

The time before does not change any more, so a process reads it once for a deploy. What cannot be read is no reason to
fail: then there are no statistics.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

import psycopg

from service.analytics.local import unread
from service.analytics.metadata import AnalyticsProvider, TrafficProbe
from service.eventstore.connect.facts import DAY
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from service.sql import load_query
from statemachines.kernel.machine import ReadFailed
from statemachines.runs.statistics import BEFORE_DAYS, HOUR, Before, Hour, comparable

MINUTE: Final = 60
MOST_KEPT: Final = 1_000
"""Times before a deploy that a process remembers."""

_ERRORS = load_query("analytics/history", "errors_by_minute")


class BeforeDeploy(NamedTuple):
    """Whose errors and which events are compared, up to when (epoch seconds). `unnamed`, `public`: those count too."""

    project_id: str
    case_id: str
    environment: str
    event: str
    until: int
    unnamed: bool
    public: bool


class History:
    """The times before deploys that a process has read, the latest MOST_KEPT."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._known: OrderedDict[BeforeDeploy, Before] = OrderedDict()

    async def before(self, provider: AnalyticsProvider, compared: BeforeDeploy) -> Before | None:
        """Read the time before a deploy. None if it cannot be read now."""
        known = self._known.get(compared)
        if known is not None:
            return known
        found = await read_before(self._store, provider, compared)
        if isinstance(found, ReadFailed):
            return None
        self._known[compared] = found
        if len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)
        return found


async def read_before(store: EventStore, provider: AnalyticsProvider, compared: BeforeDeploy) -> Before | ReadFailed:
    """Read errors and traffic of the BEFORE_DAYS before `until`, and choose what counts.

    A case that was opened meanwhile is judged from its first error on, which itself counts for nothing: it is the
    reason why the time begins there. Returns ReadFailed for what cannot be read now.
    """
    since = compared.until - BEFORE_DAYS * DAY
    try:
        rows = await store.fetch(
            _ERRORS,
            project_id=compared.project_id,
            case_id=compared.case_id,
            environment=compared.environment,
            since=since,
            until=compared.until + 1,
        )
    except (psycopg.Error, CommandNotDone) as error:
        return unread(error)
    minutes = {minute * MINUTE: int(errors) for minute, errors, _ in rows}
    if rows and not rows[0][2]:
        since = max(since, min(minutes))
        minutes[min(minutes)] -= 1
    probe = TrafficProbe(compared.event, compared.environment, since, compared.until)
    traffic = await provider.traffic_by_hour(probe, unnamed=compared.unnamed, public=compared.public)
    if isinstance(traffic, ReadFailed):
        return traffic
    errors = [0] * max(1, -(-(compared.until - since) // HOUR))
    for at, count in minutes.items():
        errors[min(max(at - since, 0) // HOUR, len(errors) - 1)] += count
    return comparable([Hour(count, traffic.get(hour, 0)) for hour, count in enumerate(errors)], since)
