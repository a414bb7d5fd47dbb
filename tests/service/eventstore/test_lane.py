"""Fences: points in the log after which nothing starts, whoever was under way."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.eventstore.declare.commands import Answer, CommandFailed, KeyReused, Unit
from service.eventstore.log.sequencer import Sequencer
from service.eventstore.store import EventStore
from service.eventstore.write.lane import PER_TENANT, FenceLane
from service.fairness.turns import CommandNotDone
from statemachines.kernel.machine import PreconditionFailed
from tests.support import toy
from tests.support.proxy import Fault, PostgresProxy, in_order
from tests.support.rounds import body, count, head, history, holding, name, wait_until
from tests.support.toy import (
    FlagLowered,
    FlagRaised,
    ToyConflict,
    ToyFenced,
    command,
    flag_stream,
    lower_flag,
    simple_bump,
    toy_stream,
)

Sql = psycopg.Connection[Any]


async def test_nothing_passes_a_fence(store: EventStore, peer_store: EventStore, sql: Sql, sequencer: Sequencer):
    """32 writers in two processes, 60 fences: after an acknowledgement nothing it forbids is committed.

    Checked twice: no command that started after the acknowledgement succeeded, and in the log no bump stands between
    a lowering of the flag and the next raising.
    """
    stopped = asyncio.Event()
    fenced_at: dict[str, float] = {}
    projects = [f"proj_{n}" for n in range(3)]
    tally = {"ok": 0, "refused": 0, "leaks": 0}

    async def write(worker: int) -> None:
        where = (store, peer_store)[worker % 2]
        n = 0
        while not stopped.is_set():
            project = projects[n % 3]
            n += 1
            was_fenced = fenced_at.get(project)
            try:
                await where.execute(simple_bump(worker, project=project, flagged=True))
            except ToyFenced:
                tally["refused"] += 1
            else:
                tally["ok"] += 1
                if was_fenced is not None and fenced_at.get(project) == was_fenced:
                    tally["leaks"] += 1

    writers = [asyncio.create_task(write(worker)) for worker in range(32)]
    slowest = 0.0
    for n in range(60):
        project = projects[n % 3]
        began = time.monotonic()
        await (store, peer_store)[n % 2].execute(lower_flag(project))
        slowest = max(slowest, time.monotonic() - began)
        fenced_at[project] = began
        await asyncio.sleep(0.02)
        del fenced_at[project]
        await store.execute(lower_flag(project, down=False))
    stopped.set()
    await asyncio.gather(*writers)
    assert tally["leaks"] == 0
    assert tally["ok"] > 500
    assert tally["refused"] > 100
    assert slowest < 1.2
    down: set[str] = set()
    for project, topic in sql.execute("select project_id, topic from events order by seq").fetchall():
        if topic == FlagLowered.TOPIC:
            down.add(project)
        elif topic == FlagRaised.TOPIC:
            down.discard(project)
        else:
            assert project not in down, "a bump behind a fence"


def fence_waits(sql: Sql) -> bool:
    rows = sql.execute(
        "select 1 from pg_stat_activity where application_name = 'service-fence' and wait_event_type = 'Lock' "
        "and datname = current_database()"
    )
    return rows.fetchone() is not None


async def test_a_stalled_holder_of_the_gate_is_ended(toys_url: str, store: EventStore, sql: Sql):
    """The fence stands in under two seconds, and the holder's session is gone with whatever it was about to do.

    Nothing gets in behind it, and whoever holds another gate is left alone.
    """
    with (
        holding(toys_url, name("gate:proj_a", shared=True)) as stalled,
        holding(toys_url, name("gate:proj_b", shared=True)) as bystander,
    ):
        stalled.execute("create table half_done (id int)")
        began = time.monotonic()
        waiting = asyncio.ensure_future(store.execute(lower_flag()))
        await asyncio.to_thread(wait_until, lambda: fence_waits(sql))
        late = asyncio.ensure_future(store.execute(simple_bump(flagged=True)))
        await waiting
        assert 1.0 < time.monotonic() - began < 2.0
        # While the fence turns from waiting to ending, a short command may slip in before it, never behind it.
        [slipped] = await asyncio.gather(late, return_exceptions=True)
        with pytest.raises(psycopg.OperationalError):
            stalled.execute("select 1")
        assert bystander.execute("select 1").fetchone() == (1,)
    assert sql.execute("select to_regclass('half_done')").fetchone() == (None,)
    before_it = [] if isinstance(slipped, ToyFenced) else [("toy_1", 1, "toy.opened"), ("toy_1", 2, "toy.bumped")]
    assert history(sql) == [*before_it, (flag_stream().id, 1, "toyflag.lowered")]


async def test_a_fence_does_not_queue_behind_the_loop(toys_url: str, store: EventStore):
    """With the loop's queue full of commands that wait for a held stream, the fence of another project is at once."""
    await store.execute(simple_bump(1))
    with holding(toys_url, head("toy_1")) as peer:
        stuck = [asyncio.ensure_future(store.execute(simple_bump(1))) for _ in range(32)]
        await asyncio.sleep(0.1)
        await store.execute(lower_flag("proj_b"))
        assert not any(command.done() for command in stuck)
        peer.rollback()
        await asyncio.gather(*stuck)


