"""What looks leave behind: one record a case for as long as the answer is the same, and the time of each (G-137)."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from projections.runs import DECISIONS
from service.eventstore.declare import names
from service.eventstore.schema import functions
from service.eventstore.store import EventStore
from service.runs import looking
from service.runs.looking import SWEPT, DecisionSubject, LastDecision, look_for_work, passed_over
from service.runs.sweep import forget_decisions
from statemachines.contracts.policy import Thresholds
from statemachines.runs.materiality import CaseFacts, Check, decide_materiality
from statemachines.runs.steps.offer import CaseJudgement
from tests.support import long_after
from tests.support.enabled import AUTOMATION, connect, enable, one, open_cases
from tests.support.ingest import Sql
from tests.support.sweeping import make_sweep

HERE = "proj_00000100"
CASES = 40


def records(sql: Sql, project_id: str = HERE) -> list[tuple[Any, ...]]:
    query = "select case_id, code, case_revision, checks from automation_decisions where project_id = %s order by seq"
    return sql.execute(query.encode(), (project_id,)).fetchall()


async def sweep(store: EventStore, sql: Sql, times: int = 1) -> None:
    """Sweep by the minute."""
    for _ in range(times):
        await make_sweep(store).run()
        sql.execute("select advance_service_clock(60)")


def test_the_statement_that_records_writes_every_column():
    [note_looks] = [function for function in functions.discover() if function.name == "note_looks"]
    assert f"({', '.join(DECISIONS.columns)})" in " ".join(note_looks.sql.split())


async def test_many_looks_with_the_same_inputs_leave_one_record_a_case(store: EventStore, sql: Sql):
    """Then one more for each case whose verdict, check or revision changed; further errors alone leave none."""
    enable(sql, [HERE])
    open_cases(sql, HERE, CASES)
    await sweep(store, sql, 5)
    found = records(sql)
    assert {case_id for case_id, *_ in found} == {f"case_{n}" for n in range(1, CASES + 1)}
    assert len(found) == CASES
    assert {code for _, code, *_ in found} == {"materiality_not_met"}
    sql.execute("update case_stats set last_seen_at = 1 where id in ('case_1', 'case_2', 'case_3')")
    sql.execute("update cases set case_revision = 2 where id = 'case_4'")
    sql.execute("update case_stats set last_seen_at = last_seen_at + 1, users_affected = 9 where id = 'case_5'")
    await sweep(store, sql, 3)
    assert sorted(case_id for case_id, *_ in records(sql)[CASES:]) == ["case_1", "case_2", "case_3", "case_4"]


CONSIDERED = 500


@pytest.mark.parametrize("looks", long_after(1, [15, 50]))  # of 50, a quarter of 100,000 cases a day
async def test_a_day_of_telemetry_leaves_as_many_records_as_verdicts_changed(store: EventStore, sql: Sql, looks: int):
    """Errors come in at random between the looks of a day: what is counted leaves nothing, a check that turns does."""
    chance = random.Random(9)
    enable(sql, [HERE])
    open_cases(sql, HERE, CONSIDERED)
    # Of no customer's error, so that none ever gets a receipt; and some were last seen almost a day ago.
    sql.execute("update case_stats set unmarked = false, last_seen_at = last_seen_at - abs(hashtext(id)) % 86400")
    told: dict[str, tuple[Any, ...]] = {}
    changed = 0
    for _ in range(looks):
        seen = [f"case_{chance.randrange(CONSIDERED) + 1}" for _ in range(20)]
        sql.execute(
            "update case_stats set event_count = event_count + 1, users_affected = users_affected + 1, "
            "last_seen_at = floor(extract(epoch from service_now())) where id = any(%s)",
            (seen,),
        )
        sql.execute("update cases set case_revision = case_revision + 1 where id = %s", (seen[0],))
        await make_sweep(store).run()
        # The oracle: what a verdict depends on, at the second of the look.
        rows = sql.execute(
            "select id, case_revision, event_count >= 2, last_seen_at <= at and at - last_seen_at <= 86400 from cases "
            "join case_stats using (project_id, id), (select max(hour + second) at from automation_looks, "
            "unnest(seconds) second) looks"
        ).fetchall()
        changed += sum(told.get(name) != tuple(rest) for name, *rest in rows)
        told = {name: tuple(rest) for name, *rest in rows}
        sql.execute("select advance_service_clock(%s)", (86400 // looks,))
    assert one(sql, "select sum(cardinality(seconds)) from automation_looks") == looks
    assert len(told) == CONSIDERED
    assert CONSIDERED < changed < 2.5 * CONSIDERED
    assert len(records(sql)) == changed


async def test_a_record_can_be_decided_again_and_holds_no_text_of_telemetry(store: EventStore, sql: Sql):
    enable(sql, [HERE])
    open_cases(sql, HERE, 1)
    await sweep(store, sql)
    row: Any = one(sql, "select to_jsonb(d) from automation_decisions d")
    facts, thresholds = CaseFacts(**row["inputs"]), Thresholds(**row["thresholds"])
    again = decide_materiality(facts, thresholds, row["decided_at"])
    assert [Check(**check) for check in row["checks"]] == again.checks
    assert (row["look"], row["asked_by"], row["receipt_id"]) == ("sweep", "system", None)
    assert "IGNORE" not in str(row)


async def test_the_time_of_each_look_is_kept(store: EventStore, sql: Sql):
    """A row an hour holds the seconds of its looks; two in one second are one time."""
    enable(sql, [HERE])
    now = one(sql, "select floor(extract(epoch from service_now()))::bigint")
    assert isinstance(now, int)
    sql.execute("select advance_service_clock(%s)", (3600 - now % 3600 + 1,))
    await sweep(store, sql, 3)
    hour = now // 3600 * 3600 + 3600
    look = await look_for_work(store, HERE, AUTOMATION)
    taken = look.taken(HERE, AUTOMATION, SWEPT, look.judged(AUTOMATION))._replace(at=hour + 2 * 3600 + 5)
    for _ in range(2):
        await looking.record(store.facts, [taken, taken])
    rows = sql.execute("select hour, seconds from automation_looks order by hour").fetchall()
    assert rows[1] == (hour + 2 * 3600, [5])
    [(first, seconds)] = rows[:1]
    assert (first, len(seconds)) == (hour, 3)
    assert all(60 <= later - earlier <= 65 for earlier, later in pairwise(seconds))


async def test_two_who_see_the_same_write_one_record(store: EventStore, sql: Sql):
    enable(sql, [HERE])
    open_cases(sql, HERE, CASES)
    look = await look_for_work(store, HERE, AUTOMATION)
    taken = look.taken(HERE, AUTOMATION, SWEPT, look.judged(AUTOMATION))
    written = await asyncio.gather(*(looking.record(store.facts, [taken]) for _ in range(4)))
    assert (sum(written), len(records(sql))) == (CASES, CASES)


async def test_records_that_cannot_be_written_stop_nobody(store: EventStore, sql: Sql, database_url: str):
    """They are dropped and said to be; the next sweep writes what they would have been."""
    enable(sql, [HERE])
    open_cases(sql, HERE, CASES)
    with connect(database_url) as other, other.transaction():
        other.execute("lock table automation_looks in exclusive mode")
        with capture_logs() as logs:
            done = await make_sweep(store).run()
    dropped = [entry for entry in logs if entry["event"] == "decisions_not_recorded"]
    assert [(entry["looks"], entry["decisions"]) for entry in dropped] == [(1, CASES)]
    assert (done["decisions"], records(sql)) == (0, [])
    assert (await make_sweep(store).run())["decisions"] == CASES


async def test_a_fence_keeps_records_out(store: EventStore, sql: Sql, database_url: str):
    """While a project's gate is held for a fence, and after it, nothing is written for it; others are not held up."""
    elsewhere = "proj_00000101"
    enable(sql, [HERE, elsewhere])
    open_cases(sql, HERE, 2)
    open_cases(sql, elsewhere, 2)
    with connect(database_url) as fence, fence.transaction():
        fence.execute("select pg_advisory_xact_lock(%s)", (names.lock_number(names.gate(HERE)),))
        await make_sweep(store).run()
        assert (records(sql), len(records(sql, elsewhere))) == ([], 2)
        fence.execute("update projects set status = 'fenced' where project_id = %s", (HERE,))
    look = await look_for_work(store, HERE, AUTOMATION)
    taken = look.taken(HERE, AUTOMATION, SWEPT, look.judged(AUTOMATION))
    assert await looking.record(store.facts, [taken]) == 0
    assert one(sql, "select count(*) from automation_looks where project_id = %s", HERE) == 0


