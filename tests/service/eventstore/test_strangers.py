"""All who have shown no credential are one against tenants, and take turns by address inside their place (G-204)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.eventstore.read.reader import Caller, reading_for
from service.eventstore.store import READS_PER_TENANT, EventStore
from service.eventstore.write.loop import MEMBERS_PART, command_queue
from service.fairness.bounds import FairBounds
from service.fairness.held import HeldByName
from service.fairness.queue import FairQueue
from service.fairness.semaphore import SHORT, FairSemaphore
from service.fairness.turns import (
    LONGEST,
    NOBODY,
    SIGN_IN,
    STRANGERS,
    Company,
    ReadNotDone,
    Rests,
    member_of,
    place_of,
    sharing,
)
from tests.support.rounds import entry_of
from tests.support.toy import simple_bump

Sql = psycopg.Connection[Any]
SLOW = "select pg_sleep(60)"
ADDRESSES = st.integers(1, 60)


def stranger(number: int) -> str:
    return sharing(STRANGERS, f"192.0.2.{number}")


def test_names_tell_the_place_from_who_shares_it() -> None:
    assert (place_of(stranger(7)), member_of(stranger(7))) == (STRANGERS, "192.0.2.7")
    assert (place_of("usr_1"), member_of("usr_1")) == ("usr_1", "")
    assert (place_of(sharing(SIGN_IN, "2001:db8::/64")), sharing(NOBODY, "192.0.2.7")) == (SIGN_IN, NOBODY)


async def order_of(turns: FairSemaphore, names: Sequence[str]) -> tuple[list[str], int]:
    """Have all come at once, each hold a place for a moment; returns who had a turn when, and the most at once."""
    order: list[str] = []
    running: Counter[str] = Counter()
    most = 0

    async def hold(name: str) -> None:
        nonlocal most
        async with turns.place(name):
            order.append(name)
            running[place_of(name)] += 1
            most = max(most, running[STRANGERS])
            await asyncio.sleep(0)
            running[place_of(name)] -= 1

    await asyncio.gather(*(hold(name) for name in names))
    return order, most


@given(addresses=ADDRESSES, each=st.integers(1, 3), tenants=st.integers(1, 4), places=st.integers(2, 6))
def test_however_many_addresses_they_have_they_get_no_more_than_one_tenant(
    addresses: int, each: int, tenants: int, places: int
) -> None:
    """While a tenant waits, strangers together are a turn or two ahead of it, and have one tenant's places at once."""
    strangers = [stranger(number) for number in range(addresses) for _ in range(each)]
    theirs = [f"usr_{number}" for number in range(tenants) for _ in range(6)]
    order, most = asyncio.run(
        order_of(FairSemaphore(FairBounds(places, per_tenant=1), waiting=200), [*strangers, *theirs])
    )
    assert most == 1
    had: Counter[str] = Counter()
    for name in order:
        had[place_of(name)] += 1
        waiting = [had[tenant] for tenant in set(theirs) if had[tenant] < 6]
        assert had[STRANGERS] <= min(waiting, default=len(order)) + 2


@given(lines=st.lists(st.integers(1, 8), min_size=1, max_size=12))
def test_inside_their_place_they_take_turns_by_address(lines: list[int]) -> None:
    """Who sends much waits behind who sends little: the first of each, then the second of each."""
    waiting: FairQueue[tuple[int, int]] = FairQueue(lambda entry: stranger(entry[1]))
    for address, count in enumerate(lines):
        for number in range(count):
            assert waiting.admit((number, address))
    taken = [waiting.pop() for _ in range(len(waiting))]
    assert taken == sorted((number, address) for address, count in enumerate(lines) for number in range(count))


