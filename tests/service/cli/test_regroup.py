"""`service cases regroup`: what a version would join and split on stored errors, with nothing changed (G-174)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.ingest import items
from service.ingest.grouping.fingerprint import GROUPINGS, group
from service.ingest.items import Item
from tests.service.cli.test_commands import Console
from tests.service.cli.test_commands import console as console  # noqa: PLC0414 (a fixture is found by name)
from tests.support.ingest import OTHER, PROJECT, log_item, running, send, sender

Sql = psycopg.Connection[Any]
TABLES = ("log_events", "cases", "case_stats", "events", "stream_heads", "case_rates")


def error(message: str, function: str = "charge", **extra: Any) -> Item:
    frame = {"file": "shop/pay.py", "function": function, "in_app": True}
    return log_item(message, extra={"exception": {"type": "PayError", "frames": [frame]}, **extra})


def everything(sql: Sql) -> list[Any]:
    return [sql.execute(f"select to_jsonb(t)::text from {table} t order by 1".encode()).fetchall() for table in TABLES]


@pytest.fixture
async def stored(database_url: str, sql: Sql, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Errors of version 1: three cases that version 2 joins, and one that it splits."""
    monkeypatch.setattr(items, "group", lambda evidence: group(evidence, {1: GROUPINGS[1]}))
    custom = {"sdk": {"protocol": "sentry"}, "fingerprint": ["pay"]}
    async with running(database_url) as intake:
        return await send(
            intake,
            error("timeout"),
            error("card refused"),
            error("card refused", **custom),
            error("lost " * 1000),
            log_item("fine", level="info"),
            log_item("elsewhere", of=sender(OTHER)),
        )


async def test_what_would_be_joined_and_split_is_shown(
    console: Console, sql: Sql, stored: list[dict[str, Any]]
) -> None:
    before = everything(sql)
    found = console.json("cases", "regroup", "--dry-run", PROJECT)
    assert everything(sql) == before
    assert (found["version"], found["errors"], found["cases"], found["complete"]) == (3, 4, 3, True)
    [joined] = found["joined"]
    assert {part["case_id"] for part in joined} == {answer["case_id"] for answer in stored[:4]}
    assert {part["decided_by"] for part in joined} == {"type+frames"}
    [split] = found["split"]
    assert {part["case_id"] for part in split} == {stored[1]["case_id"]}
    assert {(part["decided_by"], part["example"]) for part in split} == {
        ("type+frames", "card refused"),
        ("client", "card refused"),
    }
    told = console.run("cases", "regroup", "--dry-run", PROJECT).stdout
    assert "It would join 1:" in told
    assert "It would split 1:" in told
    assert f"{stored[1]['case_id']}  1 errors by client: card refused" in told


async def test_the_version_of_the_cases_changes_nothing(console: Console, stored: list[dict[str, Any]]) -> None:
    found = console.json("cases", "regroup", "--dry-run", PROJECT, "--version", "1")
    assert (found["errors"], found["joined"], found["split"]) == (len(stored) - 2, [], [])


def test_a_project_that_does_not_exist_is_told(console: Console, sql: Sql) -> None:
    told = console.run("cases", "regroup", "--dry-run", "proj_nobody", code=1).stderr
    assert "There is no such project: proj_nobody." in told


def test_only_a_dry_run_of_a_known_version_runs(console: Console, tmp_path: Path) -> None:
    assert "--dry-run" in console.run("cases", "regroup", PROJECT, code=2).stderr
    assert (
        "There are: 1, 2, 3" in console.run("cases", "regroup", "--dry-run", PROJECT, "--version", "9", code=2).stderr
    )
    assert list(tmp_path.iterdir()) == []
