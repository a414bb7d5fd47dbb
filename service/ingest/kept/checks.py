"""Whether what is counted agrees with the rows that were counted. Reads only.

Decisions read these counters, no event holds them, and no projection folds them. Each is written in the transaction of
its rows, so that one snapshot shows both. Retention deletes rows and keeps counters, oldest days first and never
yesterday's: where it may have been, a counter has to be at least what is left. Counts by name go before their rows,
by the day, and agree exactly until then. Projects under deletion are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from typing import Any

import psycopg

from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.history.audit import Difference, Report, count_rows, unreported
from service.ingest.kept.retention import USAGE_DAYS

Connection = psycopg.Connection[Any]


COUNTERS = {
    "case_stats": load_sql("ingest", "check_cases"),
    "case_users": load_sql("ingest", "check_people"),
    "case_rates": load_sql("ingest", "check_rates"),
    "usage_days": load_sql("ingest", "check_usage"),
    "usage_deploys": load_sql("ingest", "check_deploys"),
    "event_days": load_sql("ingest", "check_event_days"),
    "event_name_days": load_sql("ingest", "check_event_names"),
    "event_key_days": load_sql("ingest", "check_event_keys"),
}
"""The tables of counters by name, each with the query that finds the rows which do not agree."""


def check_counters(connection: Connection, table: str, report: Report = unreported) -> Iterator[Difference]:
    """Compare the counters of a table with the rows that they count, in one statement; yields those that differ.

    Each side is read once, whatever the server knows of their sizes: by stale statistics a loop within a loop looks
    cheap, and takes minutes for what a hash takes a second for.
    """
    with connection.transaction():
        connection.execute("set local enable_nestloop = off")
        rows = count_rows(connection, table)
        report(0, rows)
        found = connection.execute(COUNTERS[table].encode(), {"days": USAGE_DAYS}).fetchall()
        report(rows, rows)
    yield from starmap(Difference, found)
