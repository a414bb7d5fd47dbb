"""One round: what is locked, in which order, and who is busy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg.pq import TransactionStatus

from service.eventstore.connect.connection import connect
from service.eventstore.declare import names
from service.eventstore.declare.commands import Answer, Outcome, Unit
from service.eventstore.declare.faults import CommitNotConfirmed, Meaning, StreamDamaged, judge
from service.eventstore.read import statements
from service.eventstore.read.stored import StreamEvent
from service.eventstore.state.cache import Entry, StateCache
from service.eventstore.state.loading import Loaded, fold_stream, fold_tail
from service.eventstore.write.round import Round
from tests.support import toy
from tests.support.cluster import TestCluster
from tests.support.rounds import (
    Bench,
    Spy,
    between_locks_and_decisions,
    count,
    entry_of,
    history,
    is_waiting,
    wait_until,
)
from tests.support.toy import FACTS, TOYS, ToyBumped, ToyConflict, ToyOpened, command, simple_bump, toy_stream

Sql = psycopg.Connection[Any]

LOCK_HEAD = "select revision from stream_heads where stream_id = %s for no key update"


@pytest.fixture
def peer(toys_url: str) -> Iterator[Sql]:
    """Another session with a transaction open: whatever it takes, it holds until the test lets go."""
    with psycopg.connect(toys_url) as connection:
        connection.execute("select 1")
        yield connection
        connection.rollback()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as made:
        yield made


# ---- the order of the statements ----------------------------------------------------------------------------------


def test_locks_come_in_one_order_and_what_they_protect_is_read_later(bench: Bench):
    """Gates, names, heads, reads; then streams seen, records, tails, rows, the clock; the writes.

    Only one statement waits. Each of these places is the guard of something: a reading that moves before its lock
    is a check before an act.
    """
    bench.run(simple_bump(2))
    bench.cache.clear()
    spy = Spy(bench.connection)
    touching = command(_touch, toy_stream(1), reads=(toy_stream(2),), lookups=(toy.flag_lookup("proj_a"),))
    bench.round.run(spy, [entry_of(touching)], wait_ms=200)
    assert spy.said == [
        "[",
        statements.BEGIN,
        statements.TRY_LOCKS_THEN_WAIT,
        statements.WAIT_HEADS,
        statements.SHARE_HEADS,
        statements.SEE_STREAMS,
        statements.RECORDS,
        statements.TAILS,
        statements.load_rows(toy.FLAGS),
        statements.load_light_rows(TOYS),
        statements.load_light_rows(toy.LIVE_TOYS),
        statements.TABLES,
        statements.MOMENT,
        "]",
        "[",
        statements.INSERT_EVENTS,
        statements.INSERT_HEADS,
        statements.upsert_rows(TOYS),
        statements.upsert_rows(toy.LIVE_TOYS),
        statements.upsert_rows(FACTS),
        statements.INSERT_RECORDS,
        statements.COMMIT,
        "]",
    ]


def _touch(unit: Unit) -> Answer:
    unit.append(toy_stream(1), [ToyOpened("x")])
    unit.put(toy_stream(1), FACTS, toy.FactRow(project_id="proj_a", id="toy_1", count=1))
    return Answer(200, None)


def test_a_large_answer_is_kept_as_it_is_and_repeated(bench: Bench, sql: Sql):
    """Neither an answer nor the state of a run costs the time of compressing it, however large it is."""
    told = {"words": "as it was told " * 500}

    def decide(unit: Unit) -> Answer:
        unit.append(toy_stream(1), [ToyOpened("x")])
        return Answer(200, told)

    large = command(decide, toy_stream(1), key="k1")
    assert bench.answers(large) == [told]
    assert bench.answers(command(decide, toy_stream(1), key="k1")) == [told]
    stored = sql.execute("select octet_length(body), pg_column_compression(body) from idempotency").fetchall()
    assert stored == [(len(msgspec.json.encode(told)), None)]
    kept = "select attstorage from pg_attribute where attrelid = 'automation_runs'::regclass and attname = 'state'"
    assert sql.execute(kept).fetchall() == [("e",)]


def test_without_waiting_the_heads_are_tried(bench: Bench):
    bench.run(simple_bump())
    spy = Spy(bench.connection)
    bench.round.run(spy, [entry_of(simple_bump())], wait_ms=None)
    assert statements.TRY_HEADS in spy.said
    assert statements.WAIT_HEADS not in spy.said
    assert statements.TRY_LOCKS in spy.said
    assert statements.LOCK_TIMEOUT not in spy.said


def test_nothing_to_write_is_rolled_back(bench: Bench, sql: Sql):
    """All refused: no commit, no transaction left open, no number drawn."""

    def refuse(_: Unit) -> Answer:
        raise ToyConflict("No.")

    spy = Spy(bench.connection)
    bench.round.run(spy, [entry_of(command(refuse, toy_stream()))], wait_ms=200)
    assert spy.said[-3:] == [statements.MOMENT, "]", "rollback"]
    assert bench.connection.info.transaction_status is TransactionStatus.IDLE


def test_a_head_that_is_not_where_its_lock_found_it_stores_nothing(bench: Bench, sql: Sql):
    """The statement that updates the heads fails, so that COMMIT is never carried out."""
    bench.run(simple_bump(1), simple_bump(2))
    before = history(sql)
    move = "update stream_heads set revision = revision + 1 where stream_id = 'toy_1'"
    with (
        between_locks_and_decisions(lambda: bench.connection.execute(move)),
        pytest.raises(psycopg.DatabaseError, match="a locked head moved") as raised,
    ):
        bench.run(simple_bump(1), simple_bump(2))
    assert raised.value.sqlstate == "SH001"
    bench.connection.execute("rollback")
    assert history(sql) == before
    assert [answer["revision"] for answer in bench.answers(simple_bump(1), simple_bump(2))] == [3, 3]


def test_a_commit_that_says_rollback_is_no_commit(bench: Bench, sql: Sql):
    """An aborted transaction answers COMMIT with ROLLBACK and no error; nobody may be told of success then."""
    spy = Spy(bench.connection, instead={statements.COMMIT: "rollback"})
    with pytest.raises(CommitNotConfirmed, match="ROLLBACK"):
        bench.round.run(spy, [entry_of(simple_bump())], wait_ms=200)
    assert history(sql) == []
    assert len(bench.cache) == 0


# ---- fixed interleavings ------------------------------------------------------------------------------------------


def zombie(toys_url: str, entry: Entry) -> Bench:
    """A first attempt of this submission, decided and written, with its COMMIT still to come."""
    made = Bench(toys_url)
    spy = Spy(made.connection, instead={statements.COMMIT: "select 1"})
    with pytest.raises(CommitNotConfirmed):
        made.round.run(spy, [entry], wait_ms=200)
    return made


def test_a_first_attempt_that_still_commits_makes_the_second_busy(toys_url: str, bench: Bench, sql: Sql):
    """The zombie: its locks (key, name, head) hold up the re-run; once they are free, its record is there."""
    bench.run(simple_bump())
    entry = entry_of(simple_bump(by=5, key="k"))
    first = zombie(toys_url, entry)
    twin = entry_of(simple_bump(by=5, key="k"))
    for again in (entry, twin):
        result = bench.run(again, wait_ms=None)
        assert [blockers for _, blockers in result.busy] == [[again.key_name, "proj_a/toy_1"]]
    with pytest.raises(psycopg.errors.LockNotAvailable):
        bench.run(entry, wait_ms=50)
    bench.connection.execute("rollback")
    first.connection.execute("commit")
    [own] = bench.answers(entry)
    [(_, answer)] = bench.run(twin).done
    assert own["total"] == 6
    assert msgspec.json.decode(answer.body) == own
    assert answer.replayed
    assert len(history(sql)) == 3
    first.close()


def test_a_record_is_read_after_the_wait_for_the_head(
    toys_url: str, bench: Bench, sql: Sql, peer: Sql, pool: ThreadPoolExecutor
):
    """FIXED interleaving: the round waits for a head; meanwhile its holder commits a record of the same key.

    Read before the lock, that record would not be seen, and the command would run twice.
    """
    bench.run(simple_bump())
    peer.execute(LOCK_HEAD, ("toy_1",))
    waiting = pool.submit(bench.run, simple_bump(by=5, key="k"), wait_ms=3000)
    wait_until(lambda: is_waiting(sql, bench.connection))
    record = entry_of(simple_bump(by=5, key="k"))
    peer.execute(
        "insert into idempotency (project_id, principal, operation, key, fingerprint, command_id, client_key, status, "
        "body, headers, created_at) values (%s, %s, %s, %s, %s, 'cmd_z', true, 200, '{\"was\":1}', '{}', now())",
        (*record.record, record.command.request_hash),
    )
    peer.commit()
    [(_, answer)] = waiting.result(5).done
    assert (answer.body, answer.replayed) == (b'{"was":1}', True)
    assert len(history(sql)) == 2


def test_a_tail_is_read_after_the_wait_for_the_head(toys_url: str, bench: Bench, sql: Sql, pool: ThreadPoolExecutor):
    """FIXED interleaving: what the holder of the head appended while the round waited is in the state it decides on.

    Once with the stream in the cache, once cold.
    """
    bench.run(simple_bump())
    for cold in (False, True):
        before = len(history(sql))
        holder = zombie(toys_url, entry_of(simple_bump(by=10)))
        if cold:
            bench.cache.clear()
        waiting = pool.submit(bench.run, simple_bump(by=5, expected=before + 1), wait_ms=3000)
        wait_until(lambda: is_waiting(sql, bench.connection))
        holder.connection.execute("commit")
        [(_, answer)] = waiting.result(5).done
        assert msgspec.json.decode(answer.body)["revision"] == before + 2
        holder.close()
    [[total]] = sql.execute("select total from toys").fetchall()
    assert total == 1 + 2 * 15


def test_a_stream_made_while_its_name_was_tried_is_not_made_twice(toys_url: str, bench: Bench, sql: Sql):
    """A rival that is creating the stream holds its name; afterwards the stream is simply there."""
    rival = zombie(toys_url, entry_of(simple_bump(by=10)))
    result = bench.run(simple_bump(by=1))
    assert [blockers for _, blockers in result.busy] == [["new:proj_a/toy_1"]]
    rival.connection.execute("commit")
    [answer] = bench.answers(simple_bump(by=1))
    assert (answer["first"], answer["total"]) == (3, 11)
    rival.close()


def test_a_read_stream_that_appears_between_two_statements_is_absent():
    """Its head was not seen, so events that a later statement shows are not taken in."""
    stream = toy_stream()
    tail = (1, "toy.opened.v1", '{"label":"x"}', None, "key:k1")
    working = fold_stream(toy.REGISTRY, StateCache(), stream, Loaded(tails={stream.name: [tail]}))
    assert (working.revision, working.state) == (0, toy.Toy())


def test_a_head_that_was_moved_by_force_is_noticed(bench: Bench, sql: Sql):
    """History that does not add up to its head fails the command that looks at it; it is no state to decide on."""
    bench.run(simple_bump())
    sql.execute("update stream_heads set revision = 7")
    told = bench.answers(simple_bump(), simple_bump(2))
    assert [type(answer) for answer in told] == [StreamDamaged, dict]
    assert str(told[0]) == "toy_1: its events end at 2, its head says 7"
    assert count(sql, "events") == 4


def test_a_history_with_a_gap_is_noticed():
    tail = [
        StreamEvent("proj_a", "toy_1", 1, "toy.opened.v1", '{"label": "x"}', 0, "key:k"),
        StreamEvent("proj_a", "toy_1", 3, "toy.bumped.v1", "", 0, ""),
    ]
    with pytest.raises(StreamDamaged, match="event 3 follows event 1"):
        fold_tail(toy_stream(), 0, toy.TOY.initial, tail)


def test_the_keys_are_a_second_net(bench: Bench, sql: Sql, toys_url: str):
    """Should a lock ever fail, the primary keys of events and records still stop a second copy."""
    bench.run(simple_bump(key="k"))
    sql.execute("alter table stream_heads disable trigger all")
    sql.execute("delete from stream_heads")
    sql.execute("delete from idempotency")
    cold = Bench(toys_url)
    with pytest.raises(psycopg.errors.UniqueViolation, match="events_pkey"):
        cold.run(simple_bump(key="k"))
    cold.close()
    stale = Bench(toys_url)
    spy = Spy(stale.connection, instead={statements.RECORDS: statements.RECORDS + b" limit 0"})
    bench.run(simple_bump(2, key="k"))
    with pytest.raises(psycopg.errors.UniqueViolation, match="idempotency_pkey"):
        stale.round.run(spy, [entry_of(simple_bump(2, key="k"))], wait_ms=200)
    stale.close()
    assert len(history(sql)) == 4


# ---- who is busy --------------------------------------------------------------------------------------------------


def busy_of(result: Any) -> dict[str, list[str]]:
    return {entry.command.streams[0].id: blockers for entry, blockers in result.busy}


@pytest.mark.parametrize(
    ("take", "blockers"),
    [
        pytest.param(
            lambda p: p.execute(LOCK_HEAD, ("toy_1",)),
            ["proj_a/toy_1"],
            id="head",
        ),
        pytest.param(
            lambda p: p.execute("select pg_advisory_xact_lock(%s)", (names.lock_number(names.gate("proj_a")),)),
            ["gate:proj_a"],
            id="gate",
        ),
        pytest.param(
            lambda p: p.execute(
                "select pg_advisory_xact_lock(%s)",
                (names.lock_number(names.key("proj_a", "key:k1", "POST /toys/toy_1/bump", "k")),),
            ),
            ["key:proj_a/key:k1/POST /toys/toy_1/bump/k"],
            id="key",
        ),
    ],
)
def test_who_needs_what_is_held_is_busy_and_nobody_else(
    bench: Bench, sql: Sql, peer: Sql, take: Callable[[Sql], Any], blockers: list[str]
):
    """The others of the batch are done; the busy one is told which names it has to wait for, and left no trace."""
    bench.run(simple_bump(1), simple_bump("b", project="proj_b"))
    take(peer)
    began = time.monotonic()
    result = bench.run(
        simple_bump(1, key="k"), simple_bump("b", project="proj_b"), simple_bump("n", project="proj_b"), wait_ms=None
    )
    assert time.monotonic() - began < 0.5
    assert busy_of(result) == {"toy_1": blockers}
    assert len(result.done) == 2
    assert all(isinstance(answer, Outcome) for _, answer in result.done)
    peer.rollback()
    [answer] = bench.answers(simple_bump(1, key="k"))
    assert answer["total"] == 2


def test_a_new_stream_whose_name_is_held_is_busy(bench: Bench, sql: Sql, peer: Sql):
    peer.execute("select pg_advisory_xact_lock(%s)", (names.lock_number(names.new_stream("proj_a", "toy_1")),))
    result = bench.run(simple_bump(1), simple_bump(2))
    assert busy_of(result) == {"toy_1": ["new:proj_a/toy_1"]}
    assert result.busy_streams == {}
    assert {stream for stream, _, _ in history(sql)} == {"toy_2"}


def test_a_held_head_is_reported_with_the_revision_it_shows(bench: Bench, peer: Sql):
    """Which is how a second look tells a stalled holder from a busy one."""
    bench.run(simple_bump())
    peer.execute(LOCK_HEAD, ("toy_1",))
    assert bench.run(simple_bump(), wait_ms=None).busy_streams == {("proj_a", "toy_1"): 2}


def test_a_held_read_is_busy_but_no_sign_of_a_stall(bench: Bench, peer: Sql):
    """Reads are always tried; counted as stalls they would keep a process from waiting at all."""
    bench.run(simple_bump(1), simple_bump(2))
    peer.execute(LOCK_HEAD, ("toy_2",))
    result = bench.run(command(lambda unit: Answer(200, None), toy_stream(1), reads=(toy_stream(2),)))
    assert busy_of(result) == {"toy_1": ["proj_a/toy_2"]}
    assert result.busy_streams == {}


def test_readers_share(bench: Bench, peer: Sql):
    """A stream that somebody else only reads can be read, not written."""
    bench.run(simple_bump(1), simple_bump(2))
    peer.execute("select revision from stream_heads where stream_id = 'toy_2' for share")
    reading = command(
        lambda unit: Answer(200, {"at": unit.revision(toy_stream(2))}), toy_stream(1), reads=(toy_stream(2),)
    )
    assert bench.answers(reading) == [{"at": 2}]
    assert busy_of(bench.run(simple_bump(2), wait_ms=None)) == {"toy_2": ["proj_a/toy_2"]}


def test_a_foreign_key_to_a_head_does_not_wait(bench: Bench, peer: Sql, sql: Sql):
    """Heads are locked FOR NO KEY UPDATE: an insert that refers to a head goes on meanwhile."""
    bench.run(simple_bump())
    sql.execute(
        "create table referring (project_id text, stream_id text, "
        "foreign key (project_id, stream_id) references stream_heads)"
    )
    peer.execute(statements.WAIT_HEADS, (["proj_a"], ["toy_1"]))
    sql.execute("set lock_timeout = '200ms'")
    sql.execute("insert into referring values ('proj_a', 'toy_1')")


def test_the_wait_is_bounded(bench: Bench, peer: Sql):
    """After `wait_ms` the round ends with the database's own error; nothing of it stays."""
    bench.run(simple_bump(1), simple_bump(2))
    peer.execute(LOCK_HEAD, ("toy_1",))
    began = time.monotonic()
    with pytest.raises(psycopg.errors.LockNotAvailable):
        bench.run(simple_bump(2), simple_bump(1), wait_ms=80)
    assert 0.07 < time.monotonic() - began < 0.5
    bench.connection.execute("rollback")
    [other] = bench.answers(simple_bump(2))
    assert other["total"] == 2


