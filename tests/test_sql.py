"""SQL is source: each query is a named block of its area's file, with a comment, named parameters and a plan."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.sql import COMMENT, INCLUDE, load_blocks, load_query, path_of
from tests.support.cluster import TestCluster
from tests.support.list_plans import numbered

ROOT = Path(__file__).parents[1]
SERVICE = ROOT / "service"
SCHEMA = SERVICE / "eventstore" / "schema" / "sql"
"""Migrations and versions of functions: each is a file, which is applied as it stands."""
OTHERS = sorted(set(SERVICE.rglob("*.sql")) - set(SCHEMA.rglob("*.sql")))
FILES = [
    str(file.parent if file.name == "queries.sql" else file.with_suffix(""))
    for file in (found.relative_to(SERVICE) for pattern in ("*.sql", "*/*.sql") for found in SERVICE.glob(pattern))
]
"""As `load_query` names them."""
FOREIGN = [file for file in FILES if file.endswith(("/connected", "analytics/copied", "copy/engine"))]
"""In the language of ClickHouse, at the customer's provider or of the copy: no plan is made of it here."""
BY_PLACE = [
    "ingest/flushing",
    "eventstore",
    "eventstore/schema",
    "eventstore/statements",
    "history",
    "tlog",
]
"""Of the write path, past the driver's cursors: with places `%s` too, and planned by tests of their own."""
BLOCKS = [(file, name) for file in FILES for name in load_blocks(file)]
QUERIES = [
    (file, name) for file, name in BLOCKS if file not in {*FOREIGN, *BY_PLACE} and not load_blocks(file)[name].is_part
]
LINES = 600
"""A file has at most about so many. A resource whose area has more has a file of its own."""

WITHOUT_FILES = {
    "eventstore": "made from the definitions of tables, and lines that tables of any name are asked by",
    "history": "made from the definitions of tables, and lines of one word",
    "analytics/structured": "made of what a caller names, in a transaction that sees three views",
    "deletion/purging.py": "made from the names of all tables that hold rows of a scope",
    "embedded/room.py": "tells the embedded server to read its settings anew, as the superuser",
    "cli/doctor.py": "a write that is tried and taken back",
    "cli/shared/copies.py": "made from the names of all tables",
    "cli/shared/silence.py": "asks whether anybody answers",
}
"""Where SQL stands among Python, and why."""

SMALL = {
    "checkpoints": "a row for each reader of the log",
    "ingest_flushers": "a row for each process of the last day",
    "installation": "one row",
    "log_state": "one row",
    "rebuilds": "a row for each rebuild under way",
    "schema_functions": "a row for each function",
    "schema_migrations": "a row for each migration",
    "service_clock": "one row",
    "task_runs": "a row for each task",
    "telemetry_copies": "a row for each table of telemetry",
}
"""Tables that do not grow with use."""

WHOLE = {
    "accounts/all_keys": "an operator lists everybody's keys",
    "accounts/feedback": "an operator lists everybody's, up to a limit and in the order of an index",
    "ingest/connected_projects": "a worker goes through all connected projects by the minute",
    "ingest/disconnected_projects": "and through those that it has read and are connected no more",
    "billing/payers": "retention goes through all projects once an hour",
    "cli/failed_jobs": "an operator's look; jobs that succeeded are deleted",
    "cli/failed_tasks": "an operator's look; jobs that succeeded are deleted",
    "cli/jobs": "an operator's look; jobs that succeeded are deleted",
    "cli/unnumbered": "an operator's look at what waits for its position",
    "copy/changed_names": "what the copy does not know yet: of some seconds, or of a new copy",
    "copy/forget_batches": "a shipper that begins goes through the manifests",
    "copy/begin_anew": "an operator gives up all batches",
    "copy/erasures_of_day": "once, when a shipper begins; a row for each deletion",
    "copy/forget_copy": "an operator gives up all batches",
    "copy/statuses": "an operator's look",
    "deletion/forget_jobs": "a purge goes through the jobs; those that succeeded are deleted",
    "discovery/figures": "counts what waits; bounded, or by the statistics of the server",
    "discovery/unnumbered": "looks at the first thousand in order",
    "ingest/check_cases": "an operator has both sides compared",
    "ingest/check_deploys": "an operator has both sides compared",
    "ingest/check_event_days": "an operator has both sides compared",
    "ingest/check_event_keys": "an operator has both sides compared",
    "ingest/check_event_names": "an operator has both sides compared",
    "ingest/check_people": "an operator has both sides compared",
    "ingest/check_rates": "an operator has both sides compared",
    "ingest/check_usage": "an operator has both sides compared",
    "runs/background/forget_turns": "goes through the turns once an hour",
    "runs/background/waiting": "a sweep orders what is due of all projects",
    "runs/background/waits": "a scrape counts what is due of all projects",
}
"""Queries that look through a table, and why they may."""

