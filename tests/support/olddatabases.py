"""Databases of earlier releases, kept in tests/golden/databases (made by scripts/released_database.py)."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import msgspec
import psycopg

GOLDEN = Path(__file__).parents[1] / "golden" / "databases"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.sql"))
_UPGRADE = Path(__file__).parents[2] / "docs/how-to/upgrade.md"
_CLOCK = re.compile(r"(INSERT INTO public\.service_clock VALUES\n\t\(true, )\d+\)")


def bring_back(url: str, name: str) -> dict[str, Any]:
    """Fill an empty database with a kept one, at the time it was left at; returns what its principals present.

    The clock of a kept database is decades ahead of the real one, so that there is an offset by which it goes on from
    the moment it was left: leases and codes are as alive as they were then.
    """
    left: dict[str, Any] = msgspec.json.decode((GOLDEN / f"{name}.json").read_bytes())
    offset = left["left_at"] - int(time.time())
    text, found = _CLOCK.subn(rf"\g<1>{offset})", (GOLDEN / f"{name}.sql").read_text())
    assert found == 1, "a kept database has a clock"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(text.encode())
    return left


def rebuilt_after_upgrade() -> list[str]:
    """The read models to rebuild after an upgrade, by the page on upgrades. There are some."""
    names = re.findall(r"^ +\$ service projections rebuild (\w+)$", _UPGRADE.read_text(), re.MULTILINE)
    assert names
    return names


def catalog(url: str) -> list[tuple[str, ...]]:
    """Columns, constraints, indexes, functions and triggers of a database, as text; without the partitions of days."""
    queries = (
        (
            "select 'column', table_name, column_name, data_type, is_nullable, coalesce(column_default, '') "
            "from information_schema.columns where table_schema = 'public'"
        ),
        (
            "select 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint "
            "where connamespace = 'public'::regnamespace and contype <> 'n'"
        ),
        "select 'index', tablename, indexname, indexdef from pg_indexes where schemaname = 'public'",
        (
            "select 'function', p.proname, pg_get_functiondef(p.oid) from pg_proc p "
            "where p.pronamespace = 'public'::regnamespace"
        ),
        "select 'trigger', tgrelid::regclass::text, pg_get_triggerdef(oid) from pg_trigger where not tgisinternal",
        "select 'enum', t.typname, e.enumlabel from pg_enum e join pg_type t on t.oid = e.enumtypid",
    )
    with psycopg.connect(url) as connection:
        rows = [row for query in queries for row in connection.execute(query).fetchall()]
    return sorted(row for row in rows if not re.search(r"_events_\d{8}$", row[1]))
