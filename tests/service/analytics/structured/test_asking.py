"""Structured queries over our own records, by hand: rows, windows, bounds, and what no text can do (G-154)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import psycopg
import pytest
import pytest_asyncio

from schemas.analytics import QueryInput
from service.analytics import bounded as boundeds
from service.analytics.bounded import Bounded, Table, Window
from service.analytics.local import LocalAnalytics
from service.analytics.queries import NoProvider, QueryTime
from service.analytics.structured import dialects
from service.analytics.structured.checking import Structured, check_form
from service.analytics.structured.compiling import ask_structured, ask_text
from service.auth.refusals import InvalidPayload
from service.eventstore.connect.facts import DAY
from service.eventstore.schema import roles
from service.history.rebuild import rebuild
from service.registry import read_models
from statemachines.kernel.machine import ReadFailed
from tests.support.cluster import TestCluster
from tests.support.parted import QUERIES, SERVING, Parted, parted_database
from tests.support.questions import OTHER, PROJECT, TENANT, Error, Event, Questions, asking
from tests.support.questions import questions as questions  # noqa: PLC0414 (a fixture is found by name)

NASTY = [
    "it's",
    'quo"te',
    "a.b.c",
    "%s",
    "%(project_id)s",
    "{most}",
    "}}",
    "\\",
    "'; drop table analytics_events; --",
    "' or '1' = '1",
    "$$",
    "k" * 160,
    "é\u2028",
    " ",
    "project_id",
]


async def ask(questions: Questions, project: str = PROJECT, **body: Any) -> Table:
    found = await read(questions, project, **body)
    assert not isinstance(found, ReadFailed), found
    return found


async def read(questions: Questions, project: str = PROJECT, **body: Any) -> Table | ReadFailed:
    asked = msgspec.convert(body, QueryInput)
    query = check_form(asked)
    assert isinstance(query, Structured)
    return await ask_structured(questions.queries, project, TENANT, query, msgspec.to_builtins(asked))


def rows(found: Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in found.rows]


COUNT = {"fn": "count", "as": "n"}


async def test_raw_rows_come_newest_first(questions: Questions) -> None:
    now = questions.now
    questions.receive([Event("a", "ann", now - 5), Event("b", "bob", now), Event("c", "cid", now)])
    questions.receive([Event("d", "dan", now)], OTHER)
    found = await ask(questions, source="events", select=[{"field": "event"}, {"field": "received_at"}])
    assert rows(found) == [("c", now), ("b", now), ("a", now - 5)]
    assert [(column.name, column.type, column.unit) for column in found.columns] == [
        ("event", "string", None),
        ("received_at", "epoch", "seconds"),
    ]
    assert (found.truncated, found.evidence.source, found.evidence.params) == (False, "local", {})
    assert found.freshness.last_event_at == now


async def test_values_of_properties_are_shown_as_they_are(questions: Questions) -> None:
    """Objects and arrays as JSON; null is absent."""
    now = questions.now
    held: list[Any] = [1, 1.5, True, "1", "true", None, {"results": [1]}, [1, "x"], 2**53 - 1, 10**20, "[1]"]
    questions.receive([Event("e", "p", now - at, {"x": value}) for at, value in enumerate(held)])
    questions.receive([Event("e", "p", now - len(held))])
    found = await ask(questions, source="events", select=[{"field": "properties.x"}])
    shown = [row["properties.x"] for row in found.rows]
    assert shown == [1, 1.5, True, "1", "true", None, '{"results": [1]}', '[1, "x"]', 2**53 - 1, 1e20, "[1]", None]
    assert [type(value) for value in shown[:3]] == [int, float, bool]
    assert found.columns[0].type == "json"


async def test_groups_count_rows_and_different_values(questions: Questions) -> None:
    now = questions.now
    questions.receive(
        [
            Event("paid", "ann", now, {"plan": "pro", "price": 10}),
            Event("paid", "ann", now, {"plan": "pro", "price": 10.0}),
            Event("paid", "bob", now, {"plan": "pro", "price": "10"}),
            Event("paid", "bob", now, {"plan": "free"}),
            Event("paid", "cid", now, {"plan": None}),
            Event("seen", "dan", now, {"plan": "pro"}),
        ]
    )
    found = await ask(
        questions,
        source="events",
        select=[
            {"field": "properties.plan"},
            COUNT,
            {"fn": "unique", "field": "distinct_id", "as": "people"},
            {"fn": "count", "field": "properties.price", "as": "priced"},
            {"fn": "unique", "field": "properties.price", "as": "prices"},
        ],
        filters=[{"field": "event", "op": "eq", "value": "paid"}],
        group_by=["properties.plan"],
        order_by=[{"field": "n", "direction": "desc"}],
    )
    assert rows(found) == [("pro", 3, 2, 3, 2), ("free", 1, 1, 0, 0), (None, 1, 1, 0, 0)]
    nobody = await ask(questions, source="events", select=[COUNT], to=now - 5)
    assert rows(nobody) == [(0,)]


@pytest.mark.parametrize(
    ("op", "value", "found"),
    [
        ("eq", 10, ["int", "float"]),
        ("eq", 10.0, ["int", "float"]),
        ("eq", "10", ["text"]),
        ("eq", True, ["bool"]),
        ("neq", 10, ["text", "bool", "list", "null", "none"]),
        ("in", [10, True, "x"], ["int", "float", "bool"]),
        ("gt", 9, ["int", "float"]),
        ("gt", 10, []),
        ("gte", 10, ["int", "float"]),
        ("lt", 10.5, ["int", "float"]),
        ("lte", -1, []),
        ("contains", "1", ["text"]),
        ("contains", "%", []),
        ("exists", True, ["int", "float", "text", "bool", "list"]),
        ("exists", False, ["null", "none"]),
    ],
)
async def test_a_json_value_is_compared_as_what_it_is(
    questions: Questions, op: str, value: Any, found: list[str]
) -> None:
    now = questions.now
    held = {"int": 10, "float": 10.0, "text": "10", "bool": True, "list": [10], "null": None}
    questions.receive([Event(name, "p", now, {"x": item}) for name, item in held.items()])
    questions.receive([Event("none", "p", now)])
    table = await ask(
        questions,
        source="events",
        select=[{"field": "event"}],
        filters=[{"field": "properties.x", "op": op, "value": value}],
        order_by=[{"field": "id", "direction": "asc"}],
    )
    assert [row["event"] for row in table.rows] == found


async def test_errors_are_those_with_a_case_and_deploys_those_recorded(questions: Questions) -> None:
    now = questions.now
    questions.meet([Error(now, "v1", "ann"), Error(now - 1, "v2", None), Error(now, "v1", "bob", level="fatal")])
    questions.connection.execute(
        "insert into log_events (project_id, received_at, id, level, message, environment, tags, extra) "
        "values (%s, %s, 'log_x', 'info', 'm', 'production', '{\"a\": \"b\"}', '{}')",
        (PROJECT, now),
    )
    questions.connection.execute("update log_events set tags = '{\"a.b\": \"c\"}' where user_id = 'ann'")
    found = await ask(
        questions,
        source="errors",
        select=[{"field": "release"}, COUNT, {"fn": "count", "field": "user_id", "as": "known"}],
        group_by=["release"],
    )
    assert rows(found) == [("v1", 2, 2), ("v2", 1, 0)]
    found = await ask(
        questions,
        source="errors",
        select=[{"field": "user_id"}, {"field": "case_id"}, {"field": "tags.a.b"}],
        filters=[{"field": "tags.a.b", "op": "contains", "value": "c"}],
    )
    assert rows(found) == [("ann", "case_0001", "c")]
    questions.deploy("dep_2", "2.0", now)
    questions.deploy("dep_1", "1.0", now - 9)
    questions.deploy("dep_3", "3.0", now, OTHER)
    found = await ask(
        questions,
        source="deploys",
        select=[{"field": "version"}, {"field": "trusted"}, {"field": "sha"}, {"field": "recorded_at"}],
    )
    assert rows(found) == [("2.0", True, None, now), ("1.0", True, None, now - 9)]
    assert found.evidence.kept_from is None


async def test_deploys_are_found_after_their_rebuild(questions: Questions) -> None:
    """Which swaps the table: a view over the old one would show nothing new."""
    rebuild(questions.connection.info.dsn, read_models()["deploys"])
    questions.deploy("dep_1", "1.0", questions.now)
    assert rows(await ask(questions, source="deploys", select=[{"field": "id"}])) == [("dep_1",)]


async def test_the_window_is_half_open_and_thirty_days_long_when_left_out(questions: Questions) -> None:
    now = questions.now
    questions.receive([Event(name, "p", now - at) for name, at in [("a", 0), ("b", 10), ("c", 20), ("d", 31 * DAY)]])
    names = {"source": "events", "select": [{"field": "event"}]}
    assert rows(await ask(questions, **names)) == [("a",), ("b",), ("c",)]
    found = await ask(questions, **names, **{"from": now - 20, "to": now - 10})
    assert rows(found) == [("c",)]
    assert (found.evidence.since, found.evidence.until) == (now - 20, now - 10)
    assert rows(await ask(questions, **names, to=now - 10)) == [("c",)]
    late = await ask(questions, **names, **{"from": now - 40 * DAY})
    assert (late.evidence.complete, late.evidence.kept_from is None) == (False, False)
    with pytest.raises(InvalidPayload):
        await ask(questions, **names, **{"from": now - 400 * DAY})
    with pytest.raises(InvalidPayload):
        await ask(questions, **names, **{"from": now, "to": now})


async def test_an_event_that_arrives_two_days_late_is_counted_in_its_day(questions: Questions) -> None:
    """By the sender's clock within its bounds. Of a row without such a time it is the receipt's (G-193)."""
    now = questions.now
    questions.receive([Event("late", "p", now), Event("prompt", "p", now - 2 * DAY), Event("today", "p", now)])
    questions.receive([Event("longest", "p", now - 2 * DAY + boundeds.REACH)])
    questions.meet([Error(now, "late"), Error(now - 2 * DAY, "prompt"), Error(now, "today")])
    sql = questions.connection
    day = now - 2 * DAY
    sql.execute("update analytics_events set occurred_at = %s where event in ('late', 'longest')", (day,))
    sql.execute("update analytics_events set occurred_at = received_at where event = 'today'")
    sql.execute("update log_events set occurred_at = %s where release = 'late'", (day,))
    window = {"from": day, "to": day + 1}
    for source, name, found in (
        ("events", "event", {"late", "longest", "prompt"}),
        ("errors", "release", {"late", "prompt"}),
    ):
        times = [{"field": name}, {"field": "occurred_at"}, {"field": "received_at"}]
        of_that_day = rows(await ask(questions, source=source, select=times, **window))
        assert {row[0] for row in of_that_day} == found
        assert {row[1] for row in of_that_day} == {day}
        assert rows(await ask(questions, source=source, select=times, **{"from": day + 1})) == [("today", now, now)]
        late = [{"field": "occurred_at", "op": "lt", "value": now}, {"field": "received_at", "op": "eq", "value": now}]
        assert rows(await ask(questions, source=source, select=[COUNT], filters=late)) == [(1,)]
        newest = await ask(questions, source=source, select=[{"field": name}], **{"from": day, "to": now + 1})
        assert newest.rows[0][name] == "today"


async def test_rows_are_cut_at_the_limit_and_at_four_megabytes(questions: Questions) -> None:
    now = questions.now
    questions.receive([Event("e", "p", now - at, {"x": "y" * 100_000}) for at in range(60)])
    found = await ask(questions, source="events", select=[{"field": "event"}], limit=59)
    assert (len(found.rows), found.truncated) == (59, True)
    found = await ask(questions, source="events", select=[{"field": "event"}], limit=60)
    assert (len(found.rows), found.truncated) == (60, False)
    found = await ask(questions, source="events", select=[{"field": "properties.x"}, {"field": "received_at"}])
    assert found.truncated
    assert len(found.rows) == dialects.MOST_BYTES // 100_012
    assert [row["received_at"] for row in found.rows] == [now - at for at in range(len(found.rows))]


async def test_ten_thousand_groups_are_ten_thousand_rows(questions: Questions) -> None:
    now = questions.now
    questions.connection.execute(
        "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties) "
        "select %s, %s, 'evt_' || n, 'e', 'p', json_build_object('x', n) from generate_series(1, 10001) n",
        (PROJECT, now),
    )
    body = {"source": "events", "select": [{"field": "properties.x"}, COUNT], "group_by": ["properties.x"]}
    order = [{"field": "properties.x", "direction": "desc"}]
    found = await ask(questions, **body, order_by=order, limit=10_000)
    assert (len(found.rows), found.truncated, rows(found)[0], rows(found)[-1]) == (10_000, True, (10_001, 1), (2, 1))


@pytest.mark.parametrize("nasty", NASTY)
async def test_no_text_of_a_caller_is_more_than_a_value(questions: Questions, nasty: str) -> None:
    """As a key, as a value and as a part; the rows of another project are not among what is found."""
    now = questions.now
    questions.receive([Event("e", nasty, now, {nasty: nasty}), Event("e", "q", now)])
    questions.receive([Event("theirs", nasty, now, {nasty: nasty})], OTHER)
    name = f"properties.{nasty}"
    for field in (name, "distinct_id"):
        for op, value in (("eq", nasty), ("in", [nasty]), ("contains", nasty)):
            found = await ask(
                questions,
                source="events",
                select=[{"field": "event"}, {"field": name}],
                filters=[{"field": field, "op": op, "value": value}],
                order_by=[{"field": name, "direction": "desc"}],
            )
            assert rows(found) == [("e", nasty)], (field, op)
    found = await ask(questions, source="events", select=[{"field": name}, COUNT], group_by=[name])
    assert rows(found) == [(nasty, 1), (None, 1)]
    assert questions.connection.execute("select count(*) from analytics_events").fetchone() == (3,)


async def test_the_receipt_names_question_and_rows(questions: Questions) -> None:
    now = questions.now
    window = {"from": now - 10, "to": now + 1}
    body = {"source": "events", "select": [{"field": "event"}, {"field": "properties.x"}]}
    questions.receive([Event("e", "p", now, {"x": 1.5})])
    one = await ask(questions, **body, **window)
    same = await ask(questions, **body, **window)
    other = await ask(questions, **body, **window, filters=[{"field": "event", "op": "eq", "value": "e"}])
    receipts = [found.evidence.query_receipt_sha256 for found in (one, same, other)]
    assert receipts[0] == receipts[1] != receipts[2]


async def test_a_query_that_takes_too_long_is_a_failed_read(questions: Questions) -> None:
    """And its connection is good for the next one, which sees its own project."""
    now = questions.now
    questions.receive([Event("e", "p", now)])
    slow = Bounded(
        source="events",
        local="select count(*) from generate_series(1, 100000000) where %(most)s > 0",
        connected=None,
        row=tuple[int],
        values={},
        window=Window(0, 1),
        as_of=now,
        confined=True,
    )
    assert await questions.queries.ask(OTHER, TENANT, slow, QueryTime(0.3)) == ReadFailed("timeout")
    found = await ask(questions, source="events", select=[COUNT])
    assert rows(found) == [(1,)]


async def test_a_text_needs_a_provider_before_it_is_looked_at(questions: Questions) -> None:
    for text in ("select * from events", "no sql at all"):
        with pytest.raises(NoProvider):
            await ask_text(questions.queries, PROJECT, TENANT, text)


# ---- what the database itself refuses ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parted(cluster: TestCluster) -> Any:
    with parted_database(cluster) as made:
        yield made


@pytest_asyncio.fixture
async def serving(parted: Parted) -> AsyncIterator[Questions]:
    async with asking(parted.serving) as held:
        yield held


async def confined(questions: Questions, query: str, project: str = PROJECT) -> Any:
    bounded = Bounded(
        source="events", local=query, connected=None, row=None, values={}, window=Window(0, 1), as_of=questions.now,
        confined=True,
    )  # fmt: skip
    found = await LocalAnalytics(questions.store, project).ask(bounded)
    assert not isinstance(found, ReadFailed)
    return found.rows


READ = "select event from queried_events where %(since)s = 0"


async def test_a_query_runs_as_a_role_that_sees_three_views(serving: Questions) -> None:
    now = serving.now
    serving.receive([Event("ours", "p", now)])
    serving.receive([Event("theirs", "p", now)], OTHER)
    assert await confined(serving, "select current_user::text where %(since)s = 0") == [(QUERIES,)]
    assert await confined(serving, READ) == [("ours",)]
    assert await confined(serving, READ, OTHER) == [("theirs",)]
    assert rows(await ask(serving, source="events", select=[{"field": "event"}])) == [("ours",)]
    for source in ("errors", "deploys"):
        assert rows(await ask(serving, source=source, select=[COUNT])) == [(0,)]
    for name in ("analytics_events", "log_events", "deploys", "events", "installation", "idempotency"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await confined(serving, f"select count(*) from {name} where %(since)s = 0")
    for query in ("delete from analytics_events where %(since)s = 0", "create temporary table t as select %(since)s"):
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)):
            await confined(serving, query)


async def test_the_role_is_left_with_the_transaction(serving: Questions) -> None:
    """What the same connections run next is run as the role that serves."""
    await confined(serving, READ)
    for _ in range(3):
        query = "select current_user::text, coalesce(current_setting('service.project_id', true), '')"
        assert await serving.store.queries.fetch(query) == [(SERVING, "")]


async def test_one_role_runs_it_read_only(questions: Questions) -> None:
    now = questions.now
    questions.receive([Event("ours", "p", now)])
    assert await confined(questions, READ) == [("ours",)]
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        await confined(questions, "delete from analytics_events where %(since)s = 0 returning 1")


def test_the_views_show_nothing_without_their_setting(parted: Parted) -> None:
    with psycopg.connect(parted.serving, autocommit=True) as sql:
        sql.execute(
            "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties) "
            "values ('', 1, 'x', 'e', 'p', '{}') on conflict do nothing"
        )
        for name in ("queried_events", "queried_errors", "queried_deploys"):
            assert sql.execute(f"select count(*) from {name}".encode()).fetchone() == (0,)
        with sql.transaction():
            sql.execute("select set_config('service.project_id', 'proj_0001', true)")
        sql.execute(f"set role {QUERIES}".encode())
        assert sql.execute("select current_setting('service.project_id')").fetchone() == ("",)
        assert sql.execute("select count(*) from queried_events").fetchone() == (0,)


def test_what_the_role_was_given_beside_is_taken_back(parted: Parted) -> None:
    with psycopg.connect(parted.owner, autocommit=True) as owner:
        owner.execute(f"grant select on api_keys to {QUERIES}".encode())
    roles.bring_forward(parted.serving, parted.owner)
    with psycopg.connect(parted.owner, autocommit=True) as owner:
        seen = owner.execute(
            "select c.relname::text from pg_class c where c.relkind in ('r', 'p', 'v', 'S') "
            "and c.relnamespace = 'public'::regnamespace and has_table_privilege(%s, c.oid, 'select') order by 1",
            (QUERIES,),
        ).fetchall()
        assert [name for (name,) in seen] == ["queried_deploys", "queried_errors", "queried_events"]
