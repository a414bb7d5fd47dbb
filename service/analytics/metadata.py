"""What a source of telemetry is asked, and names and keys of a project's events without their values (G-155)."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Meta

from schemas.kernel.shape import EvidenceSource
from schemas.onboarding import PROOF_PROPERTY
from service.analytics.bounded import Bounded, Rows
from service.eventstore.connect.connection import Row
from service.eventstore.connect.facts import DAY
from service.eventstore.store import EventStore
from service.sql import Query, load_query
from statemachines.kernel.machine import ReadFailed
from statemachines.onboarding.proof import FAILURE_KEY, NEWEST_ROWS, ErrorSighting, EventSighting, SeenRows, SeenSignals
from statemachines.runs.verdict import CountedBy, CountedIn

# Names and keys of a project's events, without their values, and the extent of the count (G-155).


class NameFound(msgspec.Struct, frozen=True):
    """The rows and people of a name, and the times of its first and last row (epoch seconds).

    `unique_users` is None for a name with too many rows to look at. `trend` are the rows of the last TREND_DAYS.
    """

    event: str
    row_count: int
    unique_users: int | None
    first_seen_at: int
    last_seen_at: int
    trend: list[int] | msgspec.UnsetType = msgspec.UNSET


class KeyFound(msgspec.Struct, frozen=True):
    """A key of an event's properties with its rows and the JSON types of its values, sorted."""

    event: str
    key: str
    row_count: int
    types: list[str]


class NamesFound(msgspec.Struct, frozen=True):
    """Names of a window, most rows first. All numbers count since `counted_from` (epoch seconds).

    Not `complete`: the window begins before that, or some rows have an uncounted name.
    """

    names: Sequence[NameFound]
    counted_from: int
    complete: bool


class KeysFound(msgspec.Struct, frozen=True):
    """Keys of a window, likewise."""

    keys: Sequence[KeyFound]
    counted_from: int
    complete: bool


# The newest rows of the events of a plan, and the errors beside them: our own, and those of a provider (G-157).

MOST_ERRORS: Final = 10_000
"""Newest records among which an error with the marker of a failure is looked for."""
EXCEPTION: Final = "$exception"
"""The name of an error at the provider."""

NEWEST: Final = load_query("analytics/connected", "newest_rows").text
_ROWS = load_query("analytics", "newest_rows")
_ERRORS = load_query("analytics", "shown_failure")

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


# Names and keys of a customer's provider: our questions to it, and its answers. It counts them all (G-032, G-155).

NAMES: Final = load_query("analytics/connected", "event_names").text
KEYS: Final = load_query("analytics/connected", "event_keys").text
"""The keys of some events."""
ALL_KEYS: Final = KEYS.replace("and event in {events}", "")


_Type = Literal["Array", "Bool", "Double", "Int64", "Null", "Object", "String", "UInt64"]
_TYPES: Final = {
    "Array": "array",
    "Bool": "boolean",
    "Double": "number",
    "Int64": "number",
    "Null": "null",
    "Object": "object",
    "String": "string",
    "UInt64": "number",
}


class NameTable(msgspec.Struct):
    """The provider's answer about names: rows, people, the first and the last time of each."""

    results: list[tuple[str, _Number, _Number, _Number, _Number]]


class KeyTable(msgspec.Struct):
    """The provider's answer about keys: rows of each, and the types of its values."""

    results: list[tuple[str, str, _Number, list[_Type]]]


def names_of(table: NameTable, since: int) -> NamesFound:
    """Sort the names of a window from then on."""
    names = sorted((NameFound(*row) for row in table.results), key=lambda name: (-name.row_count, name.event))
    return NamesFound(names, since, complete=True)


def keys_of(table: KeyTable, since: int) -> KeysFound:
    """Sort the keys of a window from then on."""
    keys = [
        KeyFound(event, key, rows, sorted({_TYPES[kind] for kind in kinds}))
        for event, key, rows, kinds in table.results
    ]
    keys.sort(key=lambda key: (-key.row_count, key.event, key.key))
    return KeysFound(keys, since, complete=True)


# Bounds and codes of counting by name: JSON types as bits, and the names and keys of a project's day (G-155).

TYPES: Final = ("array", "boolean", "null", "number", "object", "string")
"""JSON types by their bit in `event_key_days.types`, the lowest first."""

BITS: Final = {list: 1, bool: 2, type(None): 4, int: 8, float: 8, dict: 16, str: 32}
"""The bit of a value by its Python type."""

MAX_KEY: Final = 160
"""Characters of a key. A longer one is counted with the others, and no query can name it."""

MOST_NAMES: Final = 1000
MOST_KEYS: Final = 5000
"""Names, and pairs of an event and a key, of a project and day. `ingest_names` counts all others together."""


def types_of(bits: int) -> list[str]:
    """The JSON types of these bits, sorted."""
    return [name for place, name in enumerate(TYPES) if bits >> place & 1]


# Names and keys of our own records: whole days by their counters, the rest from rows (G-155). A window begins within a
# day, and some days began before anybody counted. Such a beginning is counted from rows, the newest of them up to a
# bound. Everything from `counted_from` on is counted. Names and keys beyond the limits of a day are in no number, and
# the answer is not complete then.