@given(addresses=ADDRESSES, own=st.integers(1, 8))
def test_in_lines_a_tenant_waits_for_one_of_them_at_a_time(addresses: int, own: int) -> None:
    waiting: FairQueue[str] = FairQueue(str)
    for number in range(addresses):
        for _ in range(3):
            assert waiting.admit(stranger(number))
    for _ in range(own):
        assert waiting.admit("usr_1")
    taken = [place_of(waiting.pop() or "") for _ in range(2 * min(own, 3 * addresses))]
    assert Counter(taken) == {STRANGERS: len(taken) // 2, "usr_1": len(taken) // 2}


async def test_a_line_that_is_full_refuses_its_own_address_alone() -> None:
    turns = FairSemaphore(FairBounds(1, per_tenant=1), waiting=2)
    async with turns.place(stranger(1)):
        waiting = [asyncio.create_task(turns.enter(stranger(1))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(ReadNotDone):
            await turns.enter(stranger(1))
        other = asyncio.create_task(turns.enter(stranger(2)))
        await asyncio.sleep(0)
        assert turns.waiting == 3
        waiting[0].cancel()
        await asyncio.gather(waiting[0], return_exceptions=True)
        assert turns.waiting == 2
    for task in (waiting[1], other):
        await task
        turns.leave(stranger(1))
    assert turns.waiting == 0


def test_they_rest_together_and_are_no_company_to_each_other() -> None:
    company, rests = Company(), Rests()
    for number in range(5):
        company.note(stranger(number))
    assert not company.several
    company.note("usr_1")
    assert company.several
    rests.add(stranger(1), LONGEST)
    assert rests.left(stranger(2)) > 0
    assert rests.left(sharing(SIGN_IN, "192.0.2.1")) == rests.left("usr_1") == 0


async def test_one_of_them_that_held_a_place_for_long_has_all_of_them_rest() -> None:
    turns = FairSemaphore(FairBounds(2, per_tenant=2), waiting=10, rest=20)
    turns.note("usr_1")
    async with turns.place(stranger(1)):
        await asyncio.sleep(2 * SHORT)
    next_one = asyncio.create_task(turns.enter(stranger(2)))
    await asyncio.sleep(0)
    assert not next_one.done()
    async with turns.place("usr_1"):
        assert not next_one.done()
    async with asyncio.timeout(5):
        await next_one


@given(addresses=st.integers(8, 60), tenants=st.integers(1, 4))
def test_in_the_queue_of_commands_they_have_one_share(addresses: int, tenants: int) -> None:
    """Of a batch, and of the queue; and one address has a part of that share."""
    queue = command_queue(HeldByName(), capacity=10_000, per_tenant=200, per_stream=10_000)

    def put(tenant: str, number: int) -> bool:
        entry = entry_of(simple_bump(number))
        entry.tenant = tenant
        return queue.admit(entry)

    assert sum(put(stranger(0), number) for number in range(60)) == 200 // MEMBERS_PART
    sent = sum(put(stranger(1 + number % addresses), 100 + number) for number in range(400))
    assert sent == 200 - 200 // MEMBERS_PART
    for tenant in range(tenants):
        assert all(put(f"usr_{tenant}", 1000 * tenant + number + 1000) for number in range(64))
    batch, _ = queue.take(60)
    taken = Counter(place_of(entry.tenant) for entry in batch)
    assert max(taken.values()) - min(taken.values()) <= 60 % (tenants + 1) + 1
    assert (
        max(Counter(entry.tenant for entry in batch if place_of(entry.tenant) == STRANGERS).values())
        <= 60 // 2 // 8 + 1
    )


@asynccontextmanager
async def reading(store: EventStore, names: Sequence[str]) -> AsyncIterator[None]:
    """Have callers wait for a slow read each."""

    async def read(name: str) -> None:
        with reading_for(Caller(name, 30.0)):
            await store.fetch(SLOW)

    tasks = [asyncio.create_task(read(name)) for name in names]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def asleep(sql: Sql) -> int:
    [(count,)] = sql.execute(
        "select count(*) from pg_stat_activity where datname = current_database() and state = 'active' and query = %s",
        (SLOW,),
    ).fetchall()
    return int(count)


async def test_sixty_four_addresses_use_the_connections_of_one_tenant(store: EventStore, sql: Sql) -> None:
    """A tenant, a sign-in and what waits in no turn are answered meanwhile."""
    async with reading(store, [stranger(number) for number in range(64)]):
        async with asyncio.timeout(10):
            while await asleep(sql) < READS_PER_TENANT:  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.01)
        for name in ("usr_1", "usr_2", sharing(SIGN_IN, "192.0.2.1"), NOBODY):
            with reading_for(Caller(name, 2.0)):
                assert await store.fetch("select 1") == [(1,)]
        assert await asleep(sql) == READS_PER_TENANT
        assert store.reads.waiting == 64 - READS_PER_TENANT


async def test_who_waits_in_no_turn_never_waits_for_a_line(store: EventStore) -> None:
    """More of its reads at once than one caller's line takes."""

    async def read() -> Any:
        with reading_for(Caller(NOBODY, 5.0)):
            return await store.fetch("select 1")

    assert await asyncio.gather(*(read() for _ in range(200))) == [[(1,)]] * 200
