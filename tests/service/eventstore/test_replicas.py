"""A primary and a synchronous standby: a commit that may be lost is never acknowledged (G-201)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from psycopg.pq import TransactionStatus

from service.eventstore.connect.connection import CommitInDoubt, WatchedConnection, connect, connect_async
from service.eventstore.connect.hosts import REPLICATED, watch_of
from service.eventstore.declare.commands import OutcomeUnknown
from service.eventstore.log.sequencer import Sequencer, sequence_once
from service.eventstore.store import EventStore
from service.eventstore.write.writing import confirm
from service.fairness.turns import CommandNotDone
from service.tlog.signing import Signed, sign_once
from service.tlog.tree import latest_checkpoint
from tests.support.replicas import Replicas
from tests.support.rounds import body, wait_until
from tests.support.toy import REGISTRY, lower_flag, simple_bump
from tests.support.trees import signer_at

PATIENCE = 20.0
BUMPS = "select count(*) from events where stream_id = 'toy_{}' and topic like 'toy.bumped%'"


@pytest_asyncio.fixture
async def listed(lasting: Replicas) -> AsyncIterator[EventStore]:
    """A store over both hosts."""
    running = EventStore(lasting.url, REGISTRY)
    await running.start()
    yield running
    await running.stop()


def bumps(replicas: Replicas, toy: str) -> int:
    [[found]] = replicas.one.run(BUMPS.format(toy))
    return int(found)


async def cancelled(replicas: Replicas, application: str) -> None:
    await asyncio.to_thread(replicas.cancel_wait, application)


async def waits(replicas: Replicas, application: str) -> None:
    await asyncio.to_thread(wait_until, lambda: replicas.waiting(application), PATIENCE)


def test_a_warning_at_a_commit_closes_the_session(lasting: Replicas) -> None:
    with lasting.without_standby(), connect(lasting.url, application="test-warned") as connection:
        assert connection.info.port == lasting.one.port
        with ThreadPoolExecutor(1) as beside:
            cancelling = beside.submit(lasting.cancel_wait, "test-warned")
            with pytest.raises(CommitInDoubt):
                connection.execute("insert into toy_facts values ('proj_w', 'a', 1)")
            cancelling.result()
        assert connection.closed
    assert lasting.one.run("select count(*) from toy_facts where project_id = 'proj_w'") == [(1,)]


async def test_so_does_one_for_the_event_loop(lasting: Replicas) -> None:
    connection = await connect_async(lasting.url, application="test-warned-async")
    with lasting.without_standby():
        writing = asyncio.create_task(connection.execute(REPLICATED))
        await cancelled(lasting, "test-warned-async")
        with pytest.raises(CommitInDoubt):
            await writing
    assert connection.closed


async def test_a_warning_amid_a_transaction_is_no_doubt(database_url: str) -> None:
    async with await WatchedConnection.connect(database_url) as connection, connection.transaction():
        await connection.execute("do $$ begin raise warning 'nothing'; end $$")
        await connection.execute("select 1")


@pytest.mark.parametrize("key", [None, "k1"])
async def test_a_command_whose_wait_is_cancelled_is_told_once_a_standby_has_it(
    lasting: Replicas, listed: EventStore, key: str | None
) -> None:
    toy = f"cmd{key}"
    with lasting.without_standby():
        told = asyncio.create_task(listed.execute(simple_bump(toy, key=key)))
        await cancelled(lasting, "service-loop")  # the commit
        await cancelled(lasting, "service-loop")  # the look at its record
        await waits(lasting, "service-loop")
        assert bumps(lasting, toy) == 1, "it is there, and nobody has been told"
        assert not told.done()
        assert listed.loop.in_doubt >= 2
    assert body(await told)["total"] == 1
    assert bumps(lasting, toy) == 1


async def test_a_repeat_is_told_once_a_standby_has_the_first(lasting: Replicas, listed: EventStore) -> None:
    """The first process may have been told of a doubt; whoever repeats the request must not be told more."""
    first = await listed.execute(simple_bump("twice", key="k2"))
    with lasting.without_standby():
        again = asyncio.create_task(listed.execute(simple_bump("twice", key="k2")))
        await waits(lasting, "service-loop")
        assert not again.done()
    assert body(await again) == body(first)
    assert bumps(lasting, "twice") == 1


async def test_a_fence_too(lasting: Replicas, listed: EventStore) -> None:
    with lasting.without_standby():
        told = asyncio.create_task(listed.execute(lower_flag("proj_f")))
        await cancelled(lasting, "service-fence")
        await waits(lasting, "service-fence")
        assert not told.done()
    assert body(await told) == {"revision": 1}
    assert listed.lane.in_doubt == 1


async def test_what_no_standby_gets_in_time_is_unknown(
    lasting: Replicas, listed: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.eventstore.store.LONGEST", 1.0)
    with lasting.without_standby(), pytest.raises(OutcomeUnknown):
        await asyncio.wait_for(listed.execute(simple_bump("late", key="k3")), PATIENCE)
    assert body(await listed.execute(simple_bump("late", key="k3")))["total"] == 1


async def test_positions_are_in_doubt_until_a_standby_has_them(lasting: Replicas, listed: EventStore) -> None:
    await listed.execute(simple_bump("numbered"))
    with connect(lasting.url, application="test-sequencer") as connection:
        with lasting.without_standby():
            numbering = asyncio.create_task(asyncio.to_thread(sequence_once, connection))
            await cancelled(lasting, "test-sequencer")
            with pytest.raises(CommitInDoubt):
                await numbering
        assert connection.closed
    sequencer = Sequencer(lasting.url)
    sequencer.start()
    try:
        await listed.execute(simple_bump("numbered"))
        unnumbered = "select count(*) from unsequenced"
        await asyncio.to_thread(wait_until, lambda: lasting.one.run(unnumbered) == [(0,)], PATIENCE)
    finally:
        sequencer.stop()


async def test_nothing_is_signed_that_no_standby_has(lasting: Replicas, listed: EventStore, tmp_path: Path) -> None:
    signer = signer_at(tmp_path)
    await listed.execute(simple_bump("signed"))
    with connect(lasting.url, application="test-notary") as connection:
        sequence_once(connection)
        [[size]] = lasting.one.run("select size from log_state")
        with lasting.without_standby():
            signing = asyncio.create_task(asyncio.to_thread(sign_once, connection, signer))
            await cancelled(lasting, "test-notary")
            with pytest.raises(CommitInDoubt):
                await signing
        assert signer.file.read() is None
    with connect(lasting.url, application="test-notary") as connection:
        assert latest_checkpoint(connection) is None
        done = sign_once(connection, signer)
        assert done.checkpoint is not None
        assert done.checkpoint.size == size


async def test_what_was_numbered_after_the_look_is_signed_next_time(
    lasting: Replicas, listed: EventStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the size that was read before the commit is known to be on a standby."""
    signer = signer_at(tmp_path)
    with (
        connect(lasting.url, application="test-notary") as connection,
        connect(lasting.url, application="test-sequencer") as numbering,
    ):
        await listed.execute(simple_bump("before"))
        sequence_once(numbering)
        [[size]] = lasting.one.run("select size from log_state")
        await listed.execute(simple_bump("after"))
        held = connection.execute

        def number_more(query: Any, *args: Any, **more: Any) -> Any:
            found = held(query, *args, **more)
            if query is REPLICATED:
                sequence_once(numbering)
            return found

        monkeypatch.setattr(connection, "execute", number_more)
        signed = _signed(connection, signer)
        assert signed.checkpoint is not None
        assert signed.checkpoint.size == size
        monkeypatch.undo()
        signed = _signed(connection, signer)
        assert signed.checkpoint is not None
        assert signed.checkpoint.size > size


