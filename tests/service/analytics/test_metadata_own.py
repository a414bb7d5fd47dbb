"""Names and keys of our own records: exact where days are counted, and from rows where they are not (G-155)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from service.analytics import metadata
from service.analytics.local import LocalAnalytics
from service.analytics.metadata import KeysFound, NamesFound, read_keys, read_names
from service.eventstore.store import EventStore
from statemachines.kernel.machine import ReadFailed
from tests.support.ingest import OTHER, PROJECT, Sql, analytics_item, one, running, send, sender

DAY = 86400
KEPT = 90 * DAY


def event(sql: Sql, name: str, at: int, person: str = "u1", project: str = PROJECT, **properties: Any) -> None:
    """A row that nobody counted, as those of the release before this one."""
    sql.execute(
        "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties) "
        "values (%s, %s, 'evt_' || (select count(*) from analytics_events), %s, %s, %s)",
        (project, at, name, person, json.dumps(properties)),
    )


def now(sql: Sql) -> int:
    return int(one(sql, "select service_seconds()"))


def advance(sql: Sql, seconds: int) -> None:
    sql.execute("select advance_service_clock(%s)", (seconds,))


def to_noon(sql: Sql) -> None:
    """Move the clock on to the next noon: a window of days then begins at noon too."""
    advance(sql, DAY - (now(sql) - DAY // 2) % DAY)


def listed(found: NamesFound) -> list[tuple[str, int, int | None]]:
    return [(name.event, name.row_count, name.unique_users) for name in found.names]


def keys(found: KeysFound) -> list[tuple[str, str, int, list[str]]]:
    return [(key.event, key.key, key.row_count, key.types) for key in found.keys]


async def names(store: EventStore, days: int = 30, limit: int = 200, kept: int = KEPT) -> NamesFound:
    return await read_names(store, PROJECT, kept, days, limit)


async def test_nothing_is_nothing(store: EventStore, sql: Sql):
    found = await names(store)
    assert (found.names, found.complete) == ([], True)
    assert now(sql) - found.counted_from in range(30 * DAY - 1, 30 * DAY + 3)
    nothing = await read_keys(store, PROJECT, KEPT, None, 30, 200)
    assert (nothing.keys, nothing.complete) == ([], True)


async def test_names_are_told_with_rows_people_and_times(database_url: str, store: EventStore, sql: Sql):
    async with running(database_url) as intake:
        first = await send(intake, analytics_item("b"), analytics_item("a"), analytics_item("z", of=sender(OTHER)))
        advance(sql, 3 * DAY)
        last = await send(intake, analytics_item("a"), analytics_item("c"), analytics_item("b"), analytics_item("c"))
    found = await names(store)
    assert listed(found) == [("a", 2, 1), ("b", 2, 1), ("c", 2, 1)]
    assert found.complete
    times = [(name.first_seen_at, name.last_seen_at) for name in found.names]
    early, late = first[0]["received_at"], last[0]["received_at"]
    assert times == [(early, late), (early, late), (late, late)]
    assert listed(await names(store, days=1)) == [("c", 2, 1), ("a", 1, 1), ("b", 1, 1)]
    assert listed(await names(store, limit=1)) == [("a", 2, 1)]


async def test_a_trend_tells_the_last_days_of_each_name(database_url: str, store: EventStore, sql: Sql):
    """Whatever the window is; of the project alone, and of the names that are listed."""
    to_noon(sql)
    async with running(database_url) as intake:
        await send(intake, analytics_item("old"))
        advance(sql, 14 * DAY)
        await send(intake, analytics_item("a"), analytics_item("a"), analytics_item("old"))
        advance(sql, DAY)
        await send(intake, analytics_item("a"), analytics_item("a", of=sender(OTHER)))
    provider = LocalAnalytics(store, PROJECT)
    found = await provider.event_names(30, 200, trend=True)
    assert isinstance(found, NamesFound)
    assert {name.event: name.trend for name in found.names} == {"a": [0] * 12 + [2, 1], "old": [0] * 12 + [1, 0]}
    one_day = await provider.event_names(1, 1, trend=True)
    assert isinstance(one_day, NamesFound)
    assert [(name.event, name.row_count, sum(name.trend or ())) for name in one_day.names] == [("a", 1, 3)]
    assert all(name.trend is msgspec.UNSET for name in (await names(store)).names)


async def test_a_window_begins_at_its_second(database_url: str, store: EventStore, sql: Sql):
    """Of a day that it holds a part of, rows are looked at: what is counted of the whole day would be too much."""
    to_noon(sql)
    async with running(database_url) as intake:
        await send(intake, analytics_item("morning", k=1))
        advance(sql, 3600)
        await send(intake, analytics_item("noon", k="x"), analytics_item("noon", k=1))
        advance(sql, DAY - 1800)
        await send(intake, analytics_item("morning", k=None), analytics_item("noon"))
    found = await names(store, days=1)
    assert listed(found) == [("noon", 3, 1), ("morning", 1, 1)]
    told = await read_keys(store, PROJECT, KEPT, None, 1, 200)
    assert keys(told) == [("noon", "k", 2, ["number", "string"]), ("morning", "k", 1, ["null"])]
    assert found.complete
    assert told.complete
    assert listed(await names(store, days=2)) == [("noon", 3, 1), ("morning", 2, 1)]


async def test_the_window_holds_its_first_second_and_not_the_one_before(store: EventStore, sql: Sql):
    to_noon(sql)
    at = now(sql) + 1 - DAY
    for second in range(-5, 6):
        event(sql, f"e{second:+}", at + second)
    found = await names(store, days=1)
    [since] = [found.counted_from]
    assert [name.event for name in found.names] == sorted(f"e{s:+}" for s in range(since - at, 6))


async def test_days_before_there_were_counts_are_counted_from_rows(database_url: str, store: EventStore, sql: Sql):
    """All of a small project; so is a day that had begun."""
    to_noon(sql)
    for back in (9, 5, 1):
        event(sql, "old", now(sql) - back * DAY, f"u{back}", a=back)
    event(sql, "today", now(sql), a="x")
    async with running(database_url) as intake:
        await send(intake, analytics_item("today", a=1, b=1))
        advance(sql, DAY)
        await send(intake, analytics_item("today", b=2), analytics_item("old"))
    found = await names(store)
    assert (listed(found), found.complete) == ([("old", 4, 3), ("today", 3, 1)], True)
    told = await read_keys(store, PROJECT, KEPT, None, 30, 200)
    assert keys(told) == [
        ("old", "a", 3, ["number"]),
        ("today", "a", 2, ["number", "string"]),
        ("today", "b", 2, ["number"]),
    ]
    assert told.complete


async def test_where_rows_are_too_many_it_says_from_when_on_they_are_counted(
    database_url: str, store: EventStore, sql: Sql, monkeypatch: pytest.MonkeyPatch
):
    """Rows of one second are counted all or not at all."""
    to_noon(sql)
    start = now(sql) - 10 * DAY
    for at, name in ((0, "a"), (1, "b"), (1, "c"), (5, "d"), (5, "e"), (9, "f")):
        event(sql, name, start + at, k=1)
    async with running(database_url) as intake:
        await send(intake, analytics_item("counted", k=1))
    for most, counted_from, rest in ((6, None, "abcdef"), (5, 1, "bcdef"), (4, 2, "def"), (3, 2, "def"), (2, 6, "f")):
        monkeypatch.setattr(metadata, "MOST_ROWS", most)
        monkeypatch.setattr(metadata, "MOST_OPENED", most)
        found, told = await names(store), await read_keys(store, PROJECT, KEPT, None, 30, 200)
        assert [name.event for name in found.names] == sorted(["counted", *rest])
        assert [key.event for key in told.keys] == sorted(["counted", *rest])
        assert found.complete == told.complete == (counted_from is None)
        if counted_from is not None:
            assert found.counted_from == told.counted_from == start + counted_from


async def test_people_are_counted_in_names_with_few_rows_first(
    store: EventStore, sql: Sql, monkeypatch: pytest.MonkeyPatch
):
    """A number that would be too small is not told."""
    for name, rows in (("one", 1), ("two", 2), ("four", 4)):
        for number in range(rows):
            event(sql, name, now(sql), f"u{number // 2}")
    assert listed(await names(store)) == [("four", 4, 2), ("two", 2, 1), ("one", 1, 1)]
    for most, people in ((6, [None, 1, 1]), (3, [None, 1, 1]), (2, [None, None, 1]), (0, [None] * 3)):
        monkeypatch.setattr(metadata, "MOST_OF_PEOPLE", most)
        found = await names(store)
        assert [name.unique_users for name in found.names] == people
        assert found.complete


async def test_what_a_day_has_no_room_for_is_said(database_url: str, store: EventStore, sql: Sql):
    async with running(database_url) as intake:
        await send(intake, analytics_item("e", k=1))
        assert (await names(store)).complete
        sql.execute("update event_days set names = 1000, keys = 5000")
        await send(intake, analytics_item("e", k=1), analytics_item("f", l=1))
    found, told = await names(store), await read_keys(store, PROJECT, KEPT, None, 30, 200)
    assert (listed(found), found.complete) == ([("e", 2, 1)], False)
    assert (keys(told), told.complete) == ([("e", "k", 2, ["number"])], False)


async def test_what_is_kept_no_longer_is_not_counted(store: EventStore, sql: Sql):
    """Some of it may still be there: the purge comes when it comes."""
    to_noon(sql)
    midnight = now(sql) - now(sql) % DAY
    event(sql, "kept", midnight - 2 * DAY)
    event(sql, "gone", midnight - 2 * DAY - 1)
    found = await names(store, days=7, kept=2 * DAY)
    assert (listed(found), found.complete, found.counted_from) == ([("kept", 1, 1)], False, midnight - 2 * DAY)
    assert (await names(store, days=2, kept=2 * DAY)).complete


async def test_keys_of_some_events_without_the_marker(database_url: str, store: EventStore, sql: Sql):
    async with running(database_url) as intake:
        await send(
            intake,
            analytics_item("a", k=1, service_onboarding_proof="secret-marker"),
            analytics_item("b", k=1, l={}),
            analytics_item("c,d", m=[]),
        )
    event(sql, "a", now(sql) - 3 * DAY, service_onboarding_proof="sha256:x", **{"y" * 161: 1})

    async def told(events: Iterable[str] | None) -> list[tuple[str, str]]:
        found = await read_keys(store, PROJECT, KEPT, None if events is None else list(events), 30, 200)
        return [(key.event, key.key) for key in found.keys]

    assert await told(None) == [("a", "k"), ("b", "k"), ("b", "l"), ("c,d", "m")]
    assert await told(["b", "nobody"]) == [("b", "k"), ("b", "l")]
    assert await told(["c,d"]) == [("c,d", "m")]
    assert await told(["nobody"]) == []


async def test_a_failed_read_is_no_empty_one(store: EventStore, sql: Sql, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metadata, "_NAMES", "select nothing from nowhere")
    monkeypatch.setattr(metadata, "_KEYS", "select nothing from nowhere")
    provider = LocalAnalytics(store, PROJECT)
    assert await provider.event_names(30, 200) == ReadFailed("unreachable")
    assert await provider.property_keys(None, 30, 200) == ReadFailed("unreachable")
    assert one(sql, "select 1") == 1
