"""The primary of a list of hosts changes: sessions leave the old one, and nothing acknowledged is lost (G-201)."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio

from service.eventstore.connect import hosts
from service.eventstore.connect.connection import Connection, connect
from service.eventstore.connect.hosts import Host, Role, host_alone, host_of, hosts_of
from service.eventstore.declare.commands import OutcomeUnknown
from service.eventstore.declare.faults import Meaning, judge
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from service.settingvalues import BadValue
from service.settingvalues import database_url as read_url
from tests.support.replicas import Replicas
from tests.support.rounds import body, wait_until
from tests.support.toy import REGISTRY, simple_bump

PATIENCE = 30.0


@pytest_asyncio.fixture
async def moving(replicas: Replicas) -> AsyncIterator[EventStore]:
    """A store over both hosts, of which the first will be lost."""
    running = EventStore(replicas.url, REGISTRY)
    await running.start()
    yield running
    await running.stop()


async def until_told(store: EventStore, toy: str, key: str) -> int:
    """Send one command until it is told, as a client with a key does; returns the toy's total."""
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        try:
            return int(body(await store.execute(simple_bump(toy, key=key)))["total"])
        except (OutcomeUnknown, CommandNotDone):
            await asyncio.sleep(0.05)
    raise AssertionError("nothing was told")


def repeat(connection: Connection, statement: str) -> None:
    """Run a statement again and again, until it fails."""
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        connection.execute(statement)


def total_at(replicas: Replicas, toy: str) -> list[tuple[int]]:
    return replicas.two.run(f"select total from toys where id = 'toy_{toy}'")


async def test_a_killed_primary_is_left(moving: EventStore, replicas: Replicas) -> None:
    assert await until_told(moving, "a", "k1") == 1
    await asyncio.to_thread(replicas.fail_over)
    assert await until_told(moving, "a", "k2") == 2
    assert await moving.fetch("select inet_server_port()") == [(replicas.two.port,)]
    assert total_at(replicas, "a") == [(2,)]
    assert str(replicas.two.port) in (hosts.describe(replicas.url) or "")


async def test_a_frozen_primary_is_left_and_read_no_more(moving: EventStore, replicas: Replicas) -> None:
    """Its sockets stay open, and when it goes on it still takes itself for the primary."""
    assert await until_told(moving, "a", "k1") == 1
    replicas.one.freeze()
    await asyncio.to_thread(replicas.two.promote)
    assert await until_told(moving, "a", "k2") == 2
    replicas.one.thaw()
    for _ in range(20):
        assert await moving.fetch("select inet_server_port()") == [(replicas.two.port,)]
    assert await until_told(moving, "a", "k3") == 3
    assert total_at(replicas, "a") == [(3,)]


async def test_a_commit_that_only_the_lost_host_had_is_made_again(moving: EventStore, replicas: Replicas) -> None:
    assert await until_told(moving, "a", "k1") == 1
    with replicas.without_standby():
        telling = asyncio.create_task(until_told(moving, "a", "k2"))
        await asyncio.to_thread(replicas.cancel_wait, "service-loop")
        assert replicas.one.run("select total from toys") == [(2,)]
        replicas.one.stop(signal.SIGKILL)
        assert not telling.done()
    assert total_at(replicas, "a") == [(1,)]
    await asyncio.to_thread(replicas.two.promote)
    assert await telling == 2
    assert total_at(replicas, "a") == [(2,)]
    assert await until_told(moving, "a", "k2") == 2


