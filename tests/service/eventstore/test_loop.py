"""The command loop: answers only what is committed, finds its own work again, and lets nobody stand in the way."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import random
import time
import weakref
from collections import Counter
from typing import Any

import msgspec
import psycopg
import pytest

from service.eventstore import store as store_module
from service.eventstore.connect.connection import connect
from service.eventstore.connect.hosts import NOTICE_SILENCE
from service.eventstore.declare import names
from service.eventstore.declare.commands import (
    Answer,
    Command,
    CommandFailed,
    KeyInProgress,
    KeyReused,
    Outcome,
    OutcomeUnknown,
    Unit,
)
from service.eventstore.state import cache as entry_module
from service.eventstore.store import DOCUMENT_BYTES, EventStore
from service.eventstore.write.loop import CAPACITY, PER_STREAM, PER_TENANT
from service.fairness.turns import CommandNotDone
from statemachines.kernel.machine import PreconditionFailed
from tests.support import toy
from tests.support.proxy import Fault, PostgresProxy, in_order
from tests.support.rounds import body, count, head, history, holding, name
from tests.support.toy import Bump, ToyBumped, ToyConflict, ToyOpened, bump, command, simple_bump, toy_stream

Sql = psycopg.Connection[Any]


async def answers(store: EventStore, *commands: Command) -> list[Any]:
    """Execute all at once; bodies and exceptions in the order of the commands."""
    outcomes = await asyncio.gather(*(store.execute(c) for c in commands), return_exceptions=True)
    return [body(outcome) for outcome in outcomes]


# ---- answers ------------------------------------------------------------------------------------------------------


async def test_answers_follow_the_commit(store: EventStore, sql: Sql):
    """What a caller is told is in the log, at the revision it was told; on one stream in the order of arrival."""
    told = await answers(store, *(simple_bump(op=str(n)) for n in range(32)))
    assert [answer["revision"] for answer in told] == list(range(2, 34))
    assert [answer["total"] for answer in told] == list(range(1, 33))
    assert len(history(sql)) == 33


async def test_refusals_reach_their_callers_alone(store: EventStore, sql: Sql):
    def refuse(_: Unit) -> Answer:
        raise ToyConflict("No.")

    told = await answers(
        store, simple_bump(1), command(refuse, toy_stream(2)), simple_bump(3, expected=5), simple_bump(4)
    )
    assert [type(answer) for answer in told] == [dict, ToyConflict, PreconditionFailed, dict]
    assert {stream for stream, _, _ in history(sql)} == {"toy_1", "toy_4"}


async def test_a_large_document_holds_up_no_small_command(store: EventStore):
    """Documents are written by a loop of their own: what they cost the database is nobody else's wait (P25)."""

    def slow(unit: Unit) -> Answer:
        time.sleep(0.6)
        return Answer(200, None)

    wish = dataclasses.replace(command(slow, toy_stream(1)), weight=DOCUMENT_BYTES + 1)
    document = asyncio.create_task(store.execute(wish))
    await asyncio.sleep(0.05)
    began = time.monotonic()
    await store.execute(simple_bump(2))
    assert time.monotonic() - began < 0.4
    assert not document.done()
    await document


async def test_a_refusal_keeps_nothing_of_what_was_sent(store: EventStore):
    """It goes when its caller lets go of it, not when the collector of cycles comes by: documents are large (P26)."""

    class Document:
        pass

    def wish() -> tuple[Command, Any]:
        document = Document()

        def refuse(_: Unit, kept: Document = document) -> Answer:
            raise ToyConflict("No.")

        return command(refuse, toy_stream(2)), weakref.ref(document)

    async def send() -> Any:
        made, reference = wish()
        with pytest.raises(ToyConflict):
            await store.execute(made)
        return reference

    gc.collect()
    gc.disable()
    try:
        reference = await send()
        await store.execute(simple_bump(1))  # the thread that refused it has let go of it by then
        assert reference() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "poison",
    [
        pytest.param({"note": "a\0b"}, id="22P05: a NUL in a payload"),
        pytest.param({"by": 2**70}, id="22003: a number that no column holds"),
        pytest.param({"key": "a\0b"}, id="a NUL that the driver refuses"),
    ],
)
async def test_one_poisoned_command_among_two_hundred_fails_alone(store: EventStore, sql: Sql, poison: dict[str, Any]):
    """The batch is run again one by one: the culprit is refused, its neighbours are done, nothing of it is stored."""
    commands = [simple_bump(n, op=str(n)) for n in range(199)]
    commands.insert(120, simple_bump("bad", **poison))
    told = await answers(store, *commands)
    assert isinstance(told.pop(120), CommandFailed)
    assert all(answer["total"] == 1 for answer in told)
    assert count(sql, "stream_heads") == 199
    assert count(sql, "events") == 2 * 199
    assert sql.execute("select count(*) from idempotency where operation like '%bad%'").fetchone() == (0,)


