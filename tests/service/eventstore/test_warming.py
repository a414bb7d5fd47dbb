"""Heavy streams are loaded outside of the writing transaction: nobody's history holds up anybody else (P25, P26)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from service.eventstore.declare.commands import Answer, Command, Unit
from service.eventstore.declare.faults import StreamDamaged
from service.eventstore.read import statements
from service.eventstore.read.statements import LIGHT, LIGHT_EVENTS
from service.eventstore.state.cache import StateCache
from service.eventstore.store import EventStore
from service.eventstore.write import lane as lane_module
from service.eventstore.write.round import Round
from service.eventstore.write.warming import Wanted, Warmer, load_stream
from service.fairness.turns import CommandNotDone
from statemachines.kernel.machine import Stream
from statemachines.kernel.machine import replay as replayed_of
from statemachines.kernel.topics import decode_event
from tests.support import toy
from tests.support.rounds import Bench, body, entry_of
from tests.support.toy import TOY, Bump, bump, command, flag_stream, lower_flag, simple_bump, toy_stream

Sql = psycopg.Connection[Any]
NAME = ("proj_a", "toy_1")


@pytest.fixture
def cold(toys_url: str) -> Iterator[Bench]:
    """A process that has loaded nothing yet."""
    made = Bench(toys_url)
    yield made
    made.close()


def make_long(bench: Bench, sql: Sql, events: int, size: int = 0, stream: Stream | None = None) -> None:
    """Give toy 1 a history as an earlier release left it: so many events of this size, no snapshot, nothing counted."""
    stream = stream or toy_stream()

    def decide(unit: Unit) -> Answer:
        opening = [] if unit.revision(stream) else [toy.ToyOpened("long")]
        unit.append(stream, [*opening, *(toy.ToyBumped(1, "", "x" * size) for _ in range(batch))])
        return Answer(200, None)

    while events:
        batch = min(events, 20 if size else 500)
        bench.run(command(decide, stream))
        events -= batch
    sql.execute("delete from snapshots")
    sql.execute("update stream_heads set bytes = -1")


def replayed(sql: Sql) -> Any:
    rows = sql.execute("select topic, payload::text from events where stream_id = 'toy_1' order by revision").fetchall()
    return replayed_of(TOY, [decode_event(*row) for row in rows])


class Counting:
    """A connection that counts the events, and the characters, that its statements bring back."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.events = self.most = 0

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        cursor = self._connection.execute(query, *args, **kwargs)
        if query == statements.STREAM:
            rows = cursor.fetchall()
            self.events += len(rows)
            self.most = max(self.most, sum(len(row[4]) for row in rows))
            return self._Rows(rows)
        return cursor

    class _Rows(list[Any]):
        def fetchall(self) -> Any:
            return self


# ---- what a round loads -------------------------------------------------------------------------------------------


def test_a_round_leaves_a_heavy_stream_out_and_carries_out_the_rest(bench: Bench, cold: Bench, sql: Sql):
    """A long history without a snapshot: nothing of it is read under locks; loaded, it is as a replay has it."""
    make_long(bench, sql, LIGHT_EVENTS + 50)
    assert [type(answer) for answer in cold.answers(simple_bump(1), simple_bump(2))] == [str, dict]
    result = cold.run(simple_bump(1))
    assert list(result.heavy) == [NAME]
    assert result.busy_streams == {}, "heavy is not held by another"
    cold.load(result)
    assert cold.cache.get(NAME).state == replayed(sql)
    [answer] = cold.answers(simple_bump(1))
    assert answer["revision"] == LIGHT_EVENTS + 52
    assert cold.cache.get(NAME).state == replayed(sql)
    assert cold.cache.get(NAME).rows["toys"].total == replayed(sql).total


