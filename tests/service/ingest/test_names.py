"""Events are counted by name, and their properties by key, in the transaction that stores them (G-155)."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from service.analytics.metadata import MAX_KEY, MOST_KEYS, MOST_NAMES, types_of
from service.billing.plans import Retention
from service.ingest.kept import purge
from service.ingest.tally import NamesTally
from tests.support.ingest import (
    OTHER,
    OWNER,
    PROJECT,
    Sql,
    analytics_item,
    check_books,
    log_item,
    miscounted,
    one,
    running,
    send,
    sender,
)

DAY = 86400
NAMES = "select event, row_count from event_name_days where project_id = %s order by day, event"
KEYS = "select event, key, row_count, types from event_key_days where project_id = %s order by day, event, key"
TOTALS = "select names, keys, other_rows, other_values, whole from event_days where project_id = %s order by day"


def counted(sql: Sql, query: str = NAMES, project_id: str = PROJECT) -> list[tuple[Any, ...]]:
    return sql.execute(query.encode(), (project_id,)).fetchall()


def keys(sql: Sql) -> list[tuple[Any, ...]]:
    return [(event, key, rows, types_of(bits)) for event, key, rows, bits in counted(sql, KEYS)]


async def test_names_and_keys_are_counted_as_they_are_stored(database_url: str, sql: Sql):
    """Whether the flush has to decide something, as the first does and any with a key, or not."""
    async with running(database_url) as intake:
        await send(intake, analytics_item("paid", amount=1, currency="EUR"), log_item("m"))
        await send(intake, analytics_item("paid", amount=None, tags=[], at={}, ok=True), analytics_item("seen"))
        await send(intake, analytics_item("paid", of=sender(key="k1"), amount=2.5))
        await send(intake, analytics_item("paid", of=sender(key="k1"), amount=2.5))  # repeated: stored once
        await send(intake, analytics_item("seen", of=sender(OTHER)))
    assert counted(sql) == [("paid", 3), ("seen", 1)]
    assert counted(sql, NAMES, OTHER) == [("seen", 1)]
    assert keys(sql) == [
        ("paid", "amount", 3, ["null", "number"]),
        ("paid", "at", 1, ["object"]),
        ("paid", "currency", 1, ["string"]),
        ("paid", "ok", 1, ["boolean"]),
        ("paid", "tags", 1, ["array"]),
    ]
    assert counted(sql, TOTALS) == [(2, 5, 0, 0, True)]
    assert counted(sql, TOTALS, OTHER) == [(1, 0, 0, 0, True)]
    check_books(sql)


async def test_a_day_has_at_most_1000_names_and_5000_keys(database_url: str, sql: Sql):
    """Whatever comes beyond is counted as others; what the day has is counted on, exactly."""
    async with running(database_url) as intake:
        for start in range(0, 990, 198):
            await send(intake, *(analytics_item(f"e{n:04}") for n in range(start, start + 198)))
        for start in range(25):
            await send(intake, analytics_item("many", **{f"k{n:05}": n for n in range(start * 199, start * 199 + 199)}))
        assert counted(sql, TOTALS) == [(991, 4975, 0, 0, True)]
        assert miscounted(sql) == {}
        await send(intake, *(analytics_item(f"f{n:02}") for n in range(20)), analytics_item("e0000"))
        await send(intake, analytics_item("many", **{f"l{n:02}": n for n in range(50)}, k00000=1))
        assert counted(sql, TOTALS) == [(MOST_NAMES, MOST_KEYS, 11, 25, True)]
        await send(intake, analytics_item("f19", a=1), analytics_item("f00", b=2), analytics_item("many", l49=1, l00=1))
        assert counted(sql, TOTALS) == [(MOST_NAMES, MOST_KEYS, 12, 28, True)]
    rows = dict(counted(sql))
    assert (rows["e0000"], rows["f00"], rows["f08"], rows.get("f09")) == (2, 2, 1, None)
    listed = {(event, key): count for event, key, count, _ in counted(sql, KEYS)}
    assert (listed["many", "k00000"], listed["many", "l00"], listed.get(("many", "l49"))) == (2, 2, None)
    check_books(sql)


async def test_a_key_that_no_query_can_name_is_one_of_the_others(database_url: str, sql: Sql):
    """An index takes no text of any length, and one sender's names must not stop the flush of others."""
    odd = ["", "a.b", "'\"; drop table x", "ключ", "x" * MAX_KEY, "\U0001f600" * MAX_KEY, "a,b", "{}", "\\", "nul"]
    async with running(database_url) as intake:
        properties = dict.fromkeys([*odd, "x" * (MAX_KEY + 1), "y" * 9000], "v")
        [answer] = await send(intake, analytics_item("\U0001f600" * 200, **properties))
        assert answer["ok"]
    assert [key for _, key, _, _ in keys(sql)] == sorted(odd)
    assert counted(sql, TOTALS) == [(1, len(odd), 0, 2, True)]
    check_books(sql)


