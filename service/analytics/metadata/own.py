"""Names and keys of our own records: whole days by their counters, the rest from rows (G-155).

A window begins within a day, and some days began before anybody counted. Such a beginning is counted from rows, the
newest of them up to a bound. Everything from `counted_from` on is counted. Names and keys beyond the limits of a day
are in no number, and the answer is not complete then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from schemas.onboarding.proof import PROOF_PROPERTY
from service.analytics.metadata.found import KeyFound, KeysFound, NameFound, NamesFound
from service.analytics.metadata.types import MAX_KEY, types_of
from service.eventstore.connect.clock import DAY
from service.eventstore.connect.connection import Row
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore

MOST_ROWS: Final = 100_000
"""Rows from which names are counted."""
MOST_OPENED: Final = 20_000
"""Rows from which keys are counted, each with a look at its properties."""
MOST_OF_PEOPLE: Final = 20_000
"""Rows of all names together in which people are counted, names with few rows first."""

_NAMES = load_sql("analytics", "event_names")
_LINKED = load_sql("analytics", "linked")
_KEYS = load_sql("analytics", "event_keys")


class _Window(NamedTuple):
    """The start of the request, the start of its kept part, and the next midnight (epoch seconds)."""

    wished: int
    since: int
    midnight: int

    def holds(self, counted_from: int, *, has_others: bool) -> bool:
        """Whether everything in it is counted."""
        return counted_from == self.wished and not has_others


async def read_names(store: EventStore, project_id: str, kept_seconds: int, days: int, limit: int) -> NamesFound:
    """Read the names of the last `days` of a project. Raises psycopg.Error, and as Reader.connection."""
    window = await _window(store, kept_seconds, days)
    most = {"most": MOST_ROWS, "most_of_people": MOST_OF_PEOPLE}
    [[linked]] = await store.fetch(_LINKED, project_id=project_id)
    rows = await _fetch(store, _NAMES, project_id, window, limit=limit, linked=linked, **most)
    counted_from, has_others = rows[0][:2]
    names = [NameFound(*row[2:]) for row in rows if row[2] is not None]
    return NamesFound(names, counted_from, window.holds(counted_from, has_others=has_others))


async def read_keys(
    store: EventStore, project_id: str, kept_seconds: int, events: Sequence[str] | None, days: int, limit: int
) -> KeysFound:
    """Read the keys of the last `days` of a project, of all events or of these. Raises as `read_names`."""
    window = await _window(store, kept_seconds, days)
    named = {"events": None if events is None else list(events), "hidden": PROOF_PROPERTY, "longest": MAX_KEY}
    rows = await _fetch(store, _KEYS, project_id, window, limit=limit, most=MOST_OPENED, **named)
    counted_from, has_others = rows[0][:2]
    keys = [KeyFound(event, key, count, types_of(bits)) for _, _, event, key, count, bits in rows if key is not None]
    return KeysFound(keys, counted_from, window.holds(counted_from, has_others=has_others))


async def _window(store: EventStore, kept_seconds: int, days: int) -> _Window:
    now = await store.now()
    wished = now + 1 - days * DAY
    since = max(wished, now - now % DAY - kept_seconds)
    return _Window(wished, since, since + -since % DAY)


async def _fetch(store: EventStore, query: str, project_id: str, window: _Window, **values: Any) -> list[Row]:
    """Run a read planned for its values, and never as a look through a day of all projects.

    The counters know the rows of a name, the planner does not.
    """
    bounds = {"project_id": project_id, "since": window.since, "midnight": window.midnight}
    async with store.reads.connection() as connection, connection.transaction():
        await connection.execute("set local enable_seqscan = off")
        return await connection.fetch(query, {**bounds, **values}, prepare=False)
