"""The follower: who listens hears of every change after the listening began, also across a lost database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio

from service.eventstore.log import follower as module
from service.eventstore.log.follower import Follower
from service.eventstore.log.sequencer import Sequencer
from service.eventstore.store import EventStore
from service.fairness.turns import ReadNotDone
from tests.support.proxy import PostgresProxy
from tests.support.toy import simple_bump

PATIENCE = 10


@pytest_asyncio.fixture
async def follower(toys_url: str, sequencer: Sequencer) -> AsyncIterator[Follower]:
    made = Follower(toys_url)
    made.start()
    yield made
    await made.stop()


def sessions(sql: psycopg.Connection[tuple[object, ...]]) -> int:
    [[number]] = sql.execute(
        "select count(*) from pg_stat_activity where application_name = 'service-follower' "
        "and datname = current_database()"
    ).fetchall()
    assert isinstance(number, int)
    return number


async def test_it_tells_of_streams_and_of_projects(follower: Follower, store: EventStore) -> None:
    """Each listener of what it named, and of nothing from before."""
    await store.execute(simple_bump(1))
    await asyncio.sleep(0.3)  # until it is numbered: what came before is nobody's news
    with (
        await follower.listen(streams=("toy_1", "toy_3")) as one,
        await follower.listen(streams=("toy_2",)) as other,
        await follower.listen(projects=("proj_a",)) as project,
    ):
        assert [one.heard, other.heard, project.heard] == [0, 0, 0]
        await store.execute(simple_bump(1))
        async with asyncio.timeout(PATIENCE):
            await one.changed(0)
            await project.changed(0)
        assert (one.heard, other.heard) == (1, 0)
        assert one.position == project.position == follower.position
        assert follower.listeners == 3
    assert follower.listeners == 0


async def test_a_change_after_the_listening_began_is_always_heard(follower: Follower, store: EventStore) -> None:
    """However close it is: sent before the listening, committed before or after it, numbered after it."""
    for number in range(20):
        running = asyncio.create_task(store.execute(simple_bump(number)))
        await asyncio.sleep(0.0005 * number)
        with await follower.listen(streams=(f"toy_{number}",)) as listener:
            [[revision]] = await store.fetch(
                "select coalesce(max(revision), 0) from events where stream_id = %s", f"toy_{number}"
            )
            if not revision:
                async with asyncio.timeout(PATIENCE):
                    await listener.changed(0)
        await running


async def test_it_works_only_while_somebody_listens(
    follower: Follower, sql: psycopg.Connection[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without listeners it has no connection, and a later listener begins at the end of the log."""
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.1)
    assert (sessions(sql), follower.position) == (0, None)
    for _ in range(2):
        with await follower.listen(streams=("toy_1",)):
            assert sessions(sql) == 1
        give_up = time.monotonic() + PATIENCE
        while sessions(sql):
            assert time.monotonic() < give_up
            await asyncio.sleep(0.02)
        assert follower.position is None


async def test_a_lost_connection_skips_no_position(
    store: EventStore,
    sequencer: Sequencer,
    proxy: PostgresProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was written while the database was cut off or silent is heard once it is back."""
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.3)
    made = Follower(proxy.url)
    made.start()
    with await made.listen(streams=("toy_1",)) as listener:
        for leave in (proxy.cut, proxy.freeze, proxy.cut):
            leave()
            heard = listener.heard
            await store.execute(simple_bump(1))
            await asyncio.sleep(0.5)
            proxy.thaw()
            async with asyncio.timeout(PATIENCE):
                await listener.changed(heard)
    await made.stop()


async def test_without_a_database_nobody_listens(proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so in time, leaves nothing behind, and works once the database answers."""
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.3)
    made = Follower(proxy.url)
    made.start()
    proxy.freeze()
    with pytest.raises(ReadNotDone):
        await made.listen(streams=("toy_1",))
    assert made.listeners == 0
    proxy.thaw()
    monkeypatch.setattr(module, "READY_SECONDS", PATIENCE)
    (await made.listen(streams=("toy_1",))).close()
    await made.stop()


async def test_a_shorter_log_is_another_one(
    follower: Follower, store: EventStore, sql: psycopg.Connection[tuple[object, ...]]
) -> None:
    """After a backup was restored everybody looks anew, and hears of the new log."""
    await store.execute(simple_bump(1))
    with await follower.listen(streams=("toy_1",)) as listener:
        await store.execute(simple_bump(1))
        async with asyncio.timeout(PATIENCE):
            await listener.changed(0)
        sql.execute("update log_state set size = 1")
        sql.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'service-follower'"
        )
        heard = listener.heard
        async with asyncio.timeout(PATIENCE):
            await listener.changed(heard)
        assert (follower.position or 0) >= 1