async def test_records_go_when_the_plan_keeps_them_no_longer(store: EventStore, sql: Sql):
    """The last one of a case too: the next look that considers the case makes it anew."""
    enable(sql, [HERE])
    open_cases(sql, HERE, 3)
    await sweep(store, sql)
    sql.execute("select advance_service_clock(%s)", (5 * 86400,))
    sql.execute("update case_stats set last_seen_at = floor(extract(epoch from service_now()))")
    sql.execute("update cases set case_revision = 2 where id = 'case_1'")
    await sweep(store, sql)
    sql.execute("select advance_service_clock(%s)", (26 * 86400,))
    async with store.facts.connection() as connection:
        assert await forget_decisions(connection, {HERE: 30}) == 3
        assert await forget_decisions(connection, {HERE: 30}) == 0
    assert [case_id for case_id, *_ in records(sql)] == ["case_1"]
    assert one(sql, "select count(*) from automation_looks") == 1
    assert one(sql, "select count(*) from sweep_turns") == 0
    await sweep(store, sql)
    assert {case_id for case_id, *_ in records(sql)} == {"case_1", "case_2", "case_3"}


FACTS = CaseFacts(
    case_id="case_1",
    revision=1,
    status="open",
    trust="customer_provider",
    event_count=1,
    first_seen_at=1,
    last_seen_at=1,
)
_codes = st.sampled_from(["materiality_not_met", "receipt_open", "cooldown"])
_looks = st.lists(st.tuples(_codes, st.integers(1, 2), st.booleans(), st.integers(1, 9)), max_size=30)


@given(_looks)
def test_there_are_as_many_records_as_answers_that_changed(looks: list[tuple[Any, int, bool, int]]):
    """Whatever is counted meanwhile, and each record has an id of its own."""
    subject, last, ids, changes, before = DecisionSubject("p", "heal", "0" * 64), None, [], 0, None
    for code, revision, passed, count in looks:
        decision = decide_materiality(
            CaseFacts(**{**_members(FACTS), "revision": revision, "event_count": count}), Thresholds(), 100
        )
        judgement = CaseJudgement(decision, [Check("cooldown_over", passed, str(count), ">=60")], code)
        row = passed_over(subject, SWEPT, judgement, last)
        changes += (code, revision, passed) != before
        before = (code, revision, passed)
        if row is not None:
            ids.append(row.id)
            last = LastDecision(row.id, row.outcome)
    assert len(ids) == len(set(ids)) == changes


def _members(facts: CaseFacts) -> dict[str, Any]:
    return {name: getattr(facts, name) for name in facts.__struct_fields__}