@pytest.mark.parametrize("size", [LIGHT // 3, 2 * LIGHT])
def test_weight_is_judged_by_counts_alone(bench: Bench, cold: Bench, sql: Sql, size: int):
    """Bytes that the head counted beyond the snapshot, and the snapshot's own: as in the tail that would be read."""
    bench.run(simple_bump(note="x" * size))
    assert (NAME in cold.run(simple_bump(1)).heavy) == (size > LIGHT)
    sql.execute(
        "insert into snapshots select project_id, stream_id, revision, %s, '{}', bytes, %s from stream_heads",
        (TOY.snapshot_version, LIGHT - 10),
    )
    cold.cache.clear()
    assert NAME not in cold.run(simple_bump(1)).heavy
    sql.execute("update snapshots set size = %s", (LIGHT + 1,))
    cold.cache.clear()
    assert NAME in cold.run(simple_bump(1)).heavy


def test_what_others_appended_meanwhile_may_be_too_much_as_well(bench: Bench, cold: Bench):
    """A stream in memory, far behind: it is loaded anew, and nothing older takes its place."""
    bench.run(simple_bump())
    assert cold.answers(simple_bump()) != ["busy"]
    bench.run(simple_bump(note="x" * 2 * LIGHT))
    result = cold.run(simple_bump())
    assert list(result.heavy) == [NAME]
    cold.load(result)
    [answer] = cold.answers(simple_bump())
    assert (answer["revision"], answer["total"]) == (5, 4)


def test_a_long_load_reads_small_pages_and_leaves_a_snapshot(bench: Bench, cold: Bench, sql: Sql):
    """4 MB of history: each page is bounded, and whoever comes next reads none of it (G-140)."""
    make_long(bench, sql, 40, size=100_000)
    counting = Counting(cold.connection)
    warm = load_stream(counting, toy.REGISTRY, toy_stream())
    assert (counting.events, warm.known.state) == (41, replayed(sql))
    assert counting.most < 2_500_000
    again = Counting(cold.connection)
    assert load_stream(again, toy.REGISTRY, toy_stream()).known.state == warm.known.state
    assert again.events == 0
    assert cold.answers(simple_bump())[0]["revision"] == 42, "and a round finds it light"


def test_a_snapshot_is_left_to_whoever_writes_the_stream(bench: Bench, cold: Bench, sql: Sql, toys_url: str):
    """The load waits for nobody: while the head is held it stores nothing."""
    make_long(bench, sql, 150)
    with psycopg.connect(toys_url) as writer:
        writer.execute("select 1 from stream_heads for no key update")
        assert load_stream(cold.connection, toy.REGISTRY, toy_stream()).known.state == replayed(sql)
    assert sql.execute("select count(*) from snapshots").fetchone() == (0,)
    cold.run(simple_bump())


def test_a_stream_that_is_not_there_is_not_heavy(cold: Bench):
    assert load_stream(cold.connection, toy.REGISTRY, toy_stream("absent")) is None
    assert cold.answers(simple_bump("absent"))[0]["revision"] == 2


# ---- in the loop and in the lane ----------------------------------------------------------------------------------


async def test_others_are_answered_while_a_long_history_is_loaded(store: EventStore, bench: Bench, sql: Sql):
    """20 MB without a snapshot, and 40 commands of others in the same batches: these come first, and all are done."""
    make_long(bench, sql, 50, size=400_000)
    order: list[str] = []

    async def ask(wish: Command, who: str) -> Any:
        answer = body(await store.execute(wish))
        order.append(who)
        return answer

    poison, *others = await asyncio.gather(
        ask(simple_bump(1), "poison"), *(ask(simple_bump(n), "other") for n in range(2, 42))
    )
    assert (poison["revision"], {answer["revision"] for answer in others}) == (52, {2})
    assert order == ["other"] * 40 + ["poison"]


async def test_a_fence_finds_what_the_one_before_it_left(store: EventStore, monkeypatch: pytest.MonkeyPatch):
    """The lane keeps states as the loop does, checked against the locked head."""
    known: list[bool] = []

    class Watched(Round):
        def run(self, *args: Any, **kwargs: Any) -> Any:
            known.append(self._cache.get(flag_stream().name) is not None)
            return super().run(*args, **kwargs)

    monkeypatch.setattr(store.lane, "_make_round", Watched)
    for down in (True, False, True, False):
        await store.execute(lower_flag(down=down))
    assert known.count(True) >= 2, "each of its two threads is cold once"
    assert body(await store.execute(lower_flag())) == {"revision": 5}


async def test_a_fence_over_a_long_history_is_carried_out(store: EventStore, bench: Bench, sql: Sql):
    """What is heavy is loaded between two attempts, while the fence holds neither a gate nor a thread of the lane."""
    make_long(bench, sql, LIGHT_EVENTS + 50)
    stream = toy_stream()

    def decide(unit: Unit) -> Answer:
        unit.append(stream, [toy.ToyClosed("fenced")])
        return Answer(200, {"revision": unit.revision(stream)})

    fence = command(decide, stream, gates=(), exclusive=("proj_a",))
    assert body(await store.execute(fence)) == {"revision": LIGHT_EVENTS + 52}


def _closing(number: int) -> Command:
    """A fence that closes a toy of a project and an account of its own."""
    stream = toy_stream(number)

    def decide(unit: Unit) -> Answer:
        unit.append(stream, [toy.ToyClosed("fenced")])
        return Answer(200, {"revision": unit.revision(stream)})

    made = command(decide, stream, gates=(), exclusive=(f"proj_{number}",))
    return replace(made, tenant=f"account_{number}")


async def test_accounts_with_long_histories_leave_the_lane_to_others(
    store: EventStore, bench: Bench, sql: Sql, monkeypatch: pytest.MonkeyPatch
):
    """However many accounts send fences over what takes long to load, another one's waits for none of it (P25)."""
    long = LIGHT_EVENTS + 50
    for number in range(4):
        make_long(bench, sql, long, stream=toy_stream(number))
    bench.run(simple_bump(9))
    load = lane_module.attempt

    def slow(*args: Any) -> Any:
        time.sleep(0.4)
        return load(*args)

    monkeypatch.setattr(lane_module, "attempt", slow)
    flood = [asyncio.create_task(store.execute(_closing(number))) for number in range(4)]
    await asyncio.sleep(0.1)
    began = time.monotonic()
    assert body(await store.execute(_closing(9))) == {"revision": 3}
    assert time.monotonic() - began < 0.35
    assert not any(task.done() for task in flood)
    assert [body(outcome) for outcome in await asyncio.gather(*flood)] == [{"revision": long + 2}] * 4


async def test_a_warmer_serves_tenants_in_turn(toys_url: str, bench: Bench, sql: Sql):
    """One tenant's many heavy streams do not come before the first of another's."""
    for number in range(6):
        make_long(bench, sql, LIGHT_EVENTS + 50, stream=toy_stream(number))
    warmer = Warmer(toys_url, toy.REGISTRY, "test-warm")
    warmer.ask([*(Wanted(toy_stream(number), "flood") for number in range(5)), Wanted(toy_stream(5), "quiet")])
    order: list[str] = []

    class Cache(StateCache):
        def lend(self, name: Any, known: Any) -> None:
            order.append(name[1])
            super().lend(name, known)

    warmer.start()
    async with asyncio.timeout(5):
        while len(order) < 6:
            warmer.deliver(Cache())
            await asyncio.sleep(0.01)
    warmer.stop()
    assert order.index("toy_5") == 1


# ---- a transaction that takes too long ----------------------------------------------------------------------------


@contextmanager
def short_transactions(store: EventStore) -> Iterator[None]:
    """Let the server end this store's transactions after half a second."""
    store.loop._session._transaction_timeout_ms = 500
    yield


async def test_a_command_that_outlasts_its_transaction_fails_alone(toys_url: str, sql: Sql):
    """Told from a lost connection: its batch runs one by one, once, and only the one at fault is not done."""
    store = EventStore(toys_url, toy.REGISTRY)
    attempts = 0

    def endless(unit: Unit) -> Answer:
        nonlocal attempts
        attempts += 1
        time.sleep(0.7)
        unit.append(toy_stream("bad"), [toy.ToyOpened("x")])
        return Answer(200, None)

    with short_transactions(store):
        await store.start()
    told = await asyncio.gather(
        *(store.execute(simple_bump(n)) for n in range(10)),
        store.execute(command(endless, toy_stream("bad"))),
        *(store.execute(simple_bump(n)) for n in range(10, 20)),
        return_exceptions=True,
    )
    await store.stop()
    assert type(told.pop(10)) is CommandNotDone
    assert {body(answer)["revision"] for answer in told} == {2}
    assert attempts == 2
    assert sql.execute("select count(*) from stream_heads").fetchone() == (20,)


# ---- damage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heavy", [False, True])
async def test_a_stream_whose_head_and_log_differ_answers_alone(store: EventStore, bench: Bench, sql: Sql, heavy: bool):
    """Its neighbours in the batch are done; whether it is read in the round or before it."""
    bench.run(simple_bump(1), simple_bump(2))
    if heavy:
        make_long(bench, sql, LIGHT_EVENTS)
    sql.execute("update stream_heads set revision = revision + 1 where stream_id = 'toy_1'")
    told = await asyncio.gather(
        *(store.execute(simple_bump(n)) for n in (1, 2, 3)),
        store.execute(bump(Bump("toy_1", key="k"))),
        return_exceptions=True,
    )
    assert [type(answer) for answer in told] == [StreamDamaged, type(told[1]), type(told[1]), StreamDamaged]
    assert [body(answer)["revision"] for answer in told[1:3]] == [3, 2]
    assert sql.execute("select count(*) from idempotency where key = 'k'").fetchone() == (0,)
    sql.execute("update stream_heads set revision = revision - 1 where stream_id = 'toy_1'")
    assert body(await store.execute(bump(Bump("toy_1", key="k"))))["first"] > 1, "mended, it goes on"


def test_a_command_that_does_not_look_at_a_damaged_stream_is_carried_out(bench: Bench, sql: Sql):
    bench.run(simple_bump(1))
    bench.cache.clear()
    sql.execute("update stream_heads set revision = 7 where stream_id = 'toy_1'")
    blind = command(lambda unit: Answer(200, {"revision": unit.revision(toy_stream(2))}), toy_stream(2), toy_stream(1))
    looking = command(lambda unit: Answer(200, {"revision": unit.revision(toy_stream(1))}), toy_stream(1))
    result = bench.run(entry_of(blind), entry_of(looking))
    assert [type(answer) for _, answer in result.done][1] is StreamDamaged
    assert body(result.done[0][1]) == {"revision": 0}
