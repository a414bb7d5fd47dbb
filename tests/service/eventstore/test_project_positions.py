"""A page of a project's events costs what the project has, however long the log of the installation is (P25)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.eventstore.log.sequencer import sequence_all
from service.eventstore.schema import migrations
from service.sql import load_query

Sql = psycopg.Connection[Any]

OTHERS, OWN = 30_000, 40
TOPIC = "toy.filled.v1"
FILL = Path(migrations.__file__).parent / "sql" / "0764_fill_project_positions.sql"
PAGES: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("events", "of_project"): {"after": 0, "limit": 200, "bytes": 1 << 18},
    ("events", "of_project_before"): {"before": OTHERS + 1, "limit": 200, "bytes": 1 << 18},
    ("webhooks", "project_events"): {"after": 0, "looked": 5000, "topics": [TOPIC], "limit": 200},
    ("webhooks", "events_between"): {"after": 0, "until": OTHERS, "topics": [TOPIC], "webhook_id": "none"},
    ("archives", "events"): {},
}


def append(sql: Sql, project_id: str, count: int, first: int = 1) -> None:
    """Append events of a stream that nobody has numbered."""
    sql.execute(
        "with added as (insert into events (project_id, stream_id, revision, kind, topic, payload, event_id, "
        "command_id, actor_kind, actor_id, request_id, correlation_id, causation_id, recorded_at, payload_hash, leaf, "
        "chain) select %(project)s, 's', n, 'toy', %(topic)s, '{}', n::text, '', '', '', '', '', '', "
        "clock_timestamp(), '', '', '' from generate_series(%(first)s::bigint, %(first)s::bigint + %(count)s - 1) n "
        "returning seq) insert into unsequenced select seq from added",
        {"project": project_id, "topic": TOPIC, "count": count, "first": first},
    )


@pytest.fixture
def busy(sql: Sql) -> Sql:
    """A log in which a project has an event among every thousand."""
    step = OTHERS // OWN
    for number in range(OWN):
        append(sql, "mine", 1, number + 1)
        append(sql, f"other_{number % 7}", step, number * step + 1)
    sequence_all(sql)
    sql.execute("analyze")
    return sql


def nodes(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A node of a plan with all below it."""
    return [plan, *(inner for child in plan.get("Plans", ()) for inner in nodes(child))]


@pytest.mark.parametrize("query", PAGES, ids="/".join)
def test_a_page_reads_rows_of_its_project_alone(busy: Sql, query: tuple[str, str]) -> None:
    """By the index of the project: no node of a plan gives more rows than that has, and few blocks are read."""
    text = load_query(*query)
    values = {"project_id": "mine", **PAGES[query]}
    rows = [row for row in busy.execute(text, values).fetchall() if TOPIC in row]
    assert len(rows) == OWN
    explain = f"explain (analyze, buffers, format json) {text}"
    [[[explained]]] = busy.execute(explain.encode(), values).fetchall()
    found = nodes(explained["Plan"])
    read = [node for node in found if "Relation Name" in node]
    assert {"project_positions", "events"} <= {node["Relation Name"] for node in read}
    assert not [node for node in read if node["Node Type"] == "Seq Scan" and node["Relation Name"] != "log_state"]
    lost = "Rows Removed by Filter"
    most = max((node["Actual Rows"] + node.get(lost, 0)) * node["Actual Loops"] for node in read)
    assert most <= OWN, json.dumps(explained, indent=1)
    assert explained["Plan"]["Shared Hit Blocks"] + explained["Plan"]["Shared Read Blocks"] < 10 * OWN


def by_project(sql: Sql) -> list[tuple[str, int, int]]:
    return sql.execute("select project_id, position, seq from project_positions order by position").fetchall()


def expected(sql: Sql) -> list[tuple[str, int, int]]:
    return sql.execute(
        "select e.project_id, i.position, i.seq from log_index i join events e on e.seq = i.seq order by i.position"
    ).fetchall()


def test_whoever_numbers_events_numbers_them_for_their_projects(sql: Sql) -> None:
    """In the same transaction: a position is there for the log and for its project, or for neither."""
    append(sql, "a", 3)
    append(sql, "b", 2)
    with sql.transaction(force_rollback=True):
        assert sequence_all(sql) == 5
        assert by_project(sql) == expected(sql) != []
    assert by_project(sql) == []
    assert sequence_all(sql) == 5
    assert by_project(sql) == expected(sql)
    for change in ("update project_positions set position = 9", "delete from project_positions"):
        with pytest.raises(psycopg.errors.RestrictViolation):
            sql.execute(change.encode())


def number_unseen(sql: Sql) -> None:
    """Append and number three events as before the upgrade: without their positions by project."""
    append(sql, "a", 3)
    sql.execute("alter table log_index disable trigger log_index_by_project")
    sequence_all(sql)
    sql.execute("alter table log_index enable always trigger log_index_by_project")


def test_what_was_numbered_before_the_upgrade_is_filled_in_once(sql: Sql) -> None:
    """Also while the release before goes on to number events."""
    number_unseen(sql)
    append(sql, "b", 2)
    sequence_all(sql)
    assert [project for project, *_ in by_project(sql)] == ["b", "b"]
    for _ in range(2):
        sql.execute(FILL.read_bytes())
        assert by_project(sql) == expected(sql)
        assert len(by_project(sql)) == 5


def test_nobody_waits_for_what_is_filled_in(sql: Sql, toys_url: str) -> None:
    """However long the fill takes: in its open transaction it has written, and others append, number and read."""
    number_unseen(sql)
    with psycopg.connect(toys_url) as filling:
        filling.execute(FILL.read_bytes())
        sql.execute("set lock_timeout = '1s'")
        append(sql, "b", 2)
        assert sequence_all(sql) == 2
        assert [project for project, *_ in by_project(sql)] == ["b", "b"]
    assert by_project(sql) == expected(sql)
    assert len(by_project(sql)) == 5