async def test_a_bug_in_a_unit_is_its_callers_alone(store: EventStore):
    def broken(_: Unit) -> Answer:
        raise ZeroDivisionError

    told = await answers(store, simple_bump(1), command(broken, toy_stream(2)), simple_bump(3))
    assert [type(answer) for answer in told] == [dict, ZeroDivisionError, dict]


async def test_an_event_the_loop_cannot_encode_is_its_callers_alone(store: EventStore, sql: Sql):
    """A bug found only while the batch is written still leaves the neighbours whole."""

    def unspeakable(unit: Unit) -> Answer:
        unit.append(toy_stream(2), [ToyOpened(object())])
        return Answer(200, None)

    told = await answers(store, simple_bump(1), command(unspeakable, toy_stream(2)), simple_bump(3))
    assert [type(answer) for answer in told] == [dict, TypeError, dict]
    assert {stream for stream, _, _ in history(sql)} == {"toy_1", "toy_3"}
    assert await answers(store, simple_bump(2)) == [{"first": 1, "revision": 2, "total": 1, "op": ""}]


async def test_threads_without_an_event_loop_are_answered_too(store: EventStore):
    outcome = await asyncio.to_thread(store.execute_sync, simple_bump(by=4))
    assert body(outcome)["total"] == 4
    with pytest.raises(PreconditionFailed):
        await asyncio.to_thread(store.execute_sync, simple_bump(expected=9))


async def test_a_caller_that_went_away_changes_nothing(store: EventStore, sql: Sql):
    """Its command stands, and the others of the batch are answered."""
    gone = asyncio.ensure_future(store.execute(simple_bump(op="gone")))
    stays = asyncio.ensure_future(store.execute(simple_bump(op="stays")))
    await asyncio.sleep(0)
    gone.cancel()
    assert body(await stays)["total"] == 2
    assert len(history(sql)) == 3


# ---- keys ---------------------------------------------------------------------------------------------------------


async def test_twins_across_processes_have_one_effect(store: EventStore, peer_store: EventStore, sql: Sql):
    """32 twins of each of 20 keys, half of them in another process: one event each, equal bytes for all."""
    outcomes = await asyncio.gather(
        *(
            where.execute(simple_bump(n % 5, by=n, op=f"k{n}", key=f"k{n}"))
            for n in range(20)
            for where in (store, peer_store)
            for _ in range(3)
        )
    )
    by_key: dict[str, set[bytes]] = {}
    for outcome in outcomes:
        by_key.setdefault(body(outcome)["op"], set()).add(outcome.body)
    assert {len(bodies) for bodies in by_key.values()} == {1}
    assert sum(not outcome.replayed for outcome in outcomes) == 20
    assert count(sql, "events") == 20 + 5
    assert count(sql, "idempotency") == 20


async def test_twins_with_streams_of_their_own_have_one_effect(store: EventStore, peer_store: EventStore, sql: Sql):
    """Each twin would create another stream (a server-made id): the key alone keeps it to one."""

    def create(n: int) -> Command:
        stream = toy_stream(f"fresh_{n}")

        def decide(unit: Unit) -> Answer:
            unit.append(stream, [ToyOpened("x")])
            return Answer(201, {"id": stream.id})

        return command(decide, stream, key="one")

    told = await asyncio.gather(*(where.execute(create(n)) for n in range(16) for where in (store, peer_store)))
    assert len({outcome.body for outcome in told}) == 1
    assert count(sql, "stream_heads") == 1


async def test_a_reused_key_is_refused_across_processes(store: EventStore, peer_store: EventStore):
    await store.execute(simple_bump(key="k"))
    with pytest.raises(KeyReused):
        await peer_store.execute(simple_bump(key="k", by=2))


