"""A primary and a synchronous standby: what the ledger remembers and a purge removes is not taken back (G-201)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import replace

from projections.deletion import DeletionRow
from service.auth.authority import carry_out
from service.deletion import removal
from service.deletion.advancing import Advancer
from service.deletion.ledger import erasures, people_erased
from service.deletion.people import Eraser
from service.deletion.purging import Purge
from service.eventstore.connect.connection import CommitInDoubt, WatchedConnection
from service.eventstore.connect.hosts import watch_of
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from service.ids import new_id
from service.registry import registry
from statemachines.deletion.removal import AskForDeletion
from tests.service.deletion.test_people import KEYS, to_its_end
from tests.service.deletion.test_people import fenced as fenced_person
from tests.support.accounts_store import make_project
from tests.support.replicas import Replicas
from tests.support.rounds import wait_until


@pytest_asyncio.fixture
async def listed(replicas: Replicas) -> AsyncIterator[EventStore]:
    """A store over both hosts."""
    found = EventStore(replicas.url, registry())
    await found.start()
    yield found
    await found.stop()


async def fenced(store: EventStore) -> DeletionRow:
    """A project whose deletion has begun."""
    scope = await make_project(store, "usr_owner")
    wish = AskForDeletion("project", scope, "usr_owner", "k" * 64)
    return await carry_out(store, "test", "delete", removal.fence_project(wish, new_id("del")))


async def test_the_ledger_waits_for_a_standby(listed: EventStore, replicas: Replicas, ledger: Path) -> None:
    """A line about a fence that a promotion takes back would delete what nobody has deleted."""
    row = await fenced(listed)
    with replicas.without_standby():
        moving = asyncio.create_task(Advancer(listed, ledger).advance(row, 5))
        await asyncio.to_thread(replicas.cancel_wait, "service-standby")
        with pytest.raises(CommitInDoubt):
            await moving
        assert erasures(ledger) == []
    assert (await Advancer(listed, ledger).advance(row, 20)).phase == "deleted"
    assert [one.scope_id for one in erasures(ledger)] == [row.scope_id]


async def test_so_does_the_line_of_a_person(listed: EventStore, replicas: Replicas, ledger: Path) -> None:
    project = await make_project(listed, "usr_owner")
    row = await fenced_person(listed, project, "ada")
    with replicas.without_standby():
        moving = asyncio.create_task(Eraser(listed, ledger, KEYS).advance(row, 5))
        await asyncio.to_thread(replicas.cancel_wait, "service-standby")
        with pytest.raises(CommitInDoubt):
            await moving
        assert people_erased(ledger) == []
    assert (await to_its_end(listed, ledger, row)).phase == "deleted"
    assert [one.project_id for one in people_erased(ledger)] == [project]


async def test_a_fence_that_is_not_there_is_not_remembered(listed: EventStore, ledger: Path) -> None:
    """It was read on a host that is lost by now."""
    row = replace(await fenced(listed), id=new_id("del"))
    with pytest.raises(CommandNotDone):
        await Advancer(listed, ledger).advance(row, 5)
    assert erasures(ledger) == []
    person = await fenced_person(listed, await make_project(listed, "usr_other"), "ada")
    with pytest.raises(CommandNotDone):
        await Eraser(listed, ledger, KEYS).advance(replace(person, deletion_id=new_id("del")), 5)
    assert people_erased(ledger) == []


async def test_a_purge_begins_anew_on_another_host(listed: EventStore, replicas: Replicas, ledger: Path) -> None:
    """What it removed without waiting for a standby may be there again."""
    purge = Purge(await fenced(listed))
    async with await WatchedConnection.connect(replicas.url, autocommit=True) as connection:
        await purge._begin_anew_elsewhere(connection)
        purge._block, purge._erased_to = 7, ("a", 3)
        await purge._begin_anew_elsewhere(connection)
        assert (purge._block, purge._erased_to) == (7, ("a", 3))
    await asyncio.to_thread(replicas.fail_over)
    watch = watch_of(replicas.url)
    assert watch is not None
    await asyncio.to_thread(wait_until, lambda: str(watch.primary) == replicas.two.address, 20.0)
    async with await WatchedConnection.connect(replicas.url, autocommit=True) as connection:
        await purge._begin_anew_elsewhere(connection)
        assert (purge._block, purge._erased_to) == (0, ("", 0))
