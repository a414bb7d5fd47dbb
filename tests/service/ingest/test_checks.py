"""Counters are compared with what they count: whoever edits one is found, and what retention removes is no finding."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from service.billing.plans import Retention
from service.ingest.kept import COUNTERS, USAGE_DAYS, check_counters, purge
from tests.support.cluster import TestCluster
from tests.support.ingest import (
    OWNER,
    PROJECT,
    Sql,
    analytics_item,
    check_books,
    log_item,
    make_project,
    make_public,
    miscounted,
    one,
    public_sender,
    running,
    send,
)

DAY = 86400


@pytest.fixture(scope="module")
def counted_name(cluster: TestCluster) -> Iterator[str]:
    """The name of a database with what is counted, which is cloned for each test."""
    with cluster.database() as url:
        with psycopg.connect(url, autocommit=True) as sql:
            asyncio.run(_count(url, sql))
        yield psycopg.conninfo.conninfo_to_dict(url)["dbname"]


@pytest.fixture
def counted_url(cluster: TestCluster, counted_name: str) -> Iterator[str]:
    """A clone of it."""
    with cluster.database(counted_name) as url:
        yield url


@pytest.fixture
def counted(counted_url: str) -> Iterator[Sql]:
    """A session at the clone."""
    with psycopg.connect(counted_url, autocommit=True) as sql:
        yield sql


async def _count(database_url: str, sql: Sql) -> None:
    """Three cases, one of them by a page, three people, records without a case, a deploy; from a day's beginning on."""
    make_project(sql, PROJECT)
    sql.execute(
        "update service_clock set offset_seconds = 86400 + 60 - floor(extract(epoch from clock_timestamp()))::bigint "
        "% 86400"
    )
    sql.execute(COUNTED_SINCE, (2 * DAY,))
    sql.execute(SHARED_SINCE, (2 * DAY,))
    make_public(sql)
    async with running(database_url) as intake:
        for person in ("u1", "u2", "u1"):
            await send(intake, log_item("one", user={"id": person}, environment="production", release="v1"))
        await send(intake, log_item("two", user={"id": "u3"}), log_item("fine", level="info"), analytics_item())
        await send(intake, log_item("of a page", of=public_sender()))
    moment = one(sql, "select floor(extract(epoch from service_now()))::bigint")
    sql.execute(
        "insert into deploys (project_id, id, revision, version, environment, source, trusted, recorded_at) "
        "values (%s, 'dep_1', 1, 'v1', 'production', 'ci', true, %s)",
        (PROJECT, moment),
    )
    sql.execute(
        "insert into usage_deploys (project_id, id, account_id, day, scrubbed) values (%s, 'dep_1', 'usr_1', %s, 0)",
        (PROJECT, moment - moment % DAY),
    )


COUNTED_SINCE = """
update schema_migrations set applied_at = now() - make_interval(secs => %s) where name = '0160_new_cases'
"""
SHARED_SINCE = COUNTED_SINCE.replace("0160_new_cases", "0830_public_case_rates")
ONE = "(select case_id from log_events where message = 'one' limit 1)"


@pytest.mark.parametrize(
    ("tampering", "table", "what"),
    [
        (f"update case_stats set event_count = 100 where id = {ONE}", "case_stats", "different"),
        (f"update case_stats set event_count = 1 where id = {ONE}", "case_stats", "different"),
        (f"update case_stats set users_affected = 9 where id = {ONE}", "case_stats", "different"),
        (f"update case_stats set last_seen_at = last_seen_at + 1 where id = {ONE}", "case_stats", "different"),
        (f"update case_stats set first_seen_at = first_seen_at - 9 where id = {ONE}", "case_stats", "different"),
        (f"update case_stats set unmarked = not unmarked where id = {ONE}", "case_stats", "different"),
        (f"update case_stats set environments = '{{staging}}' where id = {ONE}", "case_stats", "different"),
        (f"update case_stats set releases = releases || '{{v9}}' where id = {ONE}", "case_stats", "different"),
        (f"update case_stats set sample = '{{}}' where id = {ONE}", "case_stats", "different"),
        (f"delete from case_stats where id = {ONE}", "case_stats", "missing"),
        (f"delete from cases where id = {ONE}", "case_stats", "extra"),
        ("update case_users set error_count = 7 where user_id = 'u1'", "case_users", "different"),
        ("update case_users set error_count = 1 where user_id = 'u1'", "case_users", "different"),
        ("delete from case_users where user_id = 'u3'", "case_users", "missing"),
        ("delete from log_events where message = 'two'", "case_stats", "different"),
        ("update case_rates set opened = 0", "case_rates", "different"),
        ("update case_rates set opened = 4", "case_rates", "different"),
        ("update case_rates set opened_public = 0", "case_rates", "different"),
        ("update case_rates set opened_public = 2", "case_rates", "different"),
        ("update usage_days set errors = errors - 1", "usage_days", "different"),
        ("update usage_days set errors = errors + 1", "usage_days", "different"),
        ("update usage_days set analytics = 0", "usage_days", "different"),
        ("update usage_days set suppressed = errors + 1", "usage_days", "different"),
        ("update usage_days set last_received_at = 0", "usage_days", "different"),
        ("delete from usage_days", "usage_days", "missing"),
        ("delete from analytics_events", "usage_days", "different"),
        ("delete from usage_deploys", "usage_deploys", "missing"),
        ("update usage_deploys set day = day - 86400", "usage_deploys", "different"),
        ("delete from deploys", "usage_deploys", "extra"),
    ],
)
async def test_a_counter_that_is_edited_is_found(counted: Sql, tampering: str, table: str, what: str):
    assert miscounted(counted) == {}
    assert counted.execute(tampering.encode()).rowcount > 0
    assert [found for found, _ in miscounted(counted)[table]] == [what]


