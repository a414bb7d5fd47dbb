"""The log: gap-free positions after commit, readers that miss nothing, and jobs that follow from it."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from service.eventstore.connect.connection import connect
from service.eventstore.declare.commands import Answer, Unit
from service.eventstore.declare.faults import CommitNotConfirmed
from service.eventstore.log.reactor import NAME, Job, Reactor, react_once
from service.eventstore.log.sequencer import BATCH, Sequencer, sequence_all, sequence_once
from service.eventstore.read import statements
from service.eventstore.read.recorder import FencedRecorder
from service.eventstore.store import EventStore
from service.history.audit import check_history
from tests.service.eventstore.daemon import REACTIONS, Daemon
from tests.support import long_after
from tests.support.cluster import TestCluster
from tests.support.rounds import Bench, Spy, count, entry_of, history, holding, wait_until
from tests.support.toy import ToyBumped, ToyClosed, ToyOpened, command, simple_bump, toy_stream

Sql = psycopg.Connection[Any]


def positions(sql: Sql) -> list[int]:
    return [position for (position,) in sql.execute("select position from log_index order by position").fetchall()]


def uncommitted(toys_url: str, number: int) -> Bench:
    """A writer that has done everything but commit."""
    made = Bench(toys_url)
    spy = Spy(made.connection, {statements.COMMIT: "select 1"})
    with pytest.raises(CommitNotConfirmed):
        made.round.run(spy, [entry_of(simple_bump(number))], wait_ms=200)
    return made


# ---- numbering ----------------------------------------------------------------------------------------------------


def test_positions_follow_the_order_of_insertion(bench: Bench, sql: Sql):
    bench.run(simple_bump(1), simple_bump(2), simple_bump(1))
    assert sequence_all(bench.connection) == 5
    assert [
        (event.position, event.stream_id, event.revision) for event in FencedRecorder.over(sql).select_after(0)
    ] == [
        (1, "toy_1", 1),
        (2, "toy_1", 2),
        (3, "toy_2", 1),
        (4, "toy_2", 2),
        (5, "toy_1", 3),
    ]
    assert count(sql, "unsequenced") == 0
    assert sequence_all(bench.connection) == 0


def test_a_backlog_is_numbered_in_pieces(bench: Bench, sql: Sql):
    for n in range(8):
        bench.run(*(simple_bump(f"{n}_{m}") for m in range(64)))
    assert sequence_once(bench.connection) == (BATCH, BATCH)
    assert sequence_once(bench.connection) == (8 * 128 - BATCH, 8 * 128)
    assert positions(sql) == list(range(1, 8 * 128 + 1))


def test_numbers_burnt_by_lost_work_leave_no_hole(bench: Bench, toys_url: str, sql: Sql):
    """A batch that rolls back draws numbers of the table's sequence, never positions."""
    for n in range(5):
        bench.run(simple_bump(n))
        undone = uncommitted(toys_url, n)
        undone.connection.execute("rollback")
        undone.close()
    sequence_all(bench.connection)
    assert sql.execute("select max(seq) > count(*) from events").fetchone() == (True,)
    assert positions(sql) == list(range(1, 11))


def test_two_at_once_number_each_event_once(bench: Bench, toys_url: str, sql: Sql):
    """While one is at it, the other one steps back and finds nothing to do."""
    bench.run(simple_bump(1))
    with psycopg.connect(toys_url) as first:
        first.execute("select size from log_state for update")
        assert sequence_once(bench.connection) is None
        first.rollback()
    assert sequence_once(bench.connection) == (2, 2)


