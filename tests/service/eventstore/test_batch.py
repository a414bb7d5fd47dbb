"""Units inside a batch: each sees what the accepted ones before it did, a refused one leaves no trace."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from service.eventstore.declare.commands import Answer, KeyReused, Lookup, Outcome, StoredAnswer, Unit
from statemachines.kernel.machine import PreconditionFailed, Recorded, Stream, replay
from tests.support import toy
from tests.support.rounds import Bench, body, count, entry_of, history
from tests.support.toy import (
    FACTS,
    LIVE_TOYS,
    TOY,
    TOYS,
    Bump,
    FactRow,
    Toy,
    ToyBumped,
    ToyClosed,
    ToyConflict,
    ToyOpened,
    bump,
    command,
    simple_bump,
    toy_stream,
)

Sql = psycopg.Connection[Any]


def test_one_stream_twice_in_a_batch(bench: Bench, sql: Sql):
    """The second unit starts at the revision the first one left, and the head moves once, to the end."""
    first, second = bench.answers(simple_bump(op="a"), simple_bump(op="b", by=5))
    assert (first["first"], first["revision"], first["total"]) == (1, 2, 1)
    assert (second["first"], second["revision"], second["total"]) == (3, 3, 6)
    assert history(sql) == [("toy_1", 1, "toy.opened"), ("toy_1", 2, "toy.bumped"), ("toy_1", 3, "toy.bumped")]
    assert sql.execute("select revision from stream_heads").fetchall() == [(3,)]
    assert sql.execute("select revision, total, ops from toys").fetchall() == [(3, 6, ["a", "b"])]
    assert sql.execute("select revision, total from live_toys").fetchall() == [(3, 6)]


def test_the_fence_holds_inside_a_batch(bench: Bench, sql: Sql):
    """Of two commands that name the same revision in one batch, the second is refused."""
    bench.run(simple_bump())
    won, lost = bench.answers(simple_bump(op="a", expected=2), simple_bump(op="b", expected=2))
    assert won["revision"] == 3
    assert isinstance(lost, PreconditionFailed)
    assert lost.details["current_etag"] == '"3"'
    assert history(sql)[-1] == ("toy_1", 3, "toy.bumped")


@pytest.mark.parametrize("expected", [0, 1, 3, 2**53])
def test_stale_and_future_revisions_are_refused_alike(bench: Bench, sql: Sql, expected: int):
    bench.run(simple_bump())
    [refused] = bench.answers(simple_bump(expected=expected))
    assert isinstance(refused, PreconditionFailed)
    assert len(history(sql)) == 2


def test_twins_in_a_batch_get_their_twins_answer(bench: Bench, sql: Sql):
    """Of 32 commands with one key, one runs; the others are given its bytes, marked as replays."""
    result = bench.run(*(simple_bump(key="k") for _ in range(32)))
    outcomes = [answer for _, answer in result.done]
    assert {outcome.body for outcome in outcomes} == {b'{"first":1,"revision":2,"total":1,"op":""}'}
    assert [outcome.replayed for outcome in outcomes] == [False, *[True] * 31]
    assert len(history(sql)) == 2
    assert count(sql, "idempotency") == 1


def test_a_key_with_another_request_is_refused(bench: Bench, sql: Sql):
    """In the batch of its twin, and later; and nothing of it is stored."""
    ok, other = bench.answers(simple_bump(key="k"), simple_bump(key="k", by=2))
    assert ok["total"] == 1
    assert isinstance(other, KeyReused)
    [later] = bench.answers(simple_bump(key="k", by=2))
    assert isinstance(later, KeyReused)
    assert len(history(sql)) == 2


def test_keys_of_other_principals_and_operations_are_other_keys(bench: Bench, sql: Sql):
    results = bench.answers(
        simple_bump(1, key="k"), simple_bump(1, key="k", actor="key:k2"), simple_bump(2, key="k", by=7)
    )
    assert [result["total"] for result in results] == [1, 2, 7]
    assert count(sql, "idempotency") == 3


def test_a_refused_unit_leaves_no_trace(bench: Bench, sql: Sql):
    """Not in streams, rows, facts or records, even when it refuses after it has appended."""
    stream = toy_stream()

    def change_and_refuse(unit: Unit) -> Answer:
        unit.append(stream, [ToyOpened("x"), ToyBumped(100)])
        unit.put(stream, FACTS, FactRow(project_id="proj_a", id="toy_1", count=1))
        raise ToyConflict("Refused at the very end.")

    before, refused, after = bench.answers(
        simple_bump(op="a"), command(change_and_refuse, stream, key="refused"), simple_bump(op="b")
    )
    assert isinstance(refused, ToyConflict)
    assert (before["total"], after["total"], after["revision"]) == (1, 2, 3)
    assert [topic for _, _, topic in history(sql)] == ["toy.opened", "toy.bumped", "toy.bumped"]
    assert count(sql, "toy_facts") == 0
    assert sql.execute("select key from idempotency where client_key").fetchall() == []


def test_a_bug_fails_alone(bench: Bench, sql: Sql):
    def broken(_: Unit) -> Answer:
        raise ZeroDivisionError

    one, bug, two = bench.answers(simple_bump(1), command(broken, toy_stream(2)), simple_bump(3))
    assert one["total"] == two["total"] == 1
    assert isinstance(bug, ZeroDivisionError)
    assert {stream for stream, _, _ in history(sql)} == {"toy_1", "toy_3"}


def test_an_event_that_the_table_does_not_allow_is_a_conflict(bench: Bench, sql: Sql):
    """The table is law before the append, and the refusal says what is allowed next."""
    stream = toy_stream()

    def close(unit: Unit) -> Answer:
        unit.append(stream, [ToyClosed()])
        return Answer(200, None)

    [refused] = bench.answers(command(close, stream))
    assert isinstance(refused, ToyConflict)
    assert refused.details == {"status": "absent", "allowed_next": ["toy.opened.v1"]}
    assert history(sql) == []


def test_a_unit_sees_rows_and_facts_of_the_accepted_ones_before_it(bench: Bench, sql: Sql):
    """Read models and facts as this batch has made them, through a lookup and through the declared stream."""
    stream, seen = toy_stream(), []

    def count_up(unit: Unit) -> Answer:
        fact = unit.row(FACTS, "proj_a", "toy_1")
        number = fact.count + 1 if fact else 1
        unit.put(stream, FACTS, FactRow(project_id="proj_a", id="toy_1", count=number))
        assert unit.row(FACTS, "proj_a", "toy_1").count == number
        return Answer(200, {"count": number})

    def look(unit: Unit) -> Answer:
        seen.append((unit.row(TOYS, "proj_a", "toy_1").total, unit.row(FACTS, "proj_a", "toy_1").count))
        return Answer(200, None)

    fact = Lookup(FACTS, "proj_a", "toy_1")
    lookups = (fact, Lookup(TOYS, "proj_a", "toy_1"))
    commands = [simple_bump(by=4), command(count_up, stream, lookups=(fact,))]
    bench.run(*commands, command(count_up, stream, lookups=(fact,)), command(look, toy_stream(2), lookups=lookups))
    assert seen == [(4, 2)]
    assert sql.execute("select count from toy_facts").fetchall() == [(2,)]


def test_a_row_that_a_fold_removes_is_gone(bench: Bench, sql: Sql):
    """And the next unit of the batch no longer sees it."""
    stream = toy_stream()

    def close(unit: Unit) -> Answer:
        unit.append(stream, [ToyClosed()])
        assert unit.row(LIVE_TOYS, "proj_a", "toy_1") is None
        return Answer(200, None)

    def look(unit: Unit) -> Answer:
        return Answer(200, {"live": unit.row(LIVE_TOYS, "proj_a", "toy_1") is not None})

    bench.run(simple_bump())
    assert count(sql, "live_toys") == 1
    _, looked = bench.answers(command(close, stream), command(look, stream))
    assert looked == {"live": False}
    assert count(sql, "live_toys") == 0
    assert sql.execute("select closed, revision from toys").fetchall() == [(True, 3)]
    [again] = bench.answers(command(look, stream))
    assert again == {"live": False}


def test_what_was_not_declared_cannot_be_touched(bench: Bench, sql: Sql):
    """A bug, not a refusal: reading, writing and looking up beyond the declaration are assertions."""
    mine, other, read = toy_stream(1), toy_stream(2), toy_stream(3)
    bench.run(simple_bump(1), simple_bump(2), simple_bump(3))
    trespasses = [
        lambda unit: unit.state(other),
        lambda unit: unit.revision(other),
        lambda unit: unit.append(other, [ToyBumped(1)]),
        lambda unit: unit.append(read, [ToyBumped(1)]),
        lambda unit: unit.put(read, FACTS, FactRow(project_id="proj_a", id="toy_3", count=1)),
        lambda unit: unit.row(TOYS, "proj_a", "toy_2"),
        lambda unit: unit.row(FACTS, "proj_a", "toy_1"),
    ]
    commands = [command(trespass, mine, reads=(read,)) for trespass in trespasses]
    answers = bench.answers(*commands)
    assert all(isinstance(answer, AssertionError) for answer in answers)
    assert all("declared" in str(answer) for answer in answers)
    assert len(history(sql)) == 6


def test_streams_that_are_only_read_are_loaded_and_fenced(bench: Bench, sql: Sql):
    """Several commands may share a read, and what another one in the batch wrote there is seen."""
    read = toy_stream(9)
    bench.run(simple_bump(9, by=5))

    def copy_to(number: int) -> Any:
        target = toy_stream(number)

        def decide(unit: Unit) -> Answer:
            unit.append(target, [ToyOpened("copy"), ToyBumped(unit.state(read).total)])
            return Answer(200, {"total": unit.state(target).total, "at": unit.revision(read)})

        return command(decide, target, reads=(read,))

    answers = bench.answers(copy_to(1), simple_bump(9, by=2), copy_to(2))
    assert answers[0] == {"total": 5, "at": 2}
    assert answers[2] == {"total": 7, "at": 3}


def test_a_repeated_wish_records_nothing_but_its_answer(bench: Bench, sql: Sql):
    """A unit without events is accepted: its key is kept, no event, no row, no head."""
    stream = toy_stream()

    def nothing(unit: Unit) -> Answer:
        unit.append(stream, [])
        return Answer(200, {"already": True}, headers={"x-a": "b"})

    [answer] = bench.answers(command(nothing, stream, key="k"))
    assert answer == {"already": True}
    assert history(sql) == []
    assert count(sql, "stream_heads") == 0
    result = bench.run(command(nothing, stream, key="k"))
    [(_, outcome)] = result.done
    assert outcome == Outcome(200, b'{"already":true}', {"x-a": "b"}, replayed=True)


def secret_once(stream: Stream, **more: Any) -> Any:
    def decide(unit: Unit) -> Answer:
        unit.append(stream, [ToyOpened("x")])
        return Answer(201, {"secret": "s3cret"}, stored={"secret": None})

    return command(decide, stream, **more)


def test_a_secret_is_shown_once_and_never_stored(bench: Bench, sql: Sql):
    """In the same batch, too, a twin gets the stored form."""
    shown, twin = bench.answers(secret_once(toy_stream(), key="k"), secret_once(toy_stream(), key="k"))
    assert shown == {"secret": "s3cret"}
    assert twin == {"secret": None}
    [[stored]] = sql.execute("select body from idempotency").fetchall()
    assert stored == b'{"secret":null}'


def test_a_replay_may_be_answered_in_another_way(bench: Bench):
    """The handler's own replay is given what was stored, and its refusal is the answer."""

    def refuse(_: Unit, stored: StoredAnswer) -> Answer:
        assert (stored.status, stored.body) == (201, b'{"secret":null}')
        raise ToyConflict("It exists already.")

    first, again = bench.answers(
        secret_once(toy_stream(), key="k"), secret_once(toy_stream(), key="k", on_replay=refuse)
    )
    assert first == {"secret": "s3cret"}
    assert isinstance(again, ToyConflict)