async def test_what_retention_removes_is_no_difference(counted_url: str, counted: Sql):
    """Days later a part, then everything that was counted is gone: what is left is never more than was counted."""
    check_books(counted)
    counted.execute("select advance_service_clock(%s)", (3 * DAY,))
    async with running(counted_url) as intake:
        await send(intake, log_item("one", user={"id": "u1"}), analytics_item())
        await send(intake, log_item("three"), log_item("fine", level="info"))
    assert miscounted(counted) == {}
    async with await psycopg.AsyncConnection.connect(counted_url, autocommit=True) as connection:
        assert await purge(connection, Retention({PROJECT: 2}, {PROJECT: OWNER}, 400)) == 7
        assert miscounted(counted) == {}
        counted.execute("update case_stats set event_count = 1 where event_count = 4")
        assert [what for what, _ in miscounted(counted)["case_stats"]] == ["different"]
        counted.execute("update case_stats set event_count = 4 where event_count = 1 and sample is not null and "
                        f"id = {ONE}")  # fmt: skip
        assert miscounted(counted) == {}
        counted.execute("select advance_service_clock(%s)", (9 * DAY,))
        assert await purge(connection, Retention({PROJECT: 2}, {PROJECT: OWNER}, 400)) == 4
        assert miscounted(counted) == {}
    counted.execute("delete from usage_deploys")
    counted.execute("select advance_service_clock(%s)", (USAGE_DAYS * DAY,))
    assert miscounted(counted) == {}


async def test_a_release_from_before_there_were_counts_leaves_no_difference(counted: Sql):
    """It may run on beside this one for a day, and opens cases that nobody counts (0160_new_cases)."""
    counted.execute(COUNTED_SINCE, (DAY // 2,))
    counted.execute("update case_rates set opened = 1")
    assert miscounted(counted) == {}
    counted.execute("update case_rates set opened = 4")
    assert [what for what, _ in miscounted(counted)["case_rates"]] == ["different"]
    counted.execute(COUNTED_SINCE, (2 * DAY,))
    counted.execute("update case_rates set opened = 1")
    assert [what for what, _ in miscounted(counted)["case_rates"]] == ["different"]


# Statistics from when each of 300 projects had one case; then three projects have all of them.
GROWN = """
do $$ begin
    for round in 0..1 loop
        insert into projects select 'proj_' || p, 'proj_' || p, 1, 'n', 'usr_1', false, 'active', 'h' || p, 'x', 1, null
        from generate_series(1, case round when 0 then 300 else 3 end) p;
        insert into log_events (project_id, received_at, id, level, message, environment, user_id, tags, extra, case_id)
        select 'proj_' || 1 + i % case round when 0 then 300 else 3 end, 1 + i, 'evt_' || i, 'error', 'm', 'production',
            'u' || i % 100, '{}', '{}', 'case_' || i
        from generate_series(0, case round when 0 then 299 else 5999 end) i;
        insert into cases select project_id, case_id, 1, 1, 'open', 'fp' || case_id, 1, null, received_at
        from log_events;
        insert into case_users select project_id, case_id, user_id, null, 1, received_at, received_at from log_events;
        insert into case_stats (project_id, id, title, message, level, environment, environments, releases, unmarked,
            event_count, users_affected, first_seen_at, last_seen_at)
        select project_id, case_id, 't', 'm', 'error', 'production', '{production}', '{}', true, 1, 1, received_at,
            received_at from log_events;
        if round = 0 then
            analyze;
            delete from projects;
            delete from log_events;
            delete from cases;
            delete from case_users;
            delete from case_stats;
        end if;
    end loop;
end $$
"""


class Explaining:
    """A connection that also has each check explained as it runs."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql
        self.compared = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sql, name)

    def execute(self, query: Any, values: Any = None) -> Any:
        if isinstance(query, bytes) and query.decode() in COUNTERS.values():
            [[[plan]]] = self._sql.execute(b"explain (analyze, timing off, format json) " + query, values).fetchall()
            self.compared += sum(map(compared, walk(plan["Plan"])))
        return self._sql.execute(query, values)


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for inner in node.get("Plans", []):
        yield from walk(inner)


def compared(node: dict[str, Any]) -> int:
    """Rows that a scan or a join looked at in vain."""
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Join Filter", 0)
    return int(removed * node["Actual Loops"])


@pytest.mark.parametrize("table", COUNTERS)
def test_a_check_reads_each_side_once_whatever_the_statistics_say(sql: Sql, table: str) -> None:
    sql.execute("alter table case_stats set (autovacuum_enabled = off)")
    sql.execute("alter table case_users set (autovacuum_enabled = off)")
    sql.execute(GROWN)
    reports: list[tuple[int, int]] = []
    explaining = Explaining(sql)
    found = list(check_counters(explaining, table, lambda *report: reports.append(report)))
    assert found == [] or table == "usage_days"
    assert explaining.compared <= 10 * 6000
    rows = one(sql, f"select count(*) from {table}")
    assert reports == [(0, rows), (rows, rows)]


async def test_a_project_that_is_being_deleted_is_passed_over(counted: Sql):
    """Its rows go in steps."""
    counted.execute("delete from case_stats")
    assert miscounted(counted)
    counted.execute("update projects set status = 'fenced' where id = %s", (PROJECT,))
    assert miscounted(counted) == {}