def test_an_open_transaction_hides_nothing_but_its_own_events(
    cluster: TestCluster, toys_url: str, bench: Bench, sql: Sql
):
    """Neither one that writes in another database, nor one here that has drawn lower numbers, holds others up.

    Its own events get their positions when it commits: after those that were visible before, and none is lost.
    """
    late = uncommitted(toys_url, 1)
    with cluster.database("template0") as elsewhere, psycopg.connect(elsewhere) as writing:
        writing.execute("create table something (id int)")
        bench.run(simple_bump(2))
        assert sequence_all(bench.connection) == 2
        assert [event.stream_id for event in FencedRecorder.over(sql).select_after(0)] == ["toy_2", "toy_2"]
    late.connection.execute("commit")
    assert sequence_all(bench.connection) == 2
    assert [event.stream_id for event in FencedRecorder.over(sql).select_after(2)] == ["toy_1", "toy_1"]
    assert positions(sql) == [1, 2, 3, 4]
    late.close()


@contextmanager
def tailer(url: str, start: int, *, restart: bool = False) -> Iterator[list[tuple[int, str, int]]]:
    """Read the log behind the sequencer, from `start` on; perhaps with a new connection every so often."""
    seen: list[tuple[int, str, int]] = []
    stopped = threading.Event()

    def read() -> None:
        cursor = start
        while not stopped.is_set():
            with psycopg.connect(url, autocommit=True) as connection:
                until = time.monotonic() + (0.2 if restart else 3600)
                while time.monotonic() < until and not stopped.is_set():
                    for event in FencedRecorder.over(connection).select_after(cursor, random.randint(1, 300)):
                        seen.append((event.position, event.stream_id, event.revision))
                        cursor = event.position
                    time.sleep(0.003)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield seen
    finally:
        stopped.set()
        thread.join()


@pytest.mark.parametrize("kills", long_after(1, [2, 6]))
async def test_readers_miss_nothing_while_sequencers_die(
    toys_url: str, store: EventStore, peer_store: EventStore, sql: Sql, cluster: TestCluster, kills: int
):
    """Two sequencers at once, killed again and again; writers in two processes, some of whose work is rolled back.

    Three readers (from the start, from the middle, one that reconnects) see the same log, without hole or twin, and
    in it every stream in order.
    """
    stopped = asyncio.Event()

    async def write(worker: int) -> None:
        dice = random.Random(worker)
        while not stopped.is_set():
            where = (store, peer_store)[worker % 2]
            poison = "\0" if dice.random() < 0.02 else None
            await asyncio.gather(where.execute(simple_bump(dice.randint(1, 40), note=poison)), return_exceptions=True)

    daemons = [Daemon("sequencer", toys_url) for _ in range(2)]
    with (
        cluster.database("template0") as elsewhere,
        psycopg.connect(elsewhere) as writing,
        tailer(toys_url, 0) as first,
        tailer(toys_url, 300) as middle,
        tailer(toys_url, 0, restart=True) as restarted,
    ):
        writing.execute("create table something (id int)")
        writers = [asyncio.create_task(write(worker)) for worker in range(12)]
        grown = 0
        for kill in range(kills):
            for daemon in daemons:
                daemon.start()
            before = await size_of(store)
            await until_size(store, before + 100)
            grown += 1
            await asyncio.sleep(random.uniform(0, 0.03))
            for daemon in daemons[: 1 + kill % 2]:
                daemon.kill()
            for daemon in daemons[1 + kill % 2 :]:
                daemon.kill()
        stopped.set()
        await asyncio.gather(*writers)
        with connect(toys_url, application="test") as connection:
            sequence_all(connection)
        total = count(sql, "events")
        await until_size(store, total)
        await asyncio.to_thread(wait_until, lambda: len(first) == len(restarted) == total == len(middle) + 300)
    assert sum(daemon.killed for daemon in daemons) == 2 * kills
    assert grown == kills
    assert positions(sql) == list(range(1, total + 1))
    log = [(event.position, event.stream_id, event.revision) for event in FencedRecorder.over(sql).follow()]
    assert first == restarted == log
    assert middle == log[300:]
    assert list(check_history(sql)) == []


async def size_of(store: EventStore) -> int:
    [[size]] = await store.fetch("select size from log_state")
    return int(size)