async def test_one_tenants_fences_keep_no_other_waiting(toys_url: str, store: EventStore):
    """Each of sixteen waits in vain for a gate that is held; the fence of another tenant is there before the first."""
    projects = [f"proj_{n}" for n in range(16)]
    with holding(toys_url, *(name(f"gate:{project}", shared=True) for project in projects)):
        mine = []
        for project in projects:
            fence = lower_flag(project)
            fence.tenant = "usr_many"
            mine.append(asyncio.ensure_future(store.execute(fence)))
        await asyncio.sleep(0.1)
        await store.execute(lower_flag("proj_other"))
        assert not any(fence.done() for fence in mine)
    await asyncio.gather(*mine, return_exceptions=True)


async def test_a_fence_repeated_changes_nothing(store: EventStore, sql: Sql):
    first = await store.execute(lower_flag(key="k"))
    twin = await store.execute(lower_flag(key="k"))
    again = await store.execute(lower_flag(key="other"))
    assert (first.replayed, twin.replayed, again.replayed) == (False, True, False)
    assert first.body == twin.body == again.body
    assert len(history(sql)) == 1


async def test_fences_of_one_gate_come_one_after_the_other(store: EventStore, peer_store: EventStore, sql: Sql):
    """Eight rivals of which each expects the first revision: one wins, the rest are refused, none is lost."""

    def rival(n: int) -> Any:
        stream = flag_stream()

        def decide(unit: Unit) -> Answer:
            if unit.revision(stream) != 0:
                raise PreconditionFailed("Moved.")
            unit.append(stream, [FlagLowered()])
            return Answer(200, {"winner": n})

        return command(decide, stream, gates=(), exclusive=("proj_a",))

    told = await asyncio.gather(
        *((store, peer_store)[n % 2].execute(rival(n)) for n in range(8)), return_exceptions=True
    )
    assert sorted(type(answer).__name__ for answer in told) == ["Outcome"] + ["PreconditionFailed"] * 7
    assert len(history(sql)) == 1


async def test_refusals_bugs_and_bad_data_reach_the_caller(store: EventStore, sql: Sql):
    """And the lane goes on after each of them."""

    def refuse(_: Unit) -> Answer:
        raise ToyConflict("No.")

    def broken(_: Unit) -> Answer:
        raise ZeroDivisionError

    def poisoned(unit: Unit) -> Answer:
        unit.append(toy_stream(), [toy.ToyOpened("a\0b")])
        return Answer(200, None)

    for decide, error in ((refuse, ToyConflict), (broken, ZeroDivisionError), (poisoned, CommandFailed)):
        with pytest.raises(error):
            await store.execute(command(decide, toy_stream(), gates=(), exclusive=("proj_a",)))
    await store.execute(lower_flag(key="k"))
    other = lower_flag(key="k")
    other.request_hash = "another"
    with pytest.raises(KeyReused):
        await store.execute(other)
    assert len(history(sql)) == 1


@pytest.mark.parametrize("fault", [Fault.EAT, Fault.ZOMBIE])
async def test_a_fence_whose_acknowledgement_is_lost_answers_what_it_did(
    toys_url: str, tmp_path: Path, sql: Sql, fault: Fault
):
    """Even one that has closed the door behind itself: its own second attempt would not be let in any more."""
    proxy = PostgresProxy(toys_url, tmp_path / "proxy", in_order(fault))
    store = EventStore(proxy.url, toy.REGISTRY)
    store.start_writing()
    fence = lower_flag()
    fence.lookups = (toy.flag_lookup("proj_a"),)
    fence.authorize = toy.refuse_while_down("proj_a")
    outcome = await store.execute(fence)
    assert body(outcome) == {"revision": 1}
    assert proxy.fired[fault.value] == 1
    assert len(history(sql)) == 1
    with pytest.raises(ToyFenced):
        await store.execute(simple_bump(flagged=True))
    await store.stop()
    proxy.close()


async def test_a_full_share_refuses_at_once_and_a_stopped_lane_too(toys_url: str):
    lane = FenceLane(toys_url, toy.REGISTRY)
    loop = asyncio.get_running_loop()
    waiting = [loop.create_future() for _ in range(PER_TENANT)]
    for waiter in waiting:
        lane.submit(lower_flag(), waiter)
    with pytest.raises(CommandNotDone):
        lane.submit(lower_flag(), loop.create_future())
    waiting.append(loop.create_future())
    lane.submit(lower_flag("proj_b"), waiting[-1])
    lane.start()
    assert {outcome.body for outcome in await asyncio.gather(*waiting)} == {b'{"revision":1}'}
    await asyncio.to_thread(lane.stop)
    with pytest.raises(CommandNotDone):
        lane.submit(lower_flag(), loop.create_future())


async def test_a_fence_that_waits_in_vain_says_so(toys_url: str, store: EventStore, sql: Sql):
    """A stream of the fence that somebody holds without the gate cannot be ended by it: not done, after its time."""
    await store.execute(lower_flag())
    with holding(toys_url, head(flag_stream().id)):
        began = time.monotonic()
        with pytest.raises(CommandNotDone):
            await store.execute(lower_flag(down=False))
        assert time.monotonic() - began < 4.0
    assert count(sql, "events") == 1
