"""The adapter for connected projects: bounded queries to the customer's provider over read-only OAuth (R-GEN-08).

The provider's server says when it received a row (`created_at`); the client's own time of an event is not looked at.
Markers are compared here by their hash: the raw ones are known to nobody but the customer.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from time import perf_counter
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import psycopg

from projections.analytics import ConnectionRow
from schemas.onboarding import PROOF_PROPERTY
from service.analytics import bounded, metadata
from service.analytics.connecting import http as provider_http
from service.analytics.connection import account_of
from service.analytics.local import unread
from service.analytics.returning import TokenKeeper
from service.eventstore.connect.facts import DAY
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from service.sql import load_query
from statemachines.kernel.machine import ReadFailed
from statemachines.onboarding.proof import ErrorSighting, EventSighting, SeenSignals, carried_markers
from statemachines.runs.verdict import MOST_LOOKED, CountedIn

T = TypeVar("T", bound=msgspec.Struct)

MAX_QUERY_BYTES = 16 * 1024 * 1024
MAX_ROWS = 2000
LATE_SECONDS = 86400  # the client's own time may differ this much from the time of receipt; it only narrows the scan
BROWSER_LIBRARIES = frozenset({"web", "js"})
_EXCEPTION = "$exception"

_PROOF = load_query("analytics/connected", "proof_events").filled(proof=PROOF_PROPERTY, most=MAX_ROWS).text
_COUNT = load_query("analytics/connected", "event_traffic").text
_BY_HOUR = load_query("analytics/connected", "traffic_by_hour").text
_USUAL = load_query("analytics/connected", "usual_environment").text
_NEWEST = load_query("analytics/connected", "newest_event").text


class _Rows(msgspec.Struct):
    """The provider's own answer to a query."""

    results: list[tuple[str, int, str | dict[str, Any]]]


class _Pair(msgspec.Struct):
    """The provider's answer to two counts."""

    results: Annotated[list[tuple[int, int]], msgspec.Meta(min_length=1, max_length=1)]


class _ByHour(msgspec.Struct):
    """The provider's answer to two counts by hour."""

    results: list[tuple[int, int, int]]


class _Total(msgspec.Struct):
    """The provider's answer to a count."""

    results: Annotated[list[tuple[int]], msgspec.Meta(min_length=1, max_length=1)]


class _Levels(msgspec.Struct):
    """The provider's answer to a funnel: how many people came to each level and not further."""

    results: list[tuple[int, int]]


class _Table(msgspec.Struct):
    """The provider's answer to a bounded query."""

    results: list[Any]
    columns: list[str] = []