def pending_then_done(stream: Stream, seen: list[int]) -> Any:
    def decide(unit: Unit) -> Answer:
        seen.append(unit.revision(stream))
        if unit.revision(stream) == 0:
            unit.append(stream, [ToyOpened("x")])
        done = unit.state(stream).total > 0
        return Answer(200 if done else 202, {"done": done}, pending=not done)

    return command(decide, stream, key="p")


def test_a_pending_answer_is_decided_anew_until_it_is_final(bench: Bench, sql: Sql):
    """Key and request are bound from the first answer on; the final one is stored."""
    stream, seen = toy_stream(), []
    assert bench.answers(pending_then_done(stream, seen)) == [{"done": False}]
    assert bench.answers(pending_then_done(stream, seen)) == [{"done": False}]
    [other] = bench.answers(command(lambda unit: Answer(200, None), stream, key="p", request_hash="g"))
    assert isinstance(other, KeyReused)
    bench.run(simple_bump())
    assert bench.answers(pending_then_done(stream, seen)) == [{"done": True}]
    assert bench.answers(pending_then_done(stream, seen)) == [{"done": True}]
    assert seen == [0, 1, 2]
    assert sql.execute("select status from idempotency where client_key").fetchall() == [(200,)]


def test_pending_twins_fit_into_one_batch(bench: Bench, sql: Sql):
    """Both are decided, in turn, and their one record is written once."""
    stream, seen = toy_stream(), []
    answers = bench.answers(pending_then_done(stream, seen), simple_bump(), pending_then_done(stream, seen))
    assert [answers[0], answers[2]] == [{"done": False}, {"done": True}]
    assert sql.execute("select status from idempotency where client_key").fetchall() == [(200,)]