async def test_the_first_event_of_a_stream_is_raced_for(store: EventStore, peer_store: EventStore, sql: Sql):
    """Two processes, 40 streams that do not exist, every rival expecting none: one winner each, others refused."""
    told = await asyncio.gather(
        *(
            where.execute(simple_bump(n, expected=0, op=f"{w}{m}"))
            for n in range(40)
            for m in range(4)
            for w, where in enumerate((store, peer_store))
        ),
        return_exceptions=True,
    )
    kinds = Counter(type(answer) for answer in told)
    assert kinds == {Outcome: 40, PreconditionFailed: 280}
    assert sql.execute("select distinct revision from stream_heads").fetchall() == [(2,)]


# ---- lost acknowledgements ----------------------------------------------------------------------------------------


@pytest.fixture
async def far_store(proxied: PostgresProxy) -> Any:
    """A store whose connections go through the proxy."""
    running = EventStore(proxied.url, toy.REGISTRY)
    await running.start()
    yield running
    proxied.thaw()
    await running.stop()


@pytest.mark.parametrize("fault", [Fault.EAT, Fault.ZOMBIE])
@pytest.mark.parametrize("key", ["k", None])
async def test_a_lost_commit_answers_as_if_nothing_had_happened(
    far_store: EventStore, proxied: PostgresProxy, sql: Sql, fault: Fault, key: str | None
):
    """The loop runs the batch again, finds its own records, and gives every caller its original answer.

    With a client's key and without; and with a fence that the command's own commit has made stale.
    """
    await far_store.execute(simple_bump(1))
    proxied.choose = in_order(fault)
    told = await answers(
        far_store, simple_bump(1, key=key, expected=2), simple_bump(2, expected=0), simple_bump(3, by=7)
    )
    assert proxied.fired[fault.value] == 1
    assert [(answer["revision"], answer["total"]) for answer in told] == [(3, 2), (2, 1), (2, 7)]
    assert Counter(stream for stream, _, _ in history(sql)) == {"toy_1": 3, "toy_2": 2, "toy_3": 2}


async def test_a_secret_shown_once_survives_a_lost_commit(far_store: EventStore, proxied: PostgresProxy, sql: Sql):
    """Its record does not hold it, the waiting submission does."""

    def mint(unit: Unit) -> Answer:
        unit.append(toy_stream(), [ToyOpened("x")])
        return Answer(201, {"secret": f"made at {unit.revision(toy_stream())}"}, stored={"secret": None})

    proxied.choose = in_order(Fault.EAT)
    outcome = await far_store.execute(command(mint, toy_stream(), key="k"))
    assert body(outcome) == {"secret": "made at 1"}
    assert proxied.fired["eaten"] == 1
    assert len(history(sql)) == 1


async def test_several_losses_in_a_row_are_survived(far_store: EventStore, proxied: PostgresProxy, sql: Sql):
    proxied.choose = in_order(*[Fault.EAT, Fault.ZOMBIE] * 10)
    told = []
    for n in range(20):
        told += await answers(far_store, simple_bump(1, op=f"a{n}"), simple_bump(n, project="proj_b", expected=0))
    assert proxied.fired["eaten"] == proxied.fired["zombie"] == 10
    assert [answer["total"] for answer in told[::2]] == list(range(1, 21))
    assert count(sql, "events") == 21 + 40


async def test_a_connection_that_breaks_anywhere_is_survived(far_store: EventStore, proxied: PostgresProxy, sql: Sql):
    """Cut at 25 arbitrary moments under load: every command is answered once, and is there once."""
    stopped = asyncio.Event()
    progress = asyncio.Event()

    async def load(worker: int) -> int:
        done = 0
        while not stopped.is_set():
            outcome = await far_store.execute(simple_bump(worker, op=f"{worker}-{done}"))
            done += 1
            assert body(outcome)["total"] == done
            progress.set()
        return done

    workers = [asyncio.create_task(load(worker)) for worker in range(16)]
    for _ in range(25):
        progress.clear()
        await progress.wait()
        await asyncio.sleep(random.uniform(0, 0.05))
        proxied.cut()
    stopped.set()
    totals = await asyncio.gather(*workers)
    assert sum(totals) > 25
    stored = dict(sql.execute("select id, total from toys").fetchall())
    assert stored == {f"toy_{worker}": total for worker, total in enumerate(totals)}
    assert proxied.fired["cut"] >= 20