class ConnectedAnalytics:
    """Reads one project of the customer's provider."""

    source: Literal["provider_cloud"] = "provider_cloud"

    def __init__(
        self,
        store: EventStore,
        client: provider_http.ProviderClient,
        tokens: TokenKeeper,
        pace: provider_http.Pace,
        connection: ConnectionRow,
    ) -> None:
        self._store = store
        self._client = client
        self._tokens = tokens
        self._pace = pace
        self._connection = connection

    @property
    def connection(self) -> ConnectionRow:
        """The connection that is read through."""
        return self._connection

    async def proof_events(self, probe: metadata.EventProbe) -> Sequence[EventSighting] | ReadFailed:
        """Find analytics events with a proof marker."""
        rows = await self._rows(list(dict.fromkeys(probe.events)), probe.since, probe.until)
        if isinstance(rows, ReadFailed):
            return rows
        wanted = frozenset(probe.properties)
        return [
            EventSighting(
                event=event,
                received_at=at,
                markers=carried_markers(properties),
                properties={name: properties[name] for name in wanted & properties.keys()},
                boundary=boundary_of(properties),
            )
            for event, at, properties in rows
        ]

    async def proof_errors(self, probe: metadata.ErrorProbe) -> Sequence[ErrorSighting] | ReadFailed:
        """Find exceptions with a proof marker. A provider keeps tags and extra among an event's properties."""
        rows = await self._rows([_EXCEPTION], probe.since, probe.until)
        if isinstance(rows, ReadFailed):
            return rows
        return [
            ErrorSighting(
                message=message_of(properties),
                received_at=at,
                markers=carried_markers(properties),
                tags=properties,
                extra={},
                user={},
                boundary=boundary_of(properties),
            )
            for _, at, properties in rows
        ]

    async def count_events(self, probe: metadata.TrafficProbe) -> metadata.CountedEvents | ReadFailed:
        """Count events of an environment, and unnamed ones where usual."""
        period = {"since": probe.since, "until": probe.until, "earliest": max(0, probe.since - LATE_SECONDS)}
        before = {
            "since": probe.since,
            "earliest": max(0, probe.since - bounded.LONGEST_DAYS * DAY),
            "looked": MOST_LOOKED,
        }
        told = {"event": probe.event, "environment": probe.environment}
        counted, usual = await asyncio.gather(
            self._query(_COUNT, {**told, **period}, _Pair, first=True),
            self._query(_USUAL, {"event": probe.event, **before}, _Pair, first=True),
        )
        if isinstance(counted, ReadFailed):
            return counted
        if isinstance(usual, ReadFailed):
            return usual
        [(in_environment, unnamed)], [(looked, named)] = counted.results, usual.results
        counted_in = CountedIn(probe.environment, looked, named)
        return metadata.CountedEvents(in_environment + (unnamed if counted_in.unnamed else 0), counted_in)

    async def traffic_by_hour(
        self, probe: metadata.TrafficProbe, *, unnamed: bool, public: bool
    ) -> metadata.Hours | ReadFailed:
        """Count the same events by hour. None of them came by a DSN."""
        del public
        period = {"since": probe.since, "until": probe.until, "earliest": max(0, probe.since - LATE_SECONDS)}
        told = {"event": probe.event, "environment": probe.environment, "most": MAX_ROWS}
        answer = await self._query(_BY_HOUR, {**told, **period}, _ByHour, first=True)
        if isinstance(answer, ReadFailed):
            return answer
        return {hour: named + (bare if unnamed else 0) for hour, named, bare in answer.results}

    async def count_funnel(self, probe: metadata.FunnelProbe) -> list[int] | ReadFailed:
        """Count the people who reached each step of an ordered funnel."""
        window = bounded.Window(probe.since, probe.until)
        places = {"since": probe.since, "until": probe.until, "earliest": max(0, probe.since - LATE_SECONDS)}
        values = {**bounded.funnel_values(probe.events, window), **places, "most": bounded.MAX_STEPS}
        answer = await self._query(bounded.FUNNEL_HOGQL, values, _Levels)
        if isinstance(answer, ReadFailed):
            return answer
        try:
            return bounded.reached(answer.results, len(probe.events))
        except ValueError:
            return provider_http.failure("malformed")

    async def ask(self, query: bounded.Bounded) -> bounded.Rows | ReadFailed:
        """Carry out a bounded query at the provider, and look beside it when its newest record of a year came in."""
        assert query.connected is not None, "this is never asked of a provider"
        began = perf_counter()
        earliest = max(0, query.as_of - bounded.LONGEST_DAYS * LATE_SECONDS)
        table, newest = await asyncio.gather(
            self._query(query.connected, named_in(query), _Table), self._query(_NEWEST, {"earliest": earliest}, _Total)
        )
        if isinstance(table, ReadFailed):
            return table
        if isinstance(newest, provider_http.QueryRefused):  # These words are ours, whatever the caller asked.
            return ReadFailed(newest.cause)
        if isinstance(newest, ReadFailed):
            return newest
        row = tuple[Any, ...] if query.row is None else query.row
        try:
            rows = msgspec.convert(table.results, list[row])  # type: ignore[valid-type] # a type made of one
        except msgspec.ValidationError:
            return provider_http.failure("malformed")
        unnamed = query.row is None and any(len(values) != len(table.columns) for values in rows)
        if unnamed or len(rows) > query.most + 1 or (query.single and len(rows) != 1):
            return provider_http.failure("malformed")
        return bounded.Rows(
            rows=rows,
            names=[] if query.row is not None else table.columns,
            as_of=query.as_of,
            last_at=newest.results[0][0] or None,
            kept_from=None,
            complete=True,
            source=self.source,
            provider_project_id=self._connection.provider_project_id,
            database_ms=(perf_counter() - began) * 1000,
        )

    async def event_names(
        self,
        days: int,
        limit: int,
        *,
        trend: bool = False,  # noqa: ARG002 - a provider is asked for no days
    ) -> metadata.NamesFound | ReadFailed:
        """Tell the names of the events of the last `days`, without a trend."""
        window = await self._last(days)
        answer = await self._query(metadata.NAMES, {**window, "limit": limit}, metadata.NameTable)
        if isinstance(answer, ReadFailed):
            return answer
        return (
            metadata.names_of(answer, window["since"])
            if len(answer.results) <= limit
            else provider_http.failure("malformed")
        )

    async def property_keys(
        self, events: Sequence[str] | None, days: int, limit: int
    ) -> metadata.KeysFound | ReadFailed:
        """Tell the keys of the properties of these events, or of all, of the last `days`."""
        window = await self._last(days)
        query, some = (metadata.ALL_KEYS, {}) if events is None else (metadata.KEYS, {"events": list(events)})
        values = {**window, **some, "hidden": PROOF_PROPERTY, "limit": limit}
        answer = await self._query(query, values, metadata.KeyTable)
        if isinstance(answer, ReadFailed):
            return answer
        return (
            metadata.keys_of(answer, window["since"])
            if len(answer.results) <= limit
            else provider_http.failure("malformed")
        )

    async def newest_rows(self, probe: metadata.SignalProbe) -> SeenSignals | ReadFailed:
        """Look at the newest rows of events of a year, and for errors, ours too, with the marker of a failure."""
        try:
            own = await metadata.read_errors(self._store, self._connection.project_id, probe.failure)
            earliest = max(0, await self._store.now() - bounded.LONGEST_DAYS * DAY)
        except (psycopg.Error, CommandNotDone) as error:
            return unread(error)
        values = metadata.asked_of(probe, earliest)
        table, newest = await asyncio.gather(
            self._query(metadata.NEWEST, values, metadata.NewestTable, first=True),
            self._query(_NEWEST, {"earliest": earliest}, _Total, first=True),
        )
        if isinstance(table, ReadFailed):
            return table
        if isinstance(newest, ReadFailed):
            return newest
        if len(table.results) > values["most"]:
            return provider_http.failure("malformed")
        return metadata.seen_in(table, probe, newest.results[0][0] or None, own)

    async def _last(self, days: int) -> dict[str, int]:
        """The window of the last days, as the provider is asked for it."""
        until = await self._store.now() + 1
        since = until - days * DAY
        return {"since": since, "until": until, "earliest": max(0, since - LATE_SECONDS)}

    async def _rows(
        self, events: list[str], since: int, until: int
    ) -> list[tuple[str, int, dict[str, Any]]] | ReadFailed:
        values = {"events": events, "since": since, "until": until, "earliest": max(0, since - LATE_SECONDS)}
        answer = await self._query(_PROOF, values, _Rows, first=True)
        if isinstance(answer, ReadFailed):
            return answer
        rows = []
        for event, at, properties in answer.results:
            if isinstance(properties, str):
                try:
                    properties = json.loads(properties)  # noqa: PLW2901 - the same thing, opened
                except (ValueError, RecursionError):
                    return provider_http.failure("malformed")
            if not isinstance(properties, dict):
                return provider_http.failure("malformed")
            rows.append((event, at, properties))
        return rows

    async def answer(self, query: str, values: Mapping[str, Any]) -> bytes | ReadFailed:
        """Query with the stored token, and leave the text of the answer to the caller: it may be large."""
        return _body(await self._send("POST", "query/", provider_http.hogql(query, values), max_bytes=MAX_QUERY_BYTES))

    async def _query(
        self, query: str, values: Mapping[str, Any], shape: type[T], *, first: bool = False
    ) -> T | ReadFailed:
        """Query with the stored token. `first`: before what else is asked of the connection."""
        return await self.post("query/", provider_http.hogql(query, values), shape, first=first)

    async def post(
        self, path: str, content: provider_http.Content, shape: type[T], *, first: bool = False
    ) -> T | ReadFailed:
        """Post below the connected project, and read the answer in the agreed form."""
        return self._read(await self._send("POST", path, content, max_bytes=MAX_QUERY_BYTES, first=first), shape)

    async def get(self, path: str, shape: type[T]) -> T | ReadFailed:
        """Get something below the connected project, and read it in the agreed form."""
        return self._read(await self._send("GET", path, None, max_bytes=MAX_QUERY_BYTES), shape)

    def _read(self, answer: provider_http.HttpAnswer | ReadFailed, shape: type[T]) -> T | ReadFailed:
        body = _body(answer)
        parsed: T | ReadFailed = body if isinstance(body, ReadFailed) else provider_http.parse(body, shape)
        return parsed

    async def _send(
        self,
        method: str,
        path: str,
        content: provider_http.Content | None,
        *,
        max_bytes: int,
        first: bool = False,
    ) -> provider_http.HttpAnswer | ReadFailed:
        """Send a request below the connected project, in its turn and within READ_SECONDS."""
        ask = partial(self._ask_with_token, method, path, content, max_bytes)
        try:
            async with asyncio.timeout(provider_http.READ_SECONDS):
                return await self._pace.send(ask, first=first)
        except TimeoutError:
            return provider_http.failure("timeout")

    async def _ask_with_token(
        self, method: str, path: str, content: provider_http.Content | None, max_bytes: int
    ) -> provider_http.HttpAnswer | ReadFailed:
        """Send a request, and once more with a fresh token when its own is rejected."""
        answer = await self._ask(method, path, content, max_bytes, token := await self._tokens.access(self._connection))
        if (
            isinstance(answer, provider_http.HttpAnswer)
            and answer.status == HTTPStatus.UNAUTHORIZED
            and isinstance(token, str)
        ):
            answer = await self._ask(
                method, path, content, max_bytes, await self._tokens.access(self._connection, token)
            )
        return answer

    async def _ask(
        self, method: str, path: str, content: provider_http.Content | None, max_bytes: int, token: str | ReadFailed
    ) -> provider_http.HttpAnswer | ReadFailed:
        if isinstance(token, ReadFailed):
            return token
        return await self._client.call(
            method,
            self._connection.host,
            f"/api/projects/{self._connection.provider_project_id or '@current'}/{path}",
            content,
            account=account_of(self._store, self._connection.project_id),
            max_bytes=max_bytes,
            token=token,
        )


