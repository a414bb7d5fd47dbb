"""Structured queries on PostgreSQL against a naive reading of the same rows, and their plans (G-154)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from service.analytics.bounded import MOST_ROWS, REACH, Source
from service.analytics.structured.checking import Column, Condition, Order, Structured
from service.analytics.structured.compiling import OWN, compile_query, structured_rows
from service.analytics.structured.fields import FIELDS, Field, find_field
from service.sql import load_query
from tests.service.analytics.structured import naive
from tests.support import few_or_many
from tests.support.cluster import TestCluster

Sql = psycopg.Connection[Any]
CONFINE = load_query("analytics", "confine")
AT = 1_700_000_000
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def sql(cluster: TestCluster) -> Iterator[Sql]:
    with cluster.database() as url, psycopg.connect(url, autocommit=True) as connection:
        yield connection


def ask(
    sql: Sql,
    project: str,
    query: Structured,
    since: int = AT,
    until: int = AT + 20,
    most: int = MOST_ROWS,
    *,
    linked: bool = False,
) -> tuple[list[tuple[Any, ...]], bool]:
    compiled = compile_query(query, OWN)
    with sql.transaction():
        sql.execute(CONFINE, {"project_id": project})
        values = {**compiled.values, "since": since, "until": until, "most": most, "linked": linked, "reach": REACH}
        found = sql.execute(compiled.text.encode(), values).fetchall()
    return structured_rows(query, found)


def add(sql: Sql, source: Source, project: str, records: Sequence[Mapping[str, Any]]) -> None:
    for record in records:
        named = {name: value for name, value in record.items() if name not in {"properties", "tags"}}
        for holder in ("properties", "tags"):
            if holder in record:
                named[holder] = json.dumps(record[holder])
        if source == "errors":
            named |= {"message": "secret text", "extra": '{"private": 1}'}
        if source == "deploys":
            named |= {"revision": 1}
        elif named["occurred_at"] == named["received_at"]:
            named |= {"occurred_at": None}
        table = {"events": "analytics_events", "errors": "log_events", "deploys": "deploys"}[source]
        names = ", ".join(["project_id", *named])
        places = ", ".join(["%s"] * (len(named) + 1))
        sql.execute(f"insert into {table} ({names}) values ({places})".encode(), [project, *named.values()])


def field(source: Source, name: str) -> Field:
    found = find_field(source, name)
    assert found is not None, name
    return found


# ---- the same answer as a naive reading ---------------------------------------------------------------------------

TEXTS = ["", "a", "b", "B", "ab", "é", "'", "%", "100%", "_", "\\", "a.b", "{most}", "1", "true", "z" * 30]
KEYS = ["plan", "a.b", "it's", 'quo"te', "%s", "%(most)s", "{most}", "}}", "k" * 160, "-- x", ";", "é", "0"]
PLACED = st.sampled_from(TEXTS)
NUMBER = st.sampled_from([-3, 0, 1, 2, 10, 2**53 - 1, -0.75, 0.25, 0.5, 1.5])
SCALAR: st.SearchStrategy[Any] = st.one_of(PLACED, NUMBER, st.booleans())
JSON = st.one_of(
    SCALAR,
    SCALAR,
    st.none(),
    st.lists(SCALAR, max_size=2),
    st.dictionaries(st.sampled_from(["x", "yy", "é"]), SCALAR, max_size=2),
)
HELD = st.dictionaries(st.sampled_from(KEYS[:4]), JSON, max_size=3)
NULLABLE = st.none() | PLACED


@st.composite
def records(draw: st.DrawFn, source: Source) -> list[dict[str, Any]]:
    made = []
    for number in range(draw(st.integers(0, 9))):
        record: dict[str, Any] = {"id": f"id_{number}"}
        for name, kind in FIELDS[source].items():
            if name == "id":
                continue
            if kind == "epoch":
                record[name] = AT + draw(st.integers(-1, 4) | st.just(REACH))
            elif kind == "boolean":
                record[name] = draw(st.booleans())
            elif name in {"release", "user_id", "fingerprint", "sha", "branch", "automation_run_id"}:
                record[name] = draw(NULLABLE)
            else:
                record[name] = draw(PLACED)
        if source != "deploys":
            record["occurred_at"] = record["received_at"] - draw(st.sampled_from([0, 0, 1, 2, REACH]))
        if source == "events":
            record["properties"] = draw(HELD)
        if source == "errors":
            record["tags"] = draw(HELD)
        made.append(record)
    return made


@st.composite
def queries(draw: st.DrawFn, source: Source) -> Structured:
    names = list(FIELDS[source])
    if source != "deploys":
        holder = "properties" if source == "events" else "tags"
        names += [f"{holder}.{key}" for key in KEYS[:5]]
    some = st.sampled_from([field(source, name) for name in names])
    grouped = draw(st.lists(some, max_size=3, unique=True))
    columns: list[Column] = []
    aggregate = bool(grouped) or draw(st.booleans())
    if aggregate:
        columns += [Column(held.name, held) for held in grouped if draw(st.booleans())]
        for number in range(draw(st.integers(0 if columns else 1, 3))):
            fn = draw(st.sampled_from(["count", "unique"]))
            what = draw(some) if fn == "unique" else draw(st.none() | some)
            columns.append(Column(f"n{number}", what, fn))  # type: ignore[arg-type] # one of the two
    else:
        columns = [Column(held.name, held) for held in draw(st.lists(some, min_size=1, max_size=4, unique=True))]
    if aggregate and not any(column.fn for column in columns) and not grouped:
        columns.append(Column("n", None, "count"))
    by = [*columns, *[Column(held.name, held) for held in grouped]]
    if not aggregate:
        by += [Column(name, field(source, name)) for name in names]
    order = draw(st.lists(st.builds(Order, st.sampled_from(by), st.booleans()), max_size=3))
    unique = {item.by.name: item for item in order}
    conditions = draw(st.lists(some.flatmap(condition), max_size=3))
    return Structured(
        source=source, columns=tuple(columns), conditions=tuple(conditions), groups=tuple(grouped),
        order=tuple(unique.values()),
    )  # fmt: skip


def condition(held: Field) -> st.SearchStrategy[Condition]:
    exact = {"text": PLACED, "epoch": st.integers(AT - 1, AT + 4) | st.just(AT + 0.5), "boolean": st.booleans()}
    values: st.SearchStrategy[Any] = exact.get(held.kind, SCALAR)
    ops: list[st.SearchStrategy[Condition]] = [
        st.builds(Condition, st.just(held), st.just("exists"), st.booleans()),
        st.builds(Condition, st.just(held), st.sampled_from(["eq", "neq"]), values),
        st.builds(Condition, st.just(held), st.just("in"), st.lists(values, min_size=1, max_size=4)),
    ]
    if held.kind in {"epoch", "json"}:
        numbers = NUMBER if held.kind == "json" else exact["epoch"]
        ops.append(st.builds(Condition, st.just(held), st.sampled_from(["gt", "gte", "lt", "lte"]), numbers))
    if held.kind in {"text", "json"}:
        ops.append(st.builds(Condition, st.just(held), st.just("contains"), st.sampled_from(TEXTS[1:])))
    return st.one_of(ops)


LINKS: list[dict[str, str]] = [{}, {"a": "a", "b": "a", "B": "a"}, {"ab": "z", "z": "z"}]
"""Whose some names are: nobody's, three of one person, one of somebody who has sent nothing (G-197)."""
SOURCES: list[Source] = ["events", "errors", "deploys"]