async def test_what_is_in_doubt_is_never_called_not_done(
    far_store: EventStore, proxied: PostgresProxy, sql: Sql, monkeypatch: pytest.MonkeyPatch
):
    """The acknowledgement is lost and the database stays away: unknown for what was under way, not done for the rest.

    And the work whose outcome was unknown is there; asked again with its key, it is replayed.
    """
    monkeypatch.setattr(entry_module, "DEADLINE", 0.4)
    monkeypatch.setattr(entry_module, "DOUBT_DEADLINE", 0.4)

    def eat_and_leave() -> Fault:
        proxied.dial = _nowhere
        return Fault.EAT

    await far_store.execute(simple_bump(1))
    proxied.choose = eat_and_leave
    doubtful = asyncio.ensure_future(far_store.execute(simple_bump(1, key="k")))
    await asyncio.sleep(0.15)
    later = await answers(far_store, simple_bump(2, key="later"))
    assert [type(answer) for answer in later] == [CommandNotDone]
    with pytest.raises(OutcomeUnknown):
        await doubtful
    assert len(history(sql)) == 3
    del proxied.dial
    proxied.choose = in_order()
    outcome = await far_store.execute(simple_bump(1, key="k"))
    assert (outcome.replayed, body(outcome)["total"]) == (True, 2)
    assert len(history(sql)) == 3
    assert sql.execute("select count(*) from idempotency where key = 'later'").fetchone() == (0,)


def _nowhere() -> Any:
    raise OSError


async def test_a_database_that_is_away_for_a_moment_costs_time_only(
    far_store: EventStore, proxied: PostgresProxy, sql: Sql
):
    await far_store.execute(simple_bump(1))
    proxied.dial = _nowhere
    proxied.cut()
    waiting = asyncio.ensure_future(answers(far_store, *(simple_bump(n) for n in range(50))))
    await asyncio.sleep(0.5)
    assert not waiting.done()
    del proxied.dial
    assert all(answer["op"] == "" for answer in await waiting)
    assert count(sql, "stream_heads") == 50


@pytest.mark.parametrize("exclusive", [False, True])
async def test_a_database_that_says_nothing_any_more_lets_nobody_hang(
    far_store: EventStore, proxied: PostgresProxy, sql: Sql, monkeypatch: pytest.MonkeyPatch, exclusive: bool
):
    """Neither an answer nor an end of the connection: who asked hears that the outcome is unknown.

    When the database is heard again, the work is done once or not at all, and asking again tells.
    """
    wish = toy.lower_flag if exclusive else simple_bump
    await far_store.execute(wish())
    monkeypatch.setattr(store_module, "LONGEST", 0.4)
    proxied.freeze()
    with pytest.raises(OutcomeUnknown):
        await far_store.execute(wish(key="k"))
    with pytest.raises(OutcomeUnknown):
        await asyncio.to_thread(far_store.execute_sync, wish(key="k2"))
    proxied.thaw()
    monkeypatch.setattr(store_module, "LONGEST", 15)
    before = len(history(sql))
    outcome = await far_store.execute(wish(key="k"))
    if not exclusive:
        assert body(outcome)["total"] in {2, 3}
        assert len(history(sql)) - before in {0, 1, 2}
        assert (
            count(sql, "events") == 2 + sql.execute("select count(*) from idempotency where client_key").fetchone()[0]
        )
    assert sql.execute("select count(*) from idempotency where key = 'k'").fetchone() == (1,)


def test_a_host_that_is_gone_is_noticed(toys_url: str):
    """Over TCP an unanswered connection is given up after seconds, not after the kernel's quarter of an hour."""
    connection = connect(toys_url, application="test")
    parameters = connection.info.get_parameters()
    assert {name: parameters[name] for name in NOTICE_SILENCE} == {n: str(v) for n, v in NOTICE_SILENCE.items()}
    connection.close()


# ---- stalled peers ------------------------------------------------------------------------------------------------