def named_in(query: bounded.Bounded) -> dict[str, Any]:
    """The values of the places in a query."""
    assert query.connected is not None
    since, until = query.window.since, query.window.until
    values = {**query.values, "since": since, "until": until, "most": query.most + 1}
    values["earliest"] = max(0, since - LATE_SECONDS)
    return {name: value for name, value in values.items() if f"{{{name}}}" in query.connected}


def boundary_of(properties: Mapping[str, Any]) -> str:
    """Side of the product that captured an event: the library in the browser names itself, all else is a server."""
    return "browser_provider" if properties.get("$lib") in BROWSER_LIBRARIES else "server_provider"


def message_of(properties: Mapping[str, Any]) -> str:
    """Text of an exception, from any of the places where the provider's libraries put it."""
    texts: list[str] = []
    for name in ("$exception_message", "$exception_values"):
        value = properties.get(name)
        texts += [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
    listed = properties.get("$exception_list")
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("value"), str):
            texts.append(entry["value"])
    return "\n".join(texts)


def _body(answer: provider_http.HttpAnswer | ReadFailed) -> bytes | ReadFailed:
    """The text of a successful answer."""
    if isinstance(answer, ReadFailed):
        return answer
    return answer.body if answer.status == HTTPStatus.OK else provider_http.failed(answer)