async def test_what_a_primary_shows_after_its_restart_is_not_told(moving: EventStore, replicas: Replicas) -> None:
    """It has the commit, and a look at the record finds it; the promotion that follows drops it."""
    assert await until_told(moving, "a", "k1") == 1
    with replicas.without_standby():
        telling = asyncio.create_task(until_told(moving, "a", "k2"))
        await asyncio.to_thread(wait_until, lambda: replicas.waiting("service-loop"), PATIENCE)
        await asyncio.to_thread(replicas.one.stop, signal.SIGKILL)
        await asyncio.to_thread(replicas.one.start)
        assert replicas.one.run("select total from toys") == [(2,)]
        await asyncio.to_thread(wait_until, lambda: replicas.waiting("service-loop"), PATIENCE)
        assert not telling.done()
        await asyncio.to_thread(replicas.one.stop, signal.SIGKILL)
    await asyncio.to_thread(replicas.two.promote)
    assert await telling == 2
    assert total_at(replicas, "a") == [(2,)]


async def test_a_session_on_an_old_primary_is_cut(replicas: Replicas) -> None:
    """Two hosts take writes for a moment: the one with the higher timeline is the primary."""
    hosts.watch(replicas.url)
    try:
        watch = hosts.watch_of(replicas.url)
        assert watch is not None
        await asyncio.to_thread(wait_until, lambda: watch.primary is not None, PATIENCE)
        with connect(replicas.url, application="test") as connection:
            assert host_of(connection) == Host("127.0.0.1", str(replicas.one.port))
            await asyncio.to_thread(replicas.two.promote)
            with pytest.raises(psycopg.OperationalError):
                repeat(connection, "select pg_sleep(0.05)")
        with connect(replicas.url, application="test") as connection:
            assert host_of(connection) == Host("127.0.0.1", str(replicas.two.port))
            assert {one.role for one in watch.standings.values()} == {Role.PRIMARY}
    finally:
        hosts.unwatch(replicas.url)
    assert hosts.watch_of(replicas.url) is None


async def test_a_host_that_takes_no_writes_any_more_is_left(moving: EventStore, replicas: Replicas) -> None:
    assert await until_told(moving, "a", "k1") == 1
    with replicas.one.admin("service") as admin:
        admin.execute("alter system set default_transaction_read_only = on")
        admin.execute("select pg_reload_conf()")
        with connect(host_alone(replicas.url, hosts_of(replicas.url)[0]), application="test") as connection:
            connection.listed = True
            wait_until(lambda: admin.execute("show default_transaction_read_only").fetchall() == [("on",)])
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction) as refused:
                repeat(connection, "insert into toy_facts values ('proj_r', 'r', 1) on conflict do nothing")
            assert judge(refused.value, connection).meaning is Meaning.READ_ONLY
        with pytest.raises((CommandNotDone, OutcomeUnknown)):
            await moving.execute(simple_bump("a", key="k2"))
        admin.execute("set default_transaction_read_only = off")
        admin.execute("alter system reset default_transaction_read_only")
        admin.execute("select pg_reload_conf()")
    assert await until_told(moving, "a", "k2") == 2


def test_a_url_with_one_host_is_as_it_was() -> None:
    for url in ("postgresql://u:a,b@host:5432/db", "postgresql:///db", "postgres://host/db?connect_timeout=9"):
        assert read_url(url) == url
        assert hosts_of(url) == ()


def test_a_list_gets_what_it_needs() -> None:
    url = read_url("postgresql://u@one:1,two:2/db?connect_timeout=9")
    assert "target_session_attrs=read-write" in url
    assert url.count("connect_timeout") == 1
    assert hosts_of(url) == (Host("one", "1"), Host("two", "2"))
    assert hosts_of("host=one,two dbname=db") == (Host("one", "5432"), Host("two", "5432"))
    alone = host_alone(url, Host("two", "2"))
    assert hosts_of(alone) == ()
    assert "host=two" in alone
    assert "target_session_attrs=any" in alone
    assert "primary" in read_url("postgresql://one,two/db?target_session_attrs=primary")


@pytest.mark.parametrize(
    "url",
    ["postgresql://one,two/db?target_session_attrs=any", "postgresql://one,two/db?target_session_attrs=standby"],
)
def test_a_list_that_leads_to_standbys_is_refused(url: str) -> None:
    with pytest.raises(BadValue, match="read-write"):
        read_url(url)