def test_a_fence_that_waits_stops_what_would_start(
    toys_url: str, bench: Bench, peer: Sql, sql: Sql, pool: ThreadPoolExecutor
):
    """FIXED interleaving: a round holds the gate, the fence waits for it, and already nothing new gets in.

    So draining ends; afterwards whoever was held up reads what the fence wrote.
    """
    bench.run(simple_bump())
    gate = names.lock_number(names.gate("proj_a"))
    peer.execute("select pg_advisory_xact_lock_shared(%s)", (gate,))
    lane = Bench(toys_url)
    fence = entry_of(toy.lower_flag())
    waiting = pool.submit(lane.round.run, lane.connection, [fence], wait_ms=3000, exclusive=("proj_a",))
    wait_until(lambda: is_waiting(sql, lane.connection))
    assert busy_of(bench.run(simple_bump(flagged=True))) == {"toy_1": ["gate:proj_a"]}
    peer.rollback()
    [(_, answer)] = waiting.result(5).done
    assert answer.status == 200
    [refused] = bench.answers(simple_bump(flagged=True))
    assert isinstance(refused, toy.ToyFenced)
    lane.close()


def test_two_rounds_over_the_same_streams_never_lock_each_other_out(toys_url: str, sql: Sql, pool: ThreadPoolExecutor):
    """Whatever the order of declaration, one sorted statement takes the heads: no deadlock, no lost update."""
    benches = [Bench(toys_url), Bench(toys_url)]
    streams = [toy_stream(n) for n in range(5)]
    benches[0].run(*(simple_bump(n) for n in range(5)))

    def all_of_them(order: list[Any]) -> Any:
        def decide(unit: Unit) -> Answer:
            for stream in order:
                unit.append(stream, [ToyBumped(1)])
            return Answer(200, None)

        return command(decide, *order)

    def load(bench: Bench, order: list[Any]) -> int:
        for _ in range(100):
            result = bench.run(*(all_of_them(order) for _ in range(3)), wait_ms=2000)
            assert [type(answer) for _, answer in result.done] == [Outcome] * 3
        return 300

    done = [pool.submit(load, benches[0], streams), pool.submit(load, benches[1], streams[::-1])]
    assert sum(future.result(30) for future in done) == 600
    assert sql.execute("select distinct total from toys").fetchall() == [(601,)]
    for bench in benches:
        bench.close()


