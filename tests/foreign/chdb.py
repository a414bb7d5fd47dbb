"""ClickHouse in process, as a second one who answers blueprints about the same rows: by our queries to a provider."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from service.analytics.bounded import Bounded, Rows
from service.analytics.connected import named_in
from tests.support.questions import Event, Questions

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".clickhouse" / "venv" / "bin" / "python"
PROGRAM = ROOT / "scripts" / "foreign" / "clickhouse_rows.py"
_TABLE = """
create table events (uuid String, event String, distinct_id String, created_at DateTime('UTC'),
    timestamp DateTime('UTC'), properties String) engine = Memory
"""


class ClickHouse:
    """A process that answers statements."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.ask(_TABLE)

    def ask(self, statement: str) -> list[Any]:
        """Return the rows of a statement. Fails when it is refused."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        rows: list[Any] = answer["rows"]
        return rows

    def receive(self, events: Sequence[Event]) -> None:
        """Have these events and no others."""
        self.hold([("", e.event, e.person, e.at, e.at, e.properties) for e in events])

    def hold(self, events: Sequence[tuple[str, str, str, int, int, Any]]) -> None:
        """Have these events and no others: id, name, person, when it came and happened, and properties of each."""
        self.ask("truncate table events")
        if events:
            rows = ", ".join(
                f"({literal(own)}, {literal(event)}, {literal(person)}, {came}, {at}, {literal(json.dumps(held))})"
                for own, event, person, came, at, held in events
            )
            self.ask(f"insert into events values {rows}")


def literal(value: Any) -> str:
    """A value as ClickHouse writes it."""
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value)


class ClickHouseAnalytics:
    """What answers for a connected project, without HTTP between."""

    source = "provider_cloud"

    def __init__(self, clickhouse: ClickHouse) -> None:
        self._clickhouse = clickhouse

    async def ask(self, query: Bounded) -> Rows:
        """Carry out a bounded query, with its values written into it."""
        assert query.connected is not None
        values = named_in(query)
        statement = re.sub(r"\{(\w+)\}", lambda found: literal(values[found[1]]), query.connected)
        rows: list[tuple[Any, ...]] = msgspec.convert(self._clickhouse.ask(statement), list[query.row])  # type: ignore[name-defined]
        return Rows(rows=rows, as_of=query.as_of, last_at=None, kept_from=None, complete=True, source="provider_cloud")


@contextmanager
def running() -> Iterator[ClickHouse]:
    """A process for a block."""
    assert PYTHON.exists(), "run `make foreign`, which installs it"
    with subprocess.Popen([PYTHON, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield ClickHouse(process)
        finally:
            process.kill()


def asked_of(clickhouse: ClickHouse, questions: Questions) -> Any:
    """The providers of a process whose projects are all connected to it."""

    async def for_project(_: str) -> ClickHouseAnalytics:
        return ClickHouseAnalytics(clickhouse)

    return SimpleNamespace(for_project=for_project, own=questions.providers.own)