async def test_the_release_before_sums_nothing_and_is_counted_all_the_same(
    database_url: str, sql: Sql, monkeypatch: pytest.MonkeyPatch
):
    """It sends the rows alone; what it has stored is counted exactly as what this one stores."""
    items = [
        lambda of=None: analytics_item("paid", of=of, amount=1, currency="EUR", **{"z" * 200: 1}),
        lambda of=None: analytics_item("paid", of=of, amount=None, a=[], b={}, c=True, d=1.5),
        lambda of=None: analytics_item("seen", of=of),
    ]
    async with running(database_url) as intake:
        await send(intake, *(make() for make in items))
        mine = [counted(sql), counted(sql, KEYS), counted(sql, TOTALS)]
        monkeypatch.setattr(NamesTally, "add", lambda *_: None)
        await send(intake, *(make(sender(OTHER)) for make in items), log_item("m"))
        assert [counted(sql, query, OTHER) for query in (NAMES, KEYS, TOTALS)] == mine
        await send(intake, *(make() for make in items), *(make(sender(OTHER)) for make in items))
        assert counted(sql) == [("paid", 4), ("seen", 2)]
    check_books(sql)


async def test_a_day_that_had_events_before_anybody_counted_says_so(database_url: str, sql: Sql):
    sql.execute(
        "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties) "
        "values (%s, (select service_seconds()), 'evt_0', 'old', 'u', '{}')",
        (PROJECT,),
    )
    async with running(database_url) as intake:
        await send(intake, analytics_item("paid"), analytics_item("paid", of=sender(OTHER)))
        await send(intake, analytics_item("paid"))
        assert counted(sql, TOTALS) == [(1, 0, 0, 0, False)]
        assert counted(sql, TOTALS, OTHER) == [(1, 0, 0, 0, True)]
        sql.execute("select advance_service_clock(%s)", (DAY,))
        await send(intake, analytics_item("paid"))
    assert counted(sql, TOTALS) == [(1, 0, 0, 0, False), (1, 0, 0, 0, True)]
    assert set(miscounted(sql)) <= {"usage_days"}  # of which the row put in by hand is missing


async def test_what_retention_takes_is_counted_no_longer(database_url: str, sql: Sql):
    """Names go before their rows; a run that ends in between leaves nothing that tells of more than there is."""
    async with running(database_url) as intake:
        await send(intake, analytics_item("paid", a=1), analytics_item("old", of=sender(OTHER)))
        sql.execute("select advance_service_clock(%s)", (3 * DAY,))
        await send(intake, analytics_item("seen", b=1), analytics_item("seen", of=sender(OTHER)))
        check_books(sql)
    payers = {PROJECT: OWNER, OTHER: OWNER}
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        assert await purge(connection, Retention({PROJECT: 2, OTHER: 30}, payers, 400)) == 1
        assert counted(sql) == [("seen", 1)]
        assert counted(sql, NAMES, OTHER) == [("old", 1), ("seen", 1)]
        assert miscounted(sql) == {}
        sql.execute("select advance_service_clock(%s)", (60 * DAY,))
        assert await purge(connection, Retention({PROJECT: 2, OTHER: 30}, payers, 30)) == 0
    assert [one(sql, f"select count(*) from {t}") for t in ("event_days", "event_name_days", "event_key_days")] == [
        0
    ] * 3
    assert miscounted(sql) == {}


def test_what_is_alike_is_taken_apart():
    tally = NamesTally()
    assert tally.sums() is None
    for properties in ({"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"b": "x", "a": 1}, {"a": None}, {}):
        tally.add("p2", "e", properties)
    tally.add("p1", "e", {"a": True, "x" * (MAX_KEY + 1): 1})
    tally.add("p2", "d", {"c": 1.5})
    sums = tally.sums()
    assert sums is not None
    assert (sums.projects, sums.project_rows, sums.long_keys) == (["p1", "p2"], [1, 6], [1, 0])
    assert (sums.name_places, sums.names, sums.name_rows) == ([1, 2, 2], ["e", "e", "d"], [1, 5, 1])
    pairs = zip(sums.key_places, sums.keys, sums.key_rows, map(types_of, sums.key_types), strict=True)
    assert list(pairs) == [
        (1, "a", 1, ["boolean"]),
        (2, "a", 4, ["null", "number"]),
        (2, "b", 3, ["string"]),
        (3, "c", 1, ["number"]),
    ]