# ---- a stopped client ---------------------------------------------------------------------------------------------


def test_a_client_that_stops_between_its_statements_is_ended(any_cluster: TestCluster):
    """The idle timer fires after a pipeline, because nothing follows the Sync that ends it.

    On 15, which has no transaction_timeout, nothing else would free the locks of a stopped peer.
    """
    with any_cluster.database() as url, psycopg.connect(url, autocommit=True) as sql:
        toy.create_tables(url)
        bench = Bench(url)
        bench.run(simple_bump())
        alive = "select count(*) from pg_stat_activity where pid = %s"
        pid = bench.connection.info.backend_pid
        ended: list[float] = []

        def stopped(unit: Unit) -> Answer:
            began = time.monotonic()
            while sql.execute(alive, (pid,)).fetchone() == (1,) and time.monotonic() - began < 3:
                time.sleep(0.01)
            ended.append(time.monotonic() - began)
            unit.append(toy_stream(), [ToyBumped(1)])
            return Answer(200, None)

        with pytest.raises(psycopg.Error) as raised:
            bench.run(command(stopped, toy_stream()))
        assert judge(raised.value, bench.connection).meaning is Meaning.OUT_OF_TIME
        assert 0.9 < ended[0] < 1.5
        assert bench.connection.broken
        assert len(history(sql)) == 2
        bench.close()