PAGE = {"project_id": "p", "at": 1, "id": "x", "limit": 51}
LISTED = {**PAGE, "status": "open", "since": 1, "trust": ["imported", "synthetic"]}
TOLD = {"tag": "team=shop", "path": "app/", "person": "u"}
LOGS = {
    **PAGE,
    **dict.fromkeys(("level", "text", "release", "trace"), "w"),
    "since": 1,
    "until": 2,
    "low": 1,
    "high": 2,
    "looked": 500,
}
PLANNED: Mapping[str, Mapping[str, Any]] = {
    "cases/common": {"project_id": "p", "case_ids": ["c"], "low": 1, "high": 2, "most": 100, "names": 12, "values": 3},
    "cases/listing/count_among": {"project_id": "p", "at": 1, "id": "x", "status": "open", "most": 301},
    "cases/event": {"project_id": "p", "received_at": 1, "id": "x"},
    "cases/event_time": {"project_id": "p", "case_ids": ["c"], "low": 1, "high": 2, "most": 100, "id": "x"},
    "cases/events": {"project_id": "p", "case_ids": ["c"], "low": 1, "at": 2, "id": "x", "limit": 10},
    "cases/listing/list": LISTED,
    "cases/listing/list_found": {**LISTED, **TOLD, "marks": ["p release 1"], "text": "word", "ids": None},
    "cases/listing/of_person": {"project_id": "p", "person": "u", "most": 501},
    "cases/listing/list_ordered": {
        **LISTED,
        **TOLD,
        **dict.fromkeys(("environment", "release", "text", "order"), "w"),
        "ids": ["c"],
    },
    **{
        f"cases/listing/list_by_{name}": {
            **LISTED,
            **TOLD,
            **dict.fromkeys(("environment", "release", "text", "order"), "w"),
            "rank": 9,
            "rank_id": "x",
            "exact": 256,
            "walked": 500,
        }
        for name in ("errors", "people", "last_error")
    },
    "cases/listing/list_walked": {
        **LISTED,
        **TOLD,
        "environment": "e",
        "release": "1",
        "text": "word",
        "walked": 300,
    },
    "cases/logs": LOGS,
    "cases/logs_of_user": {**LOGS, "user": "u"},
    "cases/listing/of_words": {"project_id": "p", **TOLD, "text": "word", "most": 2001},
    "cases/feedback": {**PAGE, "case_ids": ["c"], "without_case": False},
    "runs/decisions": {**PAGE, "case_id": "c", "automation_id": "a", "passed": True},
    "runs/background/started_effects": {"project_id": "p", "automation_id": "a", "most": 51},
    "runs/background/waiting": {"step": "runs", "longest": 400, "most": 500, "deploy_wait": 60},
}
"""Queries that are planned for their values, with some of these; all others are planned once, for any."""


def test_every_file_has_the_form() -> None:
    """One of the area, others beside the modules of its resources, and none anywhere else."""
    assert {path_of(file) for file in FILES} == set(OTHERS)


@pytest.mark.parametrize("file", FILES)
def test_a_block_says_what_it_answers_and_names_its_parameters(file: str) -> None:
    lines = path_of(file).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LINES
    assert all(len(line) <= 120 for line in lines)
    for name, block in load_blocks(file).items():
        assert re.match("[A-Z].* .*[.:)]$", block.description), name
        code = " ".join(block.lines)
        place = r"(?:s|\(\w+\)s)" if file in BY_PLACE else r"\(\w+\)s"
        assert re.findall(rf"%(?!{place})", code.replace("%%", "")) == [], name
        assert COMMENT not in code, f"{name}: a comment has lines of its own"
        assert code, name


def test_every_block_is_loaded_or_included() -> None:
    code = "\n".join(file.read_text(encoding="utf-8") for file in SERVICE.rglob("*.py"))
    used = set(re.findall(r'load_query\("([\w/]+)", "(\w+)"\)', code))
    for file in FILES:
        for block in load_blocks(file).values():
            for line in block.lines:
                if line.startswith(INCLUDE):
                    there, _, part = line.removeprefix(INCLUDE).rpartition(".")
                    assert load_blocks(there or file)[part].is_part
                    used.add((there or file, part))
    assert set(BLOCKS) == used


def test_an_unknown_query_fails_the_import() -> None:
    with pytest.raises(LookupError):
        load_query("billing", "no_such_query")
    with pytest.raises(FileNotFoundError):
        load_query("billing/nothing", "no_such_query")


def test_a_place_takes_names_numbers_and_queries_alone() -> None:
    """Nothing that a caller sends becomes part of a statement."""
    holders = load_query("ingest", "holders")
    assert "from log_events e" in str(holders.filled(table="log_events"))
    for table in ("log_events; drop table cases", 'log"events', ""):
        with pytest.raises(ValueError, match="no name of a table"):
            holders.filled(table=table)
    with pytest.raises(ValueError, match="has no place"):
        holders.filled(row="log_events")


def test_a_query_goes_to_the_driver_as_it_is() -> None:
    """It has its bytes already."""
    called = re.compile(r"execute\([^()]*\.encode\(\)")
    for file in SERVICE.rglob("*.py"):
        assert called.findall(file.read_text(encoding="utf-8")) == [], file


