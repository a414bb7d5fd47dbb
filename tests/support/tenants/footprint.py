"""The stored data of a tenant: every row of every table, and the heads of the streams."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection
from typing import Any, Self

import psycopg

SETTLE_SECONDS = 60.0
REST_SECONDS = 1.5  # longer than the delay of last-used notes
_TABLES = (
    "select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'project_id' "
    "where c.relkind in ('r', 'p') and not c.relispartition and c.relnamespace = 'public'::regnamespace order by 1"
)
_BY_HAND = "select project_id || ' ' || stream_id, count(*) from events where actor_kind <> 'system' group by 1"

_STANDS = (
    "(exists (select from webhooks w where w.project_id = t.project_id and w.id = t.{0}) "
    "or exists (select from notification_destinations n where n.project_id = t.project_id and n.id = t.{0}))"
)
# Sweep and schedule keep turns, looks and new verdicts by the minute: only what a request wrote tells of one.
_BY_REQUEST = {
    "sweep_turns": "false",
    "automation_looks": "look <> 'sweep'",
    "alert_looks": "false",
    "automation_decisions": "look <> 'sweep'",
    # A job takes away what deleted webhooks have left.
    **dict.fromkeys(("webhook_standings", "webhook_targets"), _STANDS.format("id")),
    "webhook_deliveries": _STANDS.format("webhook_id"),
}

Rows = dict[str, list[str]]


class Footprint:
    """Reads the data directly from the database."""

    def __init__(self, database_url: str) -> None:
        self._connection = psycopg.connect(database_url, autocommit=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def scopes(self) -> list[str]:
        """Every project and person that has rows."""
        return sorted(scope for (scope,) in self._fetch("select distinct project_id from stream_heads"))

    def rows(self, scopes: Collection[str]) -> Rows:
        """Every row of these scopes as text, by table."""
        found = {}
        for (table,) in self._fetch(_TABLES):
            by_request = _BY_REQUEST.get(table, "true")
            query = f"select t::text from {table} t where t.project_id = any(%s) and {by_request} order by 1"
            found[table] = [text for (text,) in self._fetch(query, list(scopes))]
        return found

    def settled_rows(self, scopes: Collection[str]) -> Rows:
        """The same once nothing is in progress: all events numbered, no job waiting, no row changing."""
        give_up = time.monotonic() + SETTLE_SECONDS
        before: Rows = {}
        while True:
            rows = self.rows(scopes)
            if rows == before and not self._under_way():
                return rows
            assert time.monotonic() < give_up, f"the store does not come to rest: {differences(before, rows)[:9]}"
            before = rows
            time.sleep(REST_SECONDS)

    def by_hand(self) -> Counter[str]:
        """The number of events of each stream that requests caused, without those of background work."""
        return Counter(dict(self._fetch(_BY_HAND)))

    def _under_way(self) -> bool:
        [[left]] = self._fetch(
            "select (select count(*) from unsequenced) + "
            "(select count(*) from procrastinate_jobs where status in ('todo', 'doing'))"
        )
        return bool(left)

    def _fetch(self, query: str, *params: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(query.encode(), params).fetchall()


def differences(before: Rows, after: Rows) -> list[str]:
    """Added and removed rows, by table."""
    return [
        f"{table}: {sign} {row}"
        for table in sorted({*before, *after})
        for sign, one, other in (("-", before, after), ("+", after, before))
        for row in (Counter(one.get(table, [])) - Counter(other.get(table, []))).elements()
    ]