def test_writing_sessions_carry_their_limits(any_cluster: TestCluster):
    """Every timeout that bounds what a stalled peer can hold is set; the transaction's own from 17 on."""
    with any_cluster.database() as url:
        connection = connect(url, application="test")
        rows = connection.execute("select name, setting from pg_settings").fetchall()
        settings = dict(rows)
        assert settings["idle_in_transaction_session_timeout"] == "1000"
        assert settings["lock_timeout"] == "1000"
        assert settings["statement_timeout"] == "3000"
        assert settings.get("transaction_timeout", "2000") == "2000"
        assert settings["default_transaction_isolation"] == "read committed"
        connection.close()


def test_a_round_knows_only_its_own_connection(bench: Bench, sql: Sql):
    """Statements are prepared once for a shape, whatever the length of the lists."""
    for n in range(1, 8):
        bench.run(*(simple_bump(f"{n}_{m}") for m in range(n)))
    [[prepared]] = bench.connection.execute("select count(*) from pg_prepared_statements").fetchall()
    before = prepared
    bench.run(*(simple_bump(f"more_{m}") for m in range(30)))
    [[prepared]] = bench.connection.execute("select count(*) from pg_prepared_statements").fetchall()
    assert prepared == before
    assert count(sql, "stream_heads") == 28 + 30
    assert isinstance(bench.round, Round)