def test_who_asks_is_checked_before_the_key(bench: Bench):
    """A principal that lost its right gets no stored answer either (G-007)."""

    def revoked(_: Unit) -> None:
        raise ToyConflict("Revoked.")

    bench.run(simple_bump(key="k"))
    replay_by_revoked = simple_bump(key="k")
    replay_by_revoked.authorize = revoked
    [answer] = bench.answers(replay_by_revoked)
    assert isinstance(answer, ToyConflict)


def test_ones_own_commit_is_recognised_even_when_the_right_is_gone(bench: Bench, sql: Sql):
    """A command that takes away its own right, re-run after a lost acknowledgement, is told what it did.

    The same submission runs again (same command id), finds its record, and gets its first answer; the check of its
    principal, which it has itself made fail, must not turn a done command into a refused one.
    """
    stream = toy_stream()
    rights = ["granted"]

    def authorize(unit: Unit) -> None:
        if unit.state(stream).status is toy.Status.CLOSED:
            raise ToyConflict("Revoked.")

    def revoke_oneself(unit: Unit) -> Answer:
        unit.append(stream, [ToyClosed()])
        return Answer(200, {"revoked": True, "rights": rights})

    bench.run(simple_bump())
    entry = entry_of(command(revoke_oneself, stream, authorize=authorize))
    assert bench.answers(entry) == [{"revoked": True, "rights": ["granted"]}]
    assert bench.answers(entry) == [{"revoked": True, "rights": ["granted"]}]
    assert [topic for _, _, topic in history(sql)].count("toy.closed") == 1


