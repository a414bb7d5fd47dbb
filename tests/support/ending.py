"""Deletions in tests: carried to their receipts, held at the fence, and what is left of a scope anywhere."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from service.history.audit import check_history, check_projection
from service.registry import read_models

_TABLES = (
    "select c.oid::regclass::text from pg_class c where c.relkind in ('r', 'm') "
    "and c.relnamespace = current_schema()::regnamespace order by 1"
)


def to_the_receipt(ask: Callable[[], httpx2.Response], seconds: float = 30.0) -> dict[str, Any]:
    """Repeat a request until it answers 200; every answer before that shows the same manifest."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        answer = ask()
        if answer.status_code == 200:
            receipt: dict[str, Any] = answer.json()
            return receipt
        assert answer.status_code == 202, answer.text
        assert answer.json()["status"] == "deleting"
        time.sleep(0.05)
    raise AssertionError("There is no receipt.")


@contextmanager
def held_at_the_fence(ledger: Path) -> Iterator[None]:
    """Keep every purge from beginning: none does before its erasure is in the ledger."""
    ledger.parent.mkdir(parents=True, exist_ok=True)
    with ledger.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def holding(url: str, *texts: str) -> dict[str, list[str]]:
    """The tables that hold one of these texts, anywhere in a row, by text."""
    found: dict[str, list[str]] = {}
    with psycopg.connect(url, autocommit=True) as sql:
        sql.execute("set bytea_output = 'escape'")  # what answers hold, too
        for (table,) in sql.execute(_TABLES).fetchall():
            for text in texts:
                query = f"select exists (select from {table} t where position(%s in t::text) > 0)"
                [[there]] = sql.execute(query.encode(), (text,)).fetchall()
                if there:
                    found.setdefault(text, []).append(table)
    return found


ENVELOPES = ("stream_heads", "project_positions")
"""Tables that hold what envelopes say: revisions, hashes and positions. An erasure leaves them."""


def left_of(url: str, scope: str) -> dict[str, int]:
    """How many rows, payloads and salts a scope has, by table; what only its envelopes say is left out."""
    with psycopg.connect(url, autocommit=True) as sql:
        columns = (
            "select table_name from information_schema.columns where table_schema = current_schema() "
            "and column_name = 'project_id' and table_name in "
            "(select c.relname from pg_class c where c.relkind = 'r') order by 1"
        )
        counted = {}
        for (table,) in sql.execute(columns.encode()).fetchall():
            kept = " and (payload is not null or salt is not null)" if table == "events" else ""
            query = f"select count(*) from {table} where project_id = %s{kept}"
            [[counted[table]]] = sql.execute(query.encode(), (scope,)).fetchall()
    return {table: number for table, number in counted.items() if number and table not in ENVELOPES}


def problems(url: str) -> list[Any]:
    """What is wrong with the log, its chains and the read models."""
    with psycopg.connect(url, autocommit=True) as sql:
        found: list[Any] = list(check_history(sql))
        for model in read_models().values():
            found += check_projection(sql, model)
    return found
