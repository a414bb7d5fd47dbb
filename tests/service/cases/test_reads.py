"""What the read of a case costs: of all days of telemetry it opens those alone that it shows (R-CASE-11, P25)."""

from __future__ import annotations

import json
import re

import msgspec
import psycopg
from psycopg._queries import MAX_CACHED_STATEMENT_LENGTH

from service.cases import case as reads
from service.eventstore.connect.facts import DAY
from service.eventstore.schema.migrations import partition_of
from service.http.cases import case
from service.sql import Query
from tests.support.ingest import PROJECT, Sql, body, log_item, one, running, send
from tests.support.list_plans import reading


def test_evidence_is_looked_for_on_the_days_that_it_shows(database_url: str, sql: Sql):
    today = one(sql, "select floor(extract(epoch from service_now()) / 86400)::bigint * 86400")
    for back in range(2, 60):
        sql.execute("select ensure_partition(telemetry => 'log_events', day => %s)", (today - back * DAY,))
    since = today - (reads.TREND_DAYS - 1) * DAY
    with psycopg.connect(database_url, autocommit=True, cursor_factory=psycopg.ClientCursor) as literal:

        def opened(last: int, own: int) -> int:
            values = {
                "project_id": PROJECT,
                "case_id": "case_1",
                "case_ids": ["case_1", "case_2"],
                "last": last,
                "own_last": own,
                "since": since,
            }
            [(plan,)] = literal.execute(f"explain (format json) {reads._EVIDENCE}".encode(), values).fetchall()
            return len(set(re.findall(r'"log_events_\d{8}"', json.dumps(plan))))

        assert opened(today, today) == reads.TREND_DAYS
        assert opened(today, today - 40 * DAY) == reads.TREND_DAYS + 1
        assert opened(today - 30 * DAY, today - 40 * DAY) == 2


def test_the_query_of_a_case_is_one_that_the_driver_keeps():
    assert len(case._RECORD) <= MAX_CACHED_STATEMENT_LENGTH


async def test_what_is_new_today_is_read_from_the_day_alone(database_url: str, sql: Sql):
    """It is told as any other case is told; and from the default partition, where its day has no own one."""
    async with running(database_url) as intake:
        sent = [log_item(f"Payment {number} failed", tags={"n": str(number)}) for number in range(3)]
        [case_id] = {body(answer)["case_id"] for answer in await send(intake, *sent)}
    query = reads.record_with(Query(b"c.status"))
    async with reading(database_url) as store:
        bundle, beside = await reads.read_case(store, PROJECT, case_id, None, query)
        moment, today = bundle.total.last_seen_at, bundle.today
        [[text]] = await store.fetch_planned(
            reads._EVIDENCE,
            project_id=PROJECT,
            case_id=case_id,
            case_ids=[case_id],
            last=moment,
            own_last=moment,
            since=today,
        )
        assert bundle.evidence == msgspec.json.decode(text, type=reads.CaseEvidence)
        assert (beside, bundle.evidence.days, bundle.evidence.grouped_by) == ("open", {today: 3}, "v3:message")
        own = partition_of("log_events", today)
        sql.execute(f"alter table log_events detach partition {own}".encode())
        sql.execute(f"insert into log_events select * from {own}".encode())
        sql.execute(f"drop table {own}".encode())
        assert (await reads.read_case(store, PROJECT, case_id, None, query))[0].evidence == bundle.evidence
        sql.execute("delete from log_events")
        assert (await reads.read_case(store, PROJECT, case_id, None, query))[0].evidence == reads.CaseEvidence()
        sql.execute("select ensure_partition(telemetry => 'log_events', day => %s)", (today,))
        assert (await reads.read_case(store, PROJECT, case_id, None, query))[0].evidence == reads.CaseEvidence()
