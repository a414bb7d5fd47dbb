"""A primary and a synchronous standby: a record is acknowledged once the standby has it (G-201)."""

from __future__ import annotations

import asyncio

from service.ingest.intake import Intake
from tests.support.ingest import PROJECT, check_books, know, log_item, make_project, running, send, sender
from tests.support.replicas import Replicas
from tests.support.rounds import wait_until

PATIENCE = 20.0


async def cancelled(replicas: Replicas) -> None:
    await asyncio.to_thread(replicas.cancel_wait, "service-intake-%")


async def waits(replicas: Replicas) -> None:
    await asyncio.to_thread(wait_until, lambda: replicas.waiting("service-intake-%"), PATIENCE)


async def in_doubt_until_there(replicas: Replicas, intake: Intake, message: str, key: str) -> None:
    """Store a record whose commit, and whose look-up, are cancelled; then let the standby come back."""
    before = intake.in_doubt
    with replicas.without_standby():
        told = asyncio.create_task(send(intake, log_item(message, of=sender(key=key))))
        await cancelled(replicas)  # the commit
        await cancelled(replicas)  # the look at its number
        await waits(replicas)
        assert replicas.one.run(f"select count(*) from log_events where message = '{message}'") == [(1,)]
        assert not told.done()
        assert intake.in_doubt > before
    [answer] = await told
    assert answer["ok"], answer
    assert replicas.one.run(f"select count(*) from log_events where message = '{message}'") == [(1,)]


async def test_a_flush_whose_wait_is_cancelled_is_told_once_a_standby_has_it(replicas: Replicas) -> None:
    """One that decides something, in its thread, and one that counts, from the event loop; then a repeat."""
    with replicas.one.admin("service") as sql:
        make_project(sql, PROJECT)
        async with running(replicas.url) as intake:
            await in_doubt_until_there(replicas, intake, "a new case", "k1")
            await know(intake)
            with replicas.without_standby():
                told = asyncio.create_task(send(intake, log_item("m", of=sender(key="k2"))))
                await cancelled(replicas)
                await waits(replicas)
                assert not told.done()
            [answer] = await told
            assert answer["ok"]
            with replicas.without_standby():
                again = asyncio.create_task(send(intake, log_item("m", of=sender(key="k2"))))
                await waits(replicas)
                assert not again.done()
            [repeated] = await again
            assert repeated == answer
        check_books(sql)


async def test_a_flush_that_only_the_lost_host_had_is_made_again(replicas: Replicas) -> None:
    with replicas.one.admin("service") as sql:
        make_project(sql, PROJECT)
    async with running(replicas.url) as intake:
        await know(intake)
        with replicas.without_standby():
            told = asyncio.create_task(send(intake, log_item("m", of=sender(key="k1"))))
            await cancelled(replicas)
            await waits(replicas)
            await asyncio.to_thread(replicas.one.stop)
        assert not told.done()
        await asyncio.to_thread(replicas.two.promote)
        [answer] = await told
        while not isinstance(answer, dict):  # its time was over: a client sends it again, with its key
            [answer] = await send(intake, log_item("m", of=sender(key="k1")))
        assert answer["ok"]
    with replicas.two.admin("service") as sql:
        assert sql.execute("select count(*) from log_events").fetchone() == (3,)
        check_books(sql)
