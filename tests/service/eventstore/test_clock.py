"""The time of the database is spelt once, and is what the service's clock says."""

from __future__ import annotations

import ast
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

import service
from service.eventstore.connect import facts

ROOM = Path(service.__file__).parent


def spelling(path: Path) -> list[int]:
    """The lines of a module where a text that is no docstring calls the clock."""
    tree = ast.parse(path.read_text())
    # A text that stands alone as a statement documents something.
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in notes
        and "service_now(" in node.value
    ]


def test_the_clock_is_spelt_once():
    """Whoever needs the time in a statement takes it from the one module."""
    found = {path.name: lines for path in ROOM.rglob("*.py") if (lines := spelling(path))}
    assert set(found) <= {"facts.py"}


def test_a_query_asks_once_for_the_time():
    """However many rows it looks at, and so that an index serves: as a scalar subquery."""
    for file in ROOM.glob("*/*.sql"):
        text = file.read_text(encoding="utf-8")
        assert re.findall(r"(?<!select )service_(?:now|seconds|today)\(\)", text) == [], file


def test_every_form_shows_the_clock_of_the_service(sql: psycopg.Connection[Any]):
    """Moved ahead with it, and one moment for a whole statement."""
    ahead = 40 * 86400 + 7
    sql.execute("select advance_service_clock(%s)", (ahead,))
    before = datetime.now(UTC).timestamp() + ahead
    query = f"select {facts.NOW}, {facts.NOW_SECONDS}, (select service_today()) from generate_series(1, 100)"
    rows = sql.execute(query.encode()).fetchall()
    assert len(set(rows)) == 1
    [moment, seconds, today] = rows[0]
    assert before - 1 <= moment.timestamp() <= before + 5
    assert (type(seconds), type(today)) == (int, int)
    assert 0 <= seconds - int(moment.timestamp()) <= 1
    assert today == seconds - seconds % 86400
