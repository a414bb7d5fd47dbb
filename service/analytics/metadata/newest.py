"""The newest rows of the events of a plan, and the errors beside them: our own, and those of a provider (G-157)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from statemachines.onboarding.proof import FAILURE_KEY
from statemachines.onboarding.questions import NEWEST_ROWS, SeenRows, SeenSignals

MOST_ERRORS: Final = 10_000
"""Newest records among which an error with the marker of a failure is looked for."""
EXCEPTION: Final = "$exception"
"""The name of an error at the provider."""

NEWEST: Final = load_sql("analytics", "connected/newest_rows")
_ROWS = load_sql("analytics", "newest_rows")
_ERRORS = load_sql("analytics", "shown_failure")

_Number = Annotated[int, Meta(ge=0)]


class SignalProbe(msgspec.Struct, frozen=True):
    """Events, and the marker of a failure. None for a project without a plan."""

    events: tuple[str, ...] = ()
    failure: str | None = None


class NewestTable(msgspec.Struct):
    """The answer of a provider: of each event rows, last time, keys, rows with the marker, last time of those."""

    results: list[tuple[str, _Number, _Number, list[str], _Number, _Number]]


async def read_own(store: EventStore, project_id: str, probe: SignalProbe) -> SeenSignals:
    """Read our own records. Raises psycopg.Error, and as EventStore.fetch."""
    events = sorted(set(probe.events))
    rows = await store.fetch(_ROWS, project_id=project_id, events=events, newest=NEWEST_ROWS)
    [[event_at]] = [[at] for name, _, at, _ in rows if name is None]
    found = {name: SeenRows(count, at, frozenset(keys)) for name, count, at, keys in rows if name is not None and count}
    error_at, failure = await read_errors(store, project_id, probe.failure)
    return SeenSignals(found, failure, event_at, error_at)


async def read_errors(store: EventStore, project_id: str, marker: str | None) -> tuple[int | None, SeenRows | None]:
    """Read the time of our newest error of a project, and the newest ones with the marker of a failure.

    Errors are our own records also in a connected project. Raises as `read_own`.
    """
    [[error_at, count, shown_at]] = await store.fetch(
        _ERRORS, project_id=project_id, key=FAILURE_KEY, failure=marker, most=MOST_ERRORS
    )
    return error_at, SeenRows(min(count, NEWEST_ROWS), shown_at) if count else None


def asked_of(probe: SignalProbe, earliest: int) -> dict[str, Any]:
    """The values of the places in the query to a provider."""
    marker = json.dumps(probe.failure or EXCEPTION, ensure_ascii=False)[1:-1]  # as it stands in a JSON text
    events = [*sorted(set(probe.events)), EXCEPTION]
    return {"events": events, "failure": marker, "newest": NEWEST_ROWS, "earliest": earliest, "most": len(events)}


def seen_in(
    table: NewestTable, probe: SignalProbe, newest: int | None, own: tuple[int | None, SeenRows | None]
) -> SeenSignals:
    """Join the answer of a provider, the time of its newest event, and our own errors."""
    events, error_at, failure = {}, *own
    for event, count, at, keys, shown, shown_at in table.results:
        if event in probe.events:
            events[event] = SeenRows(count, at, frozenset(keys))
        if event == EXCEPTION:
            error_at = max(at, error_at or 0)
            if shown and probe.failure is not None:
                failure = max([SeenRows(shown, shown_at), *_listed(failure)], key=lambda rows: rows.last_at)
    return SeenSignals(events, failure, newest, error_at, "provider_cloud")


def _listed(rows: SeenRows | None) -> Sequence[SeenRows]:
    return () if rows is None else (rows,)
