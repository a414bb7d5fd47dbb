"""Rivals for a report over HTTP: one source and one record, and after a pause is acknowledged neither (P4, P10)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import httpx2
import psycopg

from service.eventstore.declare.names import gate, lock_number
from tests.support.automation_world import EVENTS, closed
from tests.support.schedules import AUTOMATION
from tests.support.weekly import Weekly, gap, report_on

MANY = 8
PRIOR, CURRENT = [10, 6, 3], [19, 8, 3]


def events_of(weekly: Weekly, topic: str) -> int:
    [[found]] = weekly.clock.sql(
        "select count(*) from events where project_id = %s and topic = %s", weekly.at.world.project_id, topic
    )
    return int(found)


def each(weekly: Weekly, path: str, bodies: list[dict[str, Any]]) -> list[httpx2.Response]:
    """Send them all at once, each on a connection of its own."""

    def send(numbered: tuple[int, dict[str, Any]]) -> httpx2.Response:
        number, body = numbered
        with weekly.at.server.client() as client:
            return weekly.at.world.call("POST", path, body, who=AUTOMATION, key=f"{path}-{number}", client=client)

    with ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(send, enumerate(bodies)))


def test_two_who_want_the_source_at_once_get_one(weekly: Weekly) -> None:
    """While people still come in between their reads: all get the numbers of the one that was stored."""
    weekly.begin(PRIOR, CURRENT, settled=False)
    token = weekly.token()
    with ThreadPoolExecutor(1) as pool:
        arriving = pool.submit(lambda: [weekly.visit(f"p{n}", weekly.period_end - 60, [1]) for n in range(20)])
        answers = each(weekly, f"{weekly.path}/report-source", [token] * MANY)
        arriving.result()
    assert [answer.status_code for answer in answers] == [200] * MANY, [answer.text for answer in answers]
    assert len({(answer.json()["source_hash"], answer.json()["materialized_at"]) for answer in answers}) == 1
    assert events_of(weekly, "report.source_intended.v1") == events_of(weekly, "report.source_materialized.v1") == 1
    assert weekly.run()["state_revision"] == 2


def test_who_came_in_the_period_is_counted_though_the_commit_is_late(weekly: Weekly) -> None:
    """A flush under way holds the project's gate: the read waits for it, and says so when that takes too long."""
    project_id = weekly.at.world.project_id
    with psycopg.connect(weekly.at.world.url) as flush, ThreadPoolExecutor(1) as pool:
        flush.execute("select pg_advisory_xact_lock_shared(%s::bigint)", (lock_number(gate(project_id)),))
        time.sleep(1.1)  # so that it began in the period, to the second
        weekly.begin(PRIOR, CURRENT, settled=False)
        token = weekly.token()
        flush.execute(
            "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties) "
            "values (%s, %s, gen_random_uuid(), %s, 'late', '{}')",
            (project_id, weekly.period_end - 1, EVENTS[0]),
        )
        refused = closed(weekly.source(token), 503, "service_unavailable")["details"]
        assert refused["readiness_gap"]["code"] == "period_not_settled"
        asked = pool.submit(weekly.source, token)
        time.sleep(0.5)
        flush.commit()
        source = weekly.at.must(asked.result(), 200)
    assert source["rows"][0]["current_users"] == 21


def test_two_who_report_at_once_leave_one_report(weekly: Weekly) -> None:
    """The winner is answered 201, its twins 200, every other one is told that there is a report."""
    weekly.begin(PRIOR, CURRENT)
    source = weekly.at.must(weekly.source(), 200)
    token = weekly.token()
    reports = [report_on(source), report_on(source, gap())] * (MANY // 2)
    answers = each(weekly, f"{weekly.path}/actions/record-report", [token | {"report": report} for report in reports])
    assert sorted(answer.status_code for answer in answers) == [200] * (MANY // 2 - 1) + [201] + [409] * (MANY // 2)
    [won] = [answer.json()["report"] for answer in answers if answer.status_code == 201]
    assert weekly.run()["output"] == won
    assert all(answer.json()["report"] == won for answer in answers if answer.is_success)
    assert {a.json()["error"]["code"] for a in answers if not a.is_success} == {"report_already_recorded"}
    assert events_of(weekly, "report.recorded.v1") == events_of(weekly, "run.reported.v1") == 1


def test_after_a_pause_is_acknowledged_no_report_is_recorded(weekly: Weekly) -> None:
    """Again and again: a report or none, and never one after the pause in the log."""
    recorded = 0
    for _ in range(4):
        weekly.begin(PRIOR, CURRENT)
        source = weekly.at.must(weekly.source(), 200)
        body = weekly.token() | {"report": report_on(source)}
        with ThreadPoolExecutor(1) as pool:
            racing = pool.submit(each, weekly, f"{weekly.path}/actions/record-report", [body] * MANY)
            weekly.at.pause()
            late = weekly.record(report_on(source))
            answers = [*racing.result(), late]
        codes = {answer.json()["error"]["code"] for answer in answers if not answer.is_success}
        assert codes <= {"automation_paused"}
        assert len({answer.is_success for answer in answers[:-1]} | {late.is_success}) <= 2
        recorded += any(answer.is_success for answer in answers)
        assert late.is_success == any(answer.is_success for answer in answers), "what is recorded is still shown"
        assert (weekly.run()["status"] == "succeeded") == late.is_success
        weekly.at.enable()
    log = [
        topic
        for (topic,) in weekly.clock.sql(
            "select e.topic from events e join log_index i on i.seq = e.seq where e.project_id = %s and e.topic in "
            "('automation_contract.enabled.v1', 'automation_contract.paused.v1', 'run.reported.v1') "
            "order by i.position",
            weekly.at.world.project_id,
        )
    ]
    assert log.count("run.reported.v1") <= recorded
    for before, after in pairwise(log):
        assert (before, after) != ("automation_contract.paused.v1", "run.reported.v1"), log