MOST_ROWS: Final = 100_000
"""Rows from which names are counted."""
MOST_OPENED: Final = 20_000
"""Rows from which keys are counted, each with a look at its properties."""
MOST_OF_PEOPLE: Final = 20_000
"""Rows of all names together in which people are counted, names with few rows first."""

TREND_DAYS: Final = 14
"""UTC days of the trend of a name, the present one among them."""

_NAMES = load_query("analytics", "event_names")
_TRENDS = load_query("analytics", "name_trends")
_LINKED = load_query("analytics", "linked")
_KEYS = load_query("analytics", "event_keys")


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


async def read_trends(store: EventStore, project_id: str, found: NamesFound) -> NamesFound:
    """Add the last days of each name, by the counters of days. Raises as `read_names`."""
    now = await store.now()
    first = now - now % DAY - (TREND_DAYS - 1) * DAY
    names = [name.event for name in found.names]
    rows = await store.fetch(_TRENDS, project_id=project_id, since=first, names=names)
    counts = {(event, day): count for event, day, count in rows}
    days = range(first, first + TREND_DAYS * DAY, DAY)
    trends = [
        msgspec.structs.replace(name, trend=[counts.get((name.event, day), 0) for day in days]) for name in found.names
    ]
    return msgspec.structs.replace(found, names=trends)


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


async def _fetch(store: EventStore, query: Query, project_id: str, window: _Window, **values: Any) -> list[Row]:
    """Run a read planned for its values, and never as a look through a day of all projects.

    The counters know the rows of a name, the planner does not.
    """
    bounds = {"project_id": project_id, "since": window.since, "midnight": window.midnight}
    async with store.reads.connection() as connection, connection.transaction():
        await connection.execute("set local enable_seqscan = off")
        return await connection.fetch(query, {**bounds, **values}, prepare=False)


# What a source of telemetry is asked, independent of any provider: the queries of verification, and bounded ones.
# G-032, G-085.

ROWS_PER_EVENT = 200  # rows with the right marker that are looked at, newest first
STRAY_ROWS = 1000  # rows with another marker that are looked at for the reason why they do not count


class EventProbe(msgspec.Struct, frozen=True):
    """Analytics events that carry a proof marker: which ones, which properties of them, and when they came in.

    `since` and `until` are epoch seconds, the end excluded. Rows under `marker_sha256` are looked for; some under
    other markers are told too.
    """

    events: tuple[str, ...]
    properties: tuple[str, ...]
    marker_sha256: str
    since: int
    until: int


class ErrorProbe(msgspec.Struct, frozen=True):
    """Errors that carry a proof marker and show a failure: which failure, which context, and when they came in."""

    failure_marker: str
    context: tuple[str, ...]
    marker_sha256: str
    since: int
    until: int


class FunnelProbe(msgspec.Struct, frozen=True):
    """An ordered funnel: which events in which order, and when they were received.

    `since` and `until` are epoch seconds, the end excluded.
    """

    events: tuple[str, ...]
    since: int
    until: int


class TrafficProbe(msgspec.Struct, frozen=True):
    """Events of a name in an environment, received after `since` and not after `until` (epoch seconds; G-190)."""

    event: str
    environment: str
    since: int
    until: int


class CountedEvents(msgspec.Struct, frozen=True):
    """How many events came, and where. `counted_by` public: those by the public DSN are among them (G-184)."""

    count: int
    counted_in: CountedIn
    counted_by: CountedBy | None = None


Hours = Mapping[int, int]
"""Events by hour of a period, the first of which is 0. An hour without any is left out."""


class AnalyticsProvider(Protocol):
    """A source of a project's telemetry. A failed read is never returned as an empty one."""

    @property
    def source(self) -> EvidenceSource:
        """The name of this source in evidence."""

    async def proof_events(self, probe: EventProbe) -> Sequence[EventSighting] | ReadFailed:
        """Find analytics events that carry a proof marker."""

    async def proof_errors(self, probe: ErrorProbe) -> Sequence[ErrorSighting] | ReadFailed:
        """Find errors that carry a proof marker and show the failure."""

    async def count_events(self, probe: TrafficProbe) -> CountedEvents | ReadFailed:
        """Count events of an environment, and unnamed ones where usual."""

    async def traffic_by_hour(self, probe: TrafficProbe, *, unnamed: bool, public: bool) -> Hours | ReadFailed:
        """Count the same events by hour since `since`, `unnamed` ones and those by the public DSN if told so."""

    async def count_funnel(self, probe: FunnelProbe) -> list[int] | ReadFailed:
        """Count the people who reached each step of an ordered funnel: as many numbers as steps, none above the last.

        Events of one second count as in order. No event is left out: a period with too many is a failed read.
        """

    async def ask(self, query: Bounded) -> Rows | ReadFailed:
        """Carry out a bounded query. Whoever asks has taken a turn and bounds the time: see BoundedQueries."""

    async def event_names(self, days: int, limit: int, *, trend: bool = False) -> NamesFound | ReadFailed:
        """Tell the names of the events of the last `days`, most rows first, where it counts them also by day."""

    async def property_keys(self, events: Sequence[str] | None, days: int, limit: int) -> KeysFound | ReadFailed:
        """Tell the keys of the properties of these events, or of all, of the last `days`, most rows first."""

    async def newest_rows(self, probe: SignalProbe) -> SeenSignals | ReadFailed:
        """Look at the newest rows of events, and for errors with the marker of a failure."""