async def test_a_stalled_peer_harms_what_it_holds_and_nothing_else(toys_url: str, store: EventStore, sql: Sql):
    """A peer sits on a hot stream, a new stream's name, a key and a gate; everything else goes on at its pace.

    In the same project, too. What needs those names is told after its deadline that it was not done (for the key:
    that its twin is still at work), and was not.
    """
    await answers(store, *(simple_bump(n) for n in range(10)), simple_bump("g", project="proj_gated"))
    undisturbed = max([await _free_round(store, []) for _ in range(40)])
    before = count(sql, "events")
    key = names.key("proj_a", "key:k1", "POST /toys/toy_2/bump", "held")
    with holding(toys_url, head("toy_1"), name("new:proj_a/toy_new"), name(key), name("gate:proj_gated")):
        stuck = [
            asyncio.ensure_future(_timed(store, held))
            for held in (
                *(simple_bump(1, key=f"stuck{n}") for n in range(20)),
                simple_bump("new", key="stuck"),
                simple_bump("g", project="proj_gated", key="stuck"),
                simple_bump(2, key="held"),
            )
        ]
        await asyncio.sleep(0.05)
        latencies: list[float] = []
        end = time.monotonic() + 2.0
        while time.monotonic() < end:
            await _free_round(store, latencies)
        told = await asyncio.gather(*stuck)
    latencies.sort()
    assert latencies[len(latencies) // 2] < 0.05 + undisturbed
    assert latencies[-1] < 0.6 + undisturbed  # One bounded wait of at most 250 ms, and the rounds around it.
    assert [type(answer) for answer, _ in told] == [*[CommandNotDone] * 22, KeyInProgress]
    assert all(2.4 < seconds < 3.2 for _, seconds in told)
    assert sql.execute("select count(*) from idempotency where key like 'stuck%'").fetchone() == (0,)
    assert sql.execute("select revision from stream_heads where stream_id = 'toy_1'").fetchone() == (2,)
    assert count(sql, "events") == before + len(latencies)
    # The peer is gone: everything works again at once, and the loop waits for heads again.
    again, seconds = await _timed(store, simple_bump(1))
    assert body(again)["total"] == 2
    assert seconds < 0.3
    assert store.loop._stalled == {}


async def _free_round(store: EventStore, latencies: list[float]) -> float:
    """Bump streams that nobody holds, some in the same project, all at once; returns the slowest answer's seconds."""
    free = [simple_bump(n) for n in range(2, 10)] + [simple_bump(f"b{n}", project="proj_b") for n in range(4)]
    found = await asyncio.gather(*(_timed(store, command) for command in free))
    assert [answer for answer, _ in found if not isinstance(answer, Outcome)] == []
    latencies += [seconds for _, seconds in found]
    return max(seconds for _, seconds in found)


async def _timed(store: EventStore, wish: Command) -> tuple[Outcome | Exception, float]:
    began = time.monotonic()
    try:
        answer: Outcome | Exception = await store.execute(wish)
    except (CommandNotDone, KeyInProgress, OutcomeUnknown) as error:
        answer = error
    return answer, time.monotonic() - began


async def test_a_peer_that_lets_go_in_time_costs_its_stream_time_only(toys_url: str, store: EventStore):
    """Parked commands are carried out, in order, when the stream is free."""
    await store.execute(simple_bump(1))
    with holding(toys_url, head("toy_1")) as peer:
        waiting = asyncio.ensure_future(answers(store, *(simple_bump(1, op=str(n)) for n in range(30))))
        await asyncio.sleep(0.7)
        assert not waiting.done()
        peer.rollback()
        told = await waiting
    assert [answer["op"] for answer in told] == [str(n) for n in range(30)]
    assert [answer["total"] for answer in told] == list(range(2, 32))


async def test_a_stream_that_is_held_has_room_for_so_many(toys_url: str, store: EventStore):
    """The bulkhead: beyond 32 that wait for a stalled stream, more are refused at once, those of others are not.

    Besides those that wait, as many may be in the batch that is just looking whether the stream is free.
    """
    await answers(store, simple_bump(1), simple_bump(2))
    with holding(toys_url, head("toy_1")) as peer:
        asked = [asyncio.ensure_future(_timed(store, simple_bump(1))) for _ in range(PER_STREAM)]
        for _ in range(2 * PER_STREAM):
            await asyncio.sleep(0.005)
            asked.append(asyncio.ensure_future(_timed(store, simple_bump(1))))
        await asyncio.sleep(0.05)
        refused = [task.result() for task in asked if task.done()]
        assert PER_STREAM <= len(refused) < 2 * PER_STREAM + 1
        assert {type(answer) for answer, _ in refused} == {CommandNotDone}
        assert max(seconds for _, seconds in refused) < 0.5
        other, _ = await _timed(store, simple_bump(2))
        assert isinstance(other, Outcome)
        peer.rollback()
        told = [body(answer) for answer, _ in await asyncio.gather(*asked) if isinstance(answer, Outcome)]
    assert [answer["total"] for answer in told] == list(range(2, 3 * PER_STREAM - len(refused) + 2))


async def test_a_full_queue_refuses_at_once(toys_url: str, sql: Sql):
    """A full share its tenant alone, a full queue everybody; with a committer all that was admitted is done."""
    store = EventStore(toys_url, toy.REGISTRY)
    tenants = [f"proj_{number}" for number in range(CAPACITY // PER_TENANT)]
    waiting = []
    for tenant in tenants:
        mine = [simple_bump(n, project=tenant) for n in range(PER_TENANT)]
        waiting += [asyncio.ensure_future(store.execute(command)) for command in mine]
        await asyncio.sleep(0)
        with pytest.raises(CommandNotDone):
            await store.execute(simple_bump("late", project=tenant))
    assert store.loop.depth == CAPACITY
    with pytest.raises(CommandNotDone):
        await store.execute(simple_bump("late", project="proj_other"))
    store.start_writing()
    told = await asyncio.gather(*waiting)
    assert {body(outcome)["total"] for outcome in told} == {1}
    assert count(sql, "stream_heads") == CAPACITY
    await store.stop()


async def test_stopping_answers_everybody(toys_url: str, store: EventStore, sql: Sql):
    """What runs is finished, what waits is told that it was not done, what comes later is refused."""
    await store.execute(simple_bump(1))
    with holding(toys_url, head("toy_1")):
        stuck = asyncio.ensure_future(store.execute(simple_bump(1)))
        await asyncio.sleep(0.1)
        await store.stop()
        with pytest.raises(CommandNotDone):
            await stuck
    with pytest.raises(CommandNotDone):
        await store.execute(simple_bump(2))
    assert len(history(sql)) == 2


async def test_a_session_that_is_ended_by_the_server_is_replaced(store: EventStore, sql: Sql):
    """pg_terminate_backend, as the fence lane does: the loop connects anew and nobody notices."""
    await store.execute(simple_bump(1))
    ended = sql.execute(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity "
        "where application_name = 'service-loop' and datname = current_database()"
    ).fetchone()
    assert ended == (1,)
    told = await answers(store, *(simple_bump(n) for n in range(20)))
    assert [answer["total"] for answer in told] == [1, 2, *[1] * 18]


async def test_the_clock_of_a_unit_is_that_of_the_database(store: EventStore, sql: Sql):
    """Read after the locks, shared by the batch, moved by the test clock, and stored with the event."""
    seen: list[int] = []

    def look(unit: Unit) -> Answer:
        seen.append(unit.now)
        unit.append(toy_stream(), [ToyOpened("x")] if unit.revision(toy_stream()) == 0 else [ToyBumped(1)])
        return Answer(200, None)

    await store.execute(command(look, toy_stream()))
    sql.execute("select advance_service_clock(5000)")
    await store.execute(command(look, toy_stream()))
    stored = [
        at for (at,) in sql.execute("select floor(extract(epoch from recorded_at))::int from events order by seq")
    ]
    assert seen == stored
    assert 5000 <= stored[1] - stored[0] < 5010


async def test_many_streams_at_once_in_one_command(store: EventStore, sql: Sql):
    """A command over 100 new streams is one unit: all of it or nothing."""
    streams = [toy_stream(n) for n in range(100)]

    def open_all(unit: Unit) -> Answer:
        for stream in streams:
            unit.append(stream, [ToyOpened("x"), ToyBumped(2)])
        return Answer(200, None)

    await store.execute(command(open_all, *streams))
    assert count(sql, "stream_heads") == 100
    with pytest.raises(ToyConflict):
        await store.execute(command(open_all, toy_stream("more"), *streams))
    assert count(sql, "stream_heads") == 100


async def test_a_store_says_how_it_stands(store: EventStore):
    await store.execute(bump(Bump("toy_1")))
    assert store.loop.depth == 0
    assert store.loop.rounds >= 1
    assert store.loop.commands == 1
    row = await store.get(toy.TOYS, "proj_a", "toy_1")
    assert msgspec.structs.replace(row, seen_at=0, ops=[]) == toy.ToyRow(
        project_id="proj_a",
        id="toy_1",
        revision=2,
        label="new",
        total=1,
        closed=False,
        note=None,
        ops=[],
        seen_at=0,
        seen_by="key:k1",
    )
    assert await store.get(toy.TOYS, "proj_a", "toy_9") is None
