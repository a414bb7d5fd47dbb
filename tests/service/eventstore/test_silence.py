"""A server that neither answers nor closes its connections: callers are let go, in their time and with the truth."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from service.eventstore.connect.connection import Outage, ReadingConnection, connect
from service.eventstore.connect.hosts import answering_within
from service.eventstore.declare.commands import OutcomeUnknown
from service.eventstore.read import reader
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from tests.support.proxy import PostgresProxy
from tests.support.rounds import body
from tests.support.toy import REGISTRY, simple_bump

PATIENCE = 8.0  # below the fifteen seconds after which the store lets go of anything


@pytest_asyncio.fixture
async def distant(proxied: PostgresProxy) -> AsyncIterator[EventStore]:
    """A store whose server can fall silent."""
    running = EventStore(proxied.url, REGISTRY)
    await running.start()
    yield running
    proxied.thaw()
    await running.stop()


async def test_a_read_is_given_up_and_its_connection_with_it(
    distant: EventStore, proxied: PostgresProxy, monkeypatch: pytest.MonkeyPatch
):
    """The driver by itself would wait ten seconds more for the server to end the statement."""
    monkeypatch.setattr(reader, "OWN_SECONDS", 0.3)
    proxied.freeze()
    with pytest.raises(CommandNotDone):
        await asyncio.wait_for(distant.fetch("select 1"), PATIENCE)
    proxied.thaw()
    monkeypatch.undo()
    assert await asyncio.wait_for(distant.fetch("select 1"), PATIENCE) == [(1,)]


async def test_a_cancelled_read_on_a_silent_server_cuts_its_connection(proxied: PostgresProxy):
    connection = await ReadingConnection.connect(proxied.url, autocommit=True)
    proxied.freeze()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await connection.execute("select 1")
    assert connection.ends, "whoever was cancelled does not wait for that"
    await connection.ended()
    assert connection.closed


async def test_a_cancelled_read_on_a_sound_server_keeps_its_connection(toys_url: str):
    async with await ReadingConnection.connect(toys_url, autocommit=True) as connection:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await connection.execute("select pg_sleep(30)")
        # The next statement runs past the moment at which a silent server's would be cut.
        assert await (await connection.execute("select 1 from pg_sleep(1)")).fetchone() == (1,)


async def test_commands_behind_a_silent_server_are_told_that_nothing_was_done(
    distant: EventStore, proxied: PostgresProxy
):
    """Of what the thread carries out nobody knows; what waits behind it is let go at its own deadline. Both in time."""
    await distant.execute(simple_bump(1))
    proxied.freeze()
    first = asyncio.create_task(distant.execute(simple_bump(1)))
    await asyncio.sleep(0.2)
    with pytest.raises(CommandNotDone):
        await asyncio.wait_for(distant.execute(simple_bump(2)), PATIENCE)
    with pytest.raises(OutcomeUnknown):
        await asyncio.wait_for(first, PATIENCE)
    proxied.thaw()
    assert body(await distant.execute(simple_bump(1)))["total"] in {2, 3}, "it may have been carried out since"
    assert body(await distant.execute(simple_bump(2)))["total"] == 1


def test_a_synchronous_reader_is_let_go_too(proxied: PostgresProxy):
    with connect(proxied.url, application="test") as connection:
        proxied.freeze()
        with pytest.raises(psycopg.OperationalError), answering_within(connection, 0.2):
            connection.execute("select 1")


def test_an_outage_is_told_when_it_begins_and_when_it_ends():
    outage = Outage()
    with capture_logs() as logs:
        outage.ended()
        for _ in range(3):
            outage.began(psycopg.OperationalError(), in_doubt=2)
            assert outage.lasts
        outage.ended()
        outage.ended()
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("database_gone", "error"),
        ("database_back", "warning"),
    ]
    assert logs[0]["in_doubt"] == 2
    assert not outage.lasts
