"""What the read of a case costs: of all days of telemetry it opens those alone that it shows (R-CASE-11, P25)."""

from __future__ import annotations

import json
import re

import psycopg

from service.cases import reads
from service.eventstore.clock import DAY
from tests.support.ingest import PROJECT, Sql, one


def test_evidence_is_looked_for_on_the_days_that_it_shows(database_url: str, sql: Sql):
    today = one(sql, "select floor(extract(epoch from service_now()) / 86400)::bigint * 86400")
    for back in range(2, 60):
        sql.execute("select ensure_partition(telemetry => 'log_events', day => %s)", (today - back * DAY,))
    since = today - (reads.TREND_DAYS - 1) * DAY
    with psycopg.connect(database_url, autocommit=True, cursor_factory=psycopg.ClientCursor) as literal:

        def opened(last: int, own: int) -> int:
            cases = (["case_1", "case_2"], PROJECT)
            values = (*cases, last, PROJECT, "case_1", own, *cases, since, last)
            [(plan,)] = literal.execute(f"explain (format json) {reads._EVIDENCE}".encode(), values).fetchall()
            return len(set(re.findall(r'"log_events_\d{8}"', json.dumps(plan))))

        assert opened(today, today) == reads.TREND_DAYS
        assert opened(today, today - 40 * DAY) == reads.TREND_DAYS + 1
        assert opened(today - 30 * DAY, today - 40 * DAY) == 2