_SQL = re.compile(
    r"\s*(select\s|insert into\s|update \w+ set|delete from|with \w+ as \(|left join|json_build_object\()"
)


def sql_of(file: Path) -> Iterator[int]:
    """The lines of each string of a module that is SQL."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]) | ast.Constant(value=str(text)):
                if _SQL.match(text):
                    yield (node.end_lineno or 0) - node.lineno + 1


def print_sql() -> None:
    """Print the modules with SQL, each with the lines of its longest."""
    found = {str(file.relative_to(SERVICE)): max(sql_of(file), default=0) for file in SERVICE.rglob("*.py")}
    sys.stdout.write(json.dumps({name: lines for name, lines in found.items() if lines}))


@pytest.fixture(scope="module")
def among_python() -> dict[str, int]:
    """The modules with SQL, each with the lines of its longest.

    A process of its own reads them. In one with other threads, Python 3.11 counts their recursion into that of a parse:
    https://github.com/python/cpython/issues/106905
    """
    read = subprocess.run([sys.executable, "-m", __name__], cwd=ROOT, check=True, capture_output=True)
    found: dict[str, int] = json.loads(read.stdout)
    return found


def test_no_query_stands_among_python(among_python: dict[str, int]) -> None:
    """But where that is listed; and nothing is listed in vain."""
    found = set(among_python)
    listed = {name for name in found for allowed in WITHOUT_FILES if name == allowed or name.startswith(f"{allowed}/")}
    assert found - listed == set()
    assert all(any(name == allowed or name.startswith(f"{allowed}/") for name in found) for allowed in WITHOUT_FILES)


def test_no_statement_among_python_has_two_lines(among_python: dict[str, int]) -> None:
    """But what is made of the definitions of tables, or of what a caller names, and the ledger of the migrations."""
    found = {Path(name).stem for name, lines in among_python.items() if lines > 1}
    assert found == {"dialects", "lane", "migrations", "statements"}


def test_few_statements_are_put_together() -> None:
    """Each of them is marked for the linter."""
    marked = [
        line
        for room in ("service", "statemachines", "projections", "schemas", "scripts")
        for file in (ROOT / room).rglob("*.py")
        for line in file.read_text(encoding="utf-8").splitlines()
        if "noqa: S608" in line
    ]
    assert len(marked) <= 8


def plans(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A node of a plan and those below it."""
    yield node
    for inner in node.get("Plans", ()):
        yield from plans(inner)


def looked_through(plan: dict[str, Any], partial: Collection[str]) -> set[str]:
    """The tables that a plan reads as a whole: without an index, or an index from one end to the other.

    A partial index is there to be read like this.
    """
    found = set()
    for node in plans(plan):
        table = None if node["Node Type"] == "ModifyTable" else node.get("Relation Name")
        if table is None or table.startswith("pg_") or re.sub(r"_default$|_\d{8}$", "", table) in SMALL:
            continue
        index = "Index Cond" in node or node.get("Index Name") in partial
        if not index and node["Node Type"] not in {"Bitmap Heap Scan", "Tid Scan", "Tid Range Scan"}:
            found.add(re.sub(r"_default$|_\d{8}$", "", table))
    return found


@pytest.fixture(scope="module")
def planner(cluster: TestCluster) -> Iterator[psycopg.Connection[Any]]:
    """A connection whose plans avoid what would read a whole table, wherever an index lets them."""
    with cluster.database() as url, psycopg.connect(url, autocommit=True) as connection:
        for way in ("seqscan", "hashjoin", "mergejoin"):
            connection.execute(f"set enable_{way} = off".encode())
        yield connection


@pytest.mark.parametrize(("file", "block"), QUERIES, ids=[f"{file}/{block}" for file, block in QUERIES])
def test_a_query_finds_its_rows_by_an_index(planner: psycopg.Connection[Any], file: str, block: str) -> None:
    """However much there is: no table that grows is read as a whole, but where that is listed."""
    name = f"{file}/{block}"
    query = str(load_query(file, block)).replace("{beside}", str(load_query("runs", "standing")))
    query = query.replace("{table}", "analytics_events_default" if "analytics" in block else "log_events_default")
    if name in PLANNED:
        with psycopg.ClientCursor(planner) as cursor:
            found = cursor.execute(f"explain (format json) {query}".encode(), PLANNED[name]).fetchall()
    else:
        values = dict.fromkeys(re.findall(r"%\((\w+)\)s", query))
        written, _ = numbered(query, (), values)
        found = planner.execute(f"explain (generic_plan, format json) {written}".encode()).fetchall()
    [[[plan]]] = found
    partial = planner.execute("select indexrelid::regclass::text from pg_index where indpred is not null").fetchall()
    whole = looked_through(plan["Plan"], {index for (index,) in partial})
    assert bool(whole) == (name in WHOLE), f"{sorted(whole)}: {json.dumps(plan)}"


if __name__ == "__main__":
    print_sql()
