"""Commit, then refuse: what the unit did stands, its caller is refused after COMMIT, and a repeat decides anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.eventstore.declare.commands import Answer, Command, KeyReused, Refused, Unit
from service.eventstore.declare.faults import CommitNotConfirmed
from service.eventstore.read import statements
from service.eventstore.store import EventStore
from tests.support import toy
from tests.support.proxy import Fault, PostgresProxy, in_order
from tests.support.rounds import Bench, Spy, entry_of, history
from tests.support.toy import FACTS, FactRow, ToyBumped, ToyConflict, ToyOpened, command, simple_bump, toy_stream

Sql = psycopg.Connection[Any]
STREAM = toy_stream()


def refuse_twice(key: str | None = None, **more: Any) -> Command:
    """Count the attempts in the log and in a fact row; the third one is let in."""

    def decide(unit: Unit) -> Answer | Refused:
        attempt = unit.revision(STREAM) + 1
        unit.append(STREAM, [ToyOpened("x") if attempt == 1 else ToyBumped(1)])
        unit.put(STREAM, FACTS, FactRow(project_id="proj_a", id=STREAM.id, count=attempt))
        if attempt < 3:
            return Refused(ToyConflict(f"Attempt {attempt}."))
        return Answer(200, {"attempt": attempt})

    return command(decide, STREAM, key=key, **more)


def told(answers: list[Any]) -> list[Any]:
    return [str(answer) if isinstance(answer, ToyConflict) else answer for answer in answers]


def records(sql: Sql) -> list[tuple[Any, ...]]:
    return sql.execute("select status, body from idempotency order by key").fetchall()


def test_what_was_done_stands_and_a_repeat_decides_anew(bench: Bench, sql: Sql):
    """Events, rows and heads are committed; no answer is stored before the one that is an answer."""
    assert told(bench.answers(refuse_twice("k"))) == ["Attempt 1."]
    assert sql.execute("select count from toy_facts").fetchall() == [(1,)]
    assert sql.execute("select revision from toys").fetchall() == [(1,)]
    assert records(sql) == [(None, None)]
    assert told(bench.answers(refuse_twice("k"))) == ["Attempt 2."]
    assert told(bench.answers(refuse_twice("k"))) == [{"attempt": 3}]
    assert told(bench.answers(refuse_twice("k"))) == [{"attempt": 3}]
    assert history(sql) == [("toy_1", 1, "toy.opened"), ("toy_1", 2, "toy.bumped"), ("toy_1", 3, "toy.bumped")]
    assert records(sql) == [(200, b'{"attempt":3}')]


def test_its_key_is_bound_to_its_request(bench: Bench):
    bench.run(refuse_twice("k"))
    [other] = bench.answers(refuse_twice("k", request_hash="another"))
    assert isinstance(other, KeyReused)


def test_twins_in_one_batch_are_decided_in_turn(bench: Bench, sql: Sql):
    """Each sees what the refused one before it left, and their one record is written once."""
    answers = bench.answers(refuse_twice("k"), simple_bump(2), refuse_twice("k"), refuse_twice("k"))
    assert told([answers[0], *answers[2:]]) == ["Attempt 1.", "Attempt 2.", {"attempt": 3}]
    assert len(history(sql, of="toy_1")) == 3
    assert (200, b'{"attempt":3}') in records(sql)


def test_ones_own_refusal_is_found_again(bench: Bench, sql: Sql):
    """The same submission, run again after it had committed, is told what it was to be told; nothing is repeated."""
    entry = entry_of(refuse_twice("k"))
    assert told(bench.answers(entry)) == ["Attempt 1."]
    assert told(bench.answers(entry)) == ["Attempt 1."]
    assert len(history(sql)) == 1


def test_nobody_is_refused_before_the_commit(bench: Bench, sql: Sql):
    """A commit that came to nothing tells nobody anything, and the next attempt decides from the beginning."""
    entry = entry_of(refuse_twice("k"))
    spy = Spy(bench.connection, instead={statements.COMMIT: "rollback"})
    with pytest.raises(CommitNotConfirmed):
        bench.round.run(spy, [entry], wait_ms=200)
    bench.cache.clear()
    assert history(sql) == []
    assert told(bench.answers(entry)) == ["Attempt 1."]


@pytest.mark.parametrize("fault", [Fault.EAT, Fault.ZOMBIE])
@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("lane", [False, True])
async def test_a_lost_acknowledgement_costs_neither_the_refusal_nor_the_commit(
    toys_url: str, tmp_path: Path, sql: Sql, fault: Fault, key: str | None, *, lane: bool
):
    """In the loop and in the fence lane: one effect, and the caller hears of the attempt that had it."""
    proxy = PostgresProxy(toys_url, tmp_path / "proxy", in_order(fault))
    store = EventStore(proxy.url, toy.REGISTRY)
    store.start_writing()
    wish = refuse_twice(key, **({"gates": (), "exclusive": ("proj_a",)} if lane else {}))
    try:
        with pytest.raises(ToyConflict, match=r"Attempt 1\."):
            await store.execute(wish)
        assert proxy.fired[fault.value] == 1
        assert len(history(sql)) == 1
        with pytest.raises(ToyConflict, match=r"Attempt 2\."):
            await store.execute(wish)
    finally:
        await store.stop()
        proxy.close()