def test_a_secret_survives_a_lost_acknowledgement(bench: Bench, sql: Sql):
    """The record holds no secret, the re-run submission does: its caller still gets it, once."""
    entry = entry_of(secret_once(toy_stream(), key="k"))
    assert bench.answers(entry) == [{"secret": "s3cret"}]
    assert bench.answers(entry) == [{"secret": "s3cret"}]
    assert bench.answers(secret_once(toy_stream(), key="k")) == [{"secret": None}]
    assert len(history(sql)) == 1


def test_events_carry_the_whole_envelope(bench: Bench, sql: Sql):
    """One clock for a batch, one command id for a unit, the actor's kind and id apart."""
    bench.run(simple_bump(1, op="a", actor="runner:auto_1"), simple_bump(2, op="b", key="k"))
    rows = sql.execute(
        "select stream_id, revision, kind, topic, actor_kind, actor_id, request_id, correlation_id, causation_id, "
        "payload, recorded_at, command_id, event_id from events order by seq"
    ).fetchall()
    assert [row[:10] for row in rows] == [
        ("toy_1", 1, "toy", "toy.opened.v1", "runner", "auto_1", "req_1", "req_1", "", {"label": "new"}),
        (
            *("toy_1", 2, "toy", "toy.bumped.v1", "runner", "auto_1", "req_1", "req_1", ""),
            {"by": 1, "op": "a", "note": None},
        ),
        ("toy_2", 1, "toy", "toy.opened.v1", "key", "k1", "req_1", "req_1", "", {"label": "new"}),
        (*("toy_2", 2, "toy", "toy.bumped.v1", "key", "k1", "req_1", "req_1", ""), {"by": 1, "op": "b", "note": None}),
    ]
    assert len({row[10] for row in rows}) == 1
    assert [row[11] == rows[0][11] for row in rows] == [True, True, False, False]
    assert len({row[12] for row in rows}) == 4
    assert sql.execute("select command_id from idempotency where key = 'k'").fetchone() == (rows[2][11],)


def test_a_state_is_the_replay_of_its_stream(bench: Bench, sql: Sql):
    """What the cache holds after commits is what folding the stored events gives."""
    for n in range(5):
        bench.run(simple_bump(op=str(n), by=n))
    events = [
        toy.ToyOpened("new") if topic == "toy.opened.v1" else ToyBumped(**payload)
        for topic, payload in sql.execute("select topic, payload from events order by seq").fetchall()
    ]
    known = bench.cache.get(("proj_a", "toy_1"))
    assert known.state == replay(TOY, events) == Toy(toy.Status.OPEN, "new", 10, ["2", "3", "4"])
    at, actor = sql.execute(
        "select extract(epoch from recorded_at)::float, actor_id from events where revision = 6"
    ).fetchone()
    assert known.rows["toys"].seen_at == int(at)
    row = None
    for revision, event in enumerate(events, 1):
        row = toy.fold_toy(row, Recorded("toy_1", revision, event, "proj_a", int(at), f"key:{actor}"))
    assert known.rows["toys"] == row


def test_a_body_may_be_absent(bench: Bench):
    [answer] = bench.run(command(lambda unit: Answer(204, None), toy_stream())).done
    assert answer[1].body == b""
    assert body(answer[1]) is None


def test_bump_declares_what_it_says():
    """The toy's own command fences with the hash of its body."""
    one, other = bump(Bump("toy_1", by=1, key="k")), bump(Bump("toy_1", by=2, key="k"))
    assert one.request_hash != other.request_hash
    assert one.gates == ("proj_a",)