async def until_size(store: EventStore, size: int) -> None:
    async with asyncio.timeout(30):
        while await size_of(store) < size:  # noqa: ASYNC110 - another process moves it
            await asyncio.sleep(0.005)


async def test_the_sequencer_survives_the_end_of_its_session(
    toys_url: str, store: EventStore, sql: Sql, sequencer: Sequencer
):
    await store.execute(simple_bump(1))
    await until_size(store, 2)
    sql.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where application_name = 'service-sequencer' and datname = current_database()"
    )
    await store.execute(simple_bump(1))
    await until_size(store, 3)


def test_streams_can_be_read_by_their_name(bench: Bench, sql: Sql):
    """Numbered or not, in order of revision, each decoded as it was recorded."""
    bench.run(simple_bump(1, op="a"))
    sequence_all(bench.connection)
    bench.run(simple_bump(1, op="b"))
    events = FencedRecorder.over(sql).select_placed("toy_1")
    assert [event.position for event in events] == [1, 2, None]
    assert [event.recorded().event for event in events] == [ToyOpened("new"), ToyBumped(1, "a"), ToyBumped(1, "b")]
    assert events[0].recorded().actor == "key:k1"
    assert FencedRecorder.over(sql).select_placed("toy_9") == []


# ---- jobs ---------------------------------------------------------------------------------------------------------


def jobs(sql: Sql, task: str) -> list[Any]:
    return [
        args for (args,) in sql.execute("select args from procrastinate_jobs where task_name = %s order by id", (task,))
    ]


def expected_jobs(sql: Sql) -> Counter[str]:
    return Counter(event.event_id for event in FencedRecorder.over(sql).follow() if event.topic == ToyBumped.TOPIC)


def close(number: int | str, project: str = "proj_a") -> Any:
    stream = toy_stream(number, project)

    def decide(unit: Unit) -> Answer:
        unit.append(stream, [ToyClosed()])
        return Answer(200, None)

    return command(decide, stream)


@pytest.fixture
def reacting(bench: Bench) -> Bench:
    bench.connection.execute("insert into checkpoints (name, position) values (%s, 0)", (NAME,))
    return bench


def test_each_event_has_its_job_once_it_has_its_position(reacting: Bench, sql: Sql):
    """Neither earlier, nor a second time, and none for work that was refused."""
    reacting.run(simple_bump(1), simple_bump(2, expected=9))
    assert react_once(reacting.connection, REACTIONS) == 0
    assert jobs(sql, "bumped") == []
    sequence_all(reacting.connection)
    assert react_once(reacting.connection, REACTIONS) == 2
    assert react_once(reacting.connection, REACTIONS) == 0
    assert Counter(job["event_id"] for job in jobs(sql, "bumped")) == expected_jobs(sql)
    assert sql.execute("select position from checkpoints where name = %s", (NAME,)).fetchall() == [(2,)]


def test_of_a_job_that_waits_there_is_one(reacting: Bench, sql: Sql):
    """Within a page, and across pages while it still waits; for each lock of its own."""
    reacting.run(*(simple_bump(n) for n in range(4)), simple_bump("b", project="proj_b"), simple_bump("quiet"))
    reacting.run(close(0), close(1), close("b", "proj_b"), close("quiet"))
    sequence_all(reacting.connection)
    react_once(reacting.connection, REACTIONS)
    assert sorted(job["project"] for job in jobs(sql, "closed")) == ["proj_a", "proj_b"]
    assert sql.execute("select distinct queue_name from procrastinate_jobs where task_name = 'closed'").fetchall() == [
        ("slow",)
    ]
    reacting.run(close(2))
    sequence_all(reacting.connection)
    react_once(reacting.connection, REACTIONS)
    assert len(jobs(sql, "closed")) == 2
    sql.execute("update procrastinate_jobs set status = 'doing' where task_name = 'closed'")
    reacting.run(close(3))
    sequence_all(reacting.connection)
    react_once(reacting.connection, REACTIONS)
    assert len(jobs(sql, "closed")) == 3


