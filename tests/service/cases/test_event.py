"""What reading the stored errors of a case costs: the days and the rows that it looks at (G-176, P25)."""

from __future__ import annotations

import json
import re
from typing import Any

import psycopg
import pytest

from scripts.bench import caselists
from scripts.load import worlds
from service.auth.refusals import Refusal
from service.cases import event as reads
from service.cases.event import Family
from service.eventstore.connect.facts import DAY
from service.eventstore.read.reader import END
from service.ids import new_id
from service.sql import load_query
from tests.service.cases.test_reads import reading
from tests.support.ingest import PROJECT, Sql, one

DAYS = 60
_INSERT = (
    "insert into log_events (project_id, received_at, id, level, message, environment, tags, extra, case_id) "
    "values (%s, %s, %s, 'error', 'm', 'e', '{}', '{}', %s)"
)


@pytest.fixture
def today(sql: Sql) -> int:
    """The midnight of today, with a partition for each of many days before."""
    today = int(one(sql, "select floor(extract(epoch from service_now()) / 86400)::bigint * 86400"))
    for back in range(DAYS):
        sql.execute("select ensure_partition(telemetry => 'log_events', day => %s)", (today - back * DAY,))
    return today


def put(sql: Sql, received_at: int, case_id: str = "case_1") -> str:
    event_id = new_id("log")
    sql.execute(_INSERT.encode(), (PROJECT, received_at, event_id, case_id))
    return event_id


async def read(store: Any, family: Family, limit: int) -> list[str]:
    """The ids of the newest errors."""
    return [event.id async for found in reads.newest(store, PROJECT, family, END, limit) for event in found]


async def test_a_page_opens_no_day_before_it_needs_it(
    database_url: str, sql: Sql, today: int, monkeypatch: pytest.MonkeyPatch
):
    """The day the case was last seen, then a few before, and more each time."""
    ids = [put(sql, today - back * DAY + number) for back in (0, 2, 40) for number in range(2)]
    merged = put(sql, today - 40 * DAY - 1, "case_2")
    opened: list[int] = []
    async with reading(database_url) as store:
        with psycopg.connect(database_url, autocommit=True, cursor_factory=psycopg.ClientCursor) as literal:
            fetch_planned = store.fetch_planned

            async def explained(query: str, **values: Any) -> list[Any]:
                [(plan,)] = literal.execute(f"explain (format json) {query}".encode(), values).fetchall()
                opened.append(len(set(re.findall(r'"log_events_\d{8}"', json.dumps(plan)))))
                return await fetch_planned(query, **values)

            monkeypatch.setattr(store, "fetch_planned", explained)
            family = Family(["case_1", "case_2"], today - 40 * DAY - 1, today + 1, unmarked=True, imported=False)
            order = [ids[1], ids[0], ids[3], ids[2], ids[5], ids[4], merged]
            assert (await read(store, family, 2), opened) == (order[:2], [1])
            opened.clear()
            assert (await read(store, family, 3), opened) == (order[:3], [1, 4])
            opened.clear()
            assert await read(store, family, 51) == order
            assert opened == [1, 4, 16, DAYS - 21]
            opened.clear()
            ended = Family(["case_1"], today - 40 * DAY, today - 40 * DAY + 1, unmarked=True, imported=False)
            assert (await read(store, ended, 2), opened) == ([ids[5], ids[4]], [1])


async def test_a_page_reads_a_few_rows_at_once(database_url: str, sql: Sql, today: int):
    """Each may have a quarter of a megabyte."""
    ids = [put(sql, today) for _ in range(3 * reads.AT_ONCE)]
    async with reading(database_url) as store:
        family = Family(["case_1"], today, today, unmarked=True, imported=False)
        read_at_once = [len(found) async for found in reads.newest(store, PROJECT, family, END, 25)]
        assert read_at_once == [reads.AT_ONCE, reads.AT_ONCE, 25 - 2 * reads.AT_ONCE]
        assert await read(store, family, 100) == sorted(ids, reverse=True)


async def test_an_error_is_looked_for_among_a_bounded_number(
    database_url: str, sql: Sql, today: int, monkeypatch: pytest.MonkeyPatch
):
    """Where its id does not tell when it came."""
    ids = [put(sql, today - 10 * DAY + number) for number in range(5)]
    family = Family(["case_1"], today - 10 * DAY, today, unmarked=True, imported=False)
    monkeypatch.setattr(reads, "MOST_LOOKED_AT", 3)
    async with reading(database_url) as store:
        assert (await reads.event_of(store, PROJECT, family, ids[2])).received_at == today - 10 * DAY + 2
        with pytest.raises(Refusal) as refused:
            await reads.event_of(store, PROJECT, family, ids[1])
        assert refused.value.code == "event_not_found"


def test_an_unknown_error_of_a_loud_case_is_looked_for_without_sorting_them_all(database_url: str, sql: Sql):
    caselists.fill(worlds.Service(0, database_url, "", ""), PROJECT, 1000, 40_000, loud=20)
    values = {"project_id": PROJECT, "case_ids": [caselists.LOUD], "id": new_id("log")}
    values |= {"low": 0, "high": END.at, "most": reads.MOST_LOOKED_AT}
    statement = f"explain {load_query('cases', 'event_time')}"
    steps = [line for [line] in sql.execute(statement.encode(), values).fetchall()]
    assert any("Merge Append" in step for step in steps)
    assert not any("Sort  (" in step for step in steps)