@pytest.mark.parametrize("source", SOURCES)
@given(data=st.data())
@few_or_many(25, 100, deadline=None, suppress_health_check=list(HealthCheck))
def test_it_answers_as_a_naive_reading_does(source: Source, data: st.DataObject, sql: Sql) -> None:
    """Beside rows of other projects: those of every example before."""
    held, query = data.draw(records(source)), data.draw(queries(source))
    project = f"proj_{next(NUMBERS)}"
    add(sql, source, project, held)
    since, until = AT, AT + data.draw(st.integers(1, 5))
    links = data.draw(st.sampled_from(LINKS))
    for name, person in links.items():
        sql.execute("insert into person_names values (%s, %s, %s, 0)", (project, name, person))
    found, cut = ask(sql, project, query, since, until, linked=bool(links))
    assert not cut
    expected = naive.answer(query, held, since, until, links)
    assert list(map(comparable, found)) == expected


def comparable(row: Sequence[Any]) -> tuple[Any, ...]:
    """The text of an object or array by what it says."""
    return tuple(
        ("json", json.dumps(json.loads(cell), sort_keys=True))
        if isinstance(cell, str) and cell[:1] in {"{", "["} and cell not in TEXTS
        else cell
        for cell in row
    )


# ---- how it is carried out -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES)
def test_it_finds_a_projects_rows_by_an_index_and_in_the_days_of_the_window(source: Source, sql: Sql) -> None:
    """Behind the barrier of a view, which lets the bounds of time through and no test of a caller's."""
    query = Structured(
        source=source,
        columns=(Column("n", None, "count"),),
        conditions=(Condition(field(source, "environment" if source != "events" else "event"), "eq", "x"),),
    )
    [[today]] = sql.execute("select service_seconds()").fetchall()
    compiled = compile_query(query, OWN)
    values = {**compiled.values, "since": today - 86400, "until": today, "most": 10, "linked": False, "reach": 0}
    with sql.transaction():
        sql.execute(CONFINE, {"project_id": "proj"})
        sql.execute("set local enable_seqscan = off")
        [[[found]]] = sql.execute(f"explain (format json) {compiled.text}".encode(), values).fetchall()
    plans = list(walk(found["Plan"]))
    tables = {plan["Relation Name"] for plan in plans if "Relation Name" in plan}
    if source == "deploys":
        assert [plan["Function Name"] for plan in plans if "Function Name" in plan] == ["deploys_as_queried"]
        return
    assert 0 < len(tables) <= 3, "two days, and the default partition; with a reach those up to its end, too"
    for plan in plans:
        if "Relation Name" in plan:
            assert plan["Node Type"] in {"Index Scan", "Index Only Scan", "Bitmap Heap Scan"}, plan
            assert "project_id" in plan.get("Index Cond", plan.get("Recheck Cond", "")), plan


def walk(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from walk(part)