def test_a_reaction_that_fails_moves_nothing(reacting: Bench, sql: Sql):
    """Jobs and checkpoint are one transaction: after the mend, nothing is missing and nothing is double."""

    def failing(event: Any) -> Job:
        if event.revision == 3:
            raise ZeroDivisionError
        return Job("bumped", {"event_id": event.event_id})

    reacting.run(simple_bump(1), simple_bump(1))
    sequence_all(reacting.connection)
    with pytest.raises(ZeroDivisionError):
        react_once(reacting.connection, {ToyBumped.TOPIC: failing})
    assert jobs(sql, "bumped") == []
    react_once(reacting.connection, REACTIONS)
    assert Counter(job["event_id"] for job in jobs(sql, "bumped")) == expected_jobs(sql)


def test_a_reactor_outlives_a_reaction_that_fails(reacting: Bench, toys_url: str, sql: Sql):
    """A bug costs turns and neither the thread nor a job; on the way, so does a lost connection."""
    failures = iter([ZeroDivisionError(), psycopg.OperationalError(), KeyError("x")])

    def failing_first(event: Any) -> Job | None:
        for failure in failures:
            raise failure
        return REACTIONS[ToyBumped.TOPIC](event)

    reacting.run(simple_bump(1))
    sequence_all(reacting.connection)
    reactor = Reactor(toys_url, {ToyBumped.TOPIC: failing_first})
    reactor.start()
    try:
        wait_until(lambda: len(jobs(sql, "bumped")) == 1, 10)
    finally:
        reactor.stop()
    assert next(failures, None) is None
    assert Counter(job["event_id"] for job in jobs(sql, "bumped")) == expected_jobs(sql)


def test_two_reactors_do_not_react_twice(reacting: Bench, toys_url: str, sql: Sql):
    reacting.run(simple_bump(1))
    sequence_all(reacting.connection)
    with holding(toys_url, ("select position from checkpoints for update", ())):
        assert react_once(reacting.connection, REACTIONS) is None
    assert react_once(reacting.connection, REACTIONS) == 2


@pytest.mark.parametrize("kills", long_after(1, [1, 4]))
async def test_jobs_are_exactly_those_of_committed_events_though_reactors_die(
    toys_url: str, store: EventStore, sql: Sql, sequencer: Sequencer, kills: int
):
    """Two reactors and a sequencer, killed again and again under load."""
    stopped = asyncio.Event()

    async def write(worker: int) -> None:
        while not stopped.is_set():
            poison = "\0" if random.random() < 0.02 else None
            await asyncio.gather(store.execute(simple_bump(worker, note=poison)), return_exceptions=True)

    writers = [asyncio.create_task(write(worker)) for worker in range(8)]
    daemons = [Daemon("reactor", toys_url) for _ in range(2)]
    for _ in range(kills):
        for daemon in daemons:
            daemon.start()
        before = len(jobs(sql, "bumped"))
        await asyncio.to_thread(wait_until, lambda before=before: len(jobs(sql, "bumped")) > before, 30)
        await asyncio.sleep(random.uniform(0, 0.15))
        for daemon in daemons:
            daemon.kill()
    stopped.set()
    await asyncio.gather(*writers)
    reactor = Reactor(toys_url, REACTIONS)
    reactor.start()
    total = count(sql, "events")

    def has_read_all() -> bool:
        reactor.wake()  # as the sequencer of a worker does
        return sql.execute("select position from checkpoints where name = %s", (NAME,)).fetchone() == (total,)

    await asyncio.to_thread(wait_until, has_read_all, 30)
    await asyncio.to_thread(reactor.stop)
    assert Counter(job["event_id"] for job in jobs(sql, "bumped")) == expected_jobs(sql)
    assert sum(expected_jobs(sql).values()) > 50 * kills
    assert {stream for stream, _, _ in history(sql)} == {f"toy_{n}" for n in range(8)}