def _signed(connection: Any, signer: Any) -> Signed:
    """Sign as soon as the last checkpoint is old enough."""
    found = Signed(None)

    def done() -> bool:
        nonlocal found
        found = sign_once(connection, signer)
        return found.checkpoint is not None

    wait_until(done, PATIENCE)
    return found


async def test_what_leaves_the_database_is_on_a_standby_first(lasting: Replicas, listed: EventStore) -> None:
    with lasting.without_standby():
        seen = asyncio.create_task(listed.see_replicated("select 1 as n"))
        await cancelled(lasting, "service-standby")
        with pytest.raises(CommitInDoubt):
            await seen
    assert await listed.see_replicated("select 1 as n") == [(1,)]


async def test_or_is_not_told_in_time(lasting: Replicas, listed: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.eventstore.store.STANDBY_SECONDS", 0.3)
    with lasting.without_standby(), pytest.raises(CommandNotDone):
        await listed.see_replicated("select 1 as n")


async def test_one_host_commits_nothing_more(database_url: str, tmp_path: Path) -> None:
    """The end of a look is all that the server is sent."""
    sent = tmp_path / "sent"
    with connect(database_url, application="test") as connection, sent.open("w") as output:
        assert not connection.listed
        connection.execute("begin")
        connection.pgconn.trace(output.fileno())
        confirm(connection)
        connection.pgconn.untrace()
        assert connection.info.transaction_status is TransactionStatus.IDLE
    [query] = [line for line in sent.read_text().splitlines() if "\tF\t" in line]
    assert "rollback" in query
    async with await connect_async(database_url, application="test") as other:
        assert not other.listed
    assert watch_of(database_url) is None
