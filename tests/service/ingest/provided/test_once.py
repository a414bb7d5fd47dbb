"""Looks are stored whole or not at all, whoever else looks, and wherever they end (G-182)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from service.ingest.provided import counting, looking
from service.ingest.provided.counting import LookLost, ProvidedCounter
from service.process.assembly import make_services
from tests.service.ingest.provided.conftest import Watched
from tests.support.provider import FakeProvider
from tests.support.provider.exceptions import exception


class Killed(BaseException):
    """The process ends here."""


def captured(provider: FakeProvider, groups: int = 5, each: int = 3) -> int:
    """Capture exceptions of some groups. Returns how many."""
    for number in range(groups):
        for _ in range(each):
            provider.capture("$exception", provider.now - 30, **exception("E", function=f"f{number}"))
    return groups * each


async def counted(watched: Watched) -> tuple[int, int]:
    """The cases and the exceptions of the project."""
    [[cases, errors]] = await watched.sql(
        "select count(*), coalesce(sum(provider_count), 0)::bigint from case_stats where project_id = %s"
    )
    [[minutes]] = await watched.sql(
        "select coalesce(sum(errors), 0)::bigint from provider_counts where project_id = %s"
    )
    assert minutes == errors
    return cases, errors


async def test_a_look_killed_between_any_two_steps_counts_each_once(
    watched: Watched, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after each step: the next look finds out by the uuids."""
    monkeypatch.setattr(looking, "STEP", 2)
    total = captured(provider)
    whole = ProvidedCounter.store
    for dies_at in range(8):
        calls = 0

        def store(self: ProvidedCounter, step: Any, *, dies_at: int = dies_at) -> None:
            nonlocal calls
            if calls == dies_at // 2 and dies_at % 2 == 0:
                raise Killed
            whole(self, step)
            if calls == dies_at // 2:
                raise Killed
            calls += 1

        monkeypatch.setattr(ProvidedCounter, "store", store)
        with suppress(Killed):
            await watched.look()
        monkeypatch.setattr(ProvidedCounter, "store", whole)
        _, errors = await counted(watched)
        assert errors <= total
    await watched.look()
    assert await counted(watched) == (5, total)
    total += captured(provider)
    await watched.look()
    assert await counted(watched) == (5, total)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("statement", range(1, 9))
async def test_a_session_that_ends_amid_a_step_leaves_all_or_nothing(
    watched: Watched, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, statement: int, when: str
) -> None:
    """At each of its statements, before it is sent and after."""
    total = captured(provider, 3)
    sent = 0
    fold = counting.begin

    def begin(connection: Any, *args: Any) -> Any:
        nonlocal sent
        sent = 0
        original = type(connection).execute

        def dying(query: Any, params: Any = (), *, prepare: bool = False) -> Any:
            nonlocal sent
            sent += 1
            if sent == statement and when == "before":
                _end(connection)
            answer = original(connection, query, params, prepare=prepare)
            if sent == statement and when == "after":
                _end(connection)
            return answer

        connection.execute = dying
        return fold(connection, *args)

    monkeypatch.setattr(counting, "begin", begin)
    await watched.look()
    monkeypatch.setattr(counting, "begin", fold)
    assert await counted(watched) in {(0, 0), (3, total)}
    watched.services.exceptions.close()
    await watched.look()
    assert await counted(watched) == (3, total)


def _end(connection: Any) -> None:
    """End the session as the server would."""
    connection.pgconn.finish()


async def test_of_looks_at_once_one_is_stored(watched: Watched, provider: FakeProvider) -> None:
    """Two processes that read the same: the other one is lost, and counts nothing."""
    total = captured(provider, 20)
    others = [make_services(watched.services.settings) for _ in range(3)]
    try:
        for other in others:
            await other.store.start()
        looks = [one.exceptions.look(watched.onb.project_id) for one in (watched.services, *others)]
        assert sum(await asyncio.gather(*looks)) == total
    finally:
        for other in others:
            other.exceptions.close()
            await other.store.stop()
    assert await counted(watched) == (20, total)


async def test_a_step_after_the_fence_of_a_deletion_is_lost(watched: Watched, provider: FakeProvider) -> None:
    """What was read before it is stored no more."""
    captured(provider, 1)
    await watched.look()
    [[number, connection_id]] = await watched.sql(
        "select number, connection_id from provider_looks where project_id = %s"
    )
    await watched.world.sql("update projects set status = 'deleting' where id = %s", watched.onb.project_id)
    look = counting.LookRow(watched.onb.project_id, connection_id, "", number + 1, 1, 1)
    with pytest.raises(LookLost):
        await asyncio.to_thread(watched.store, counting.LookStep(look, []))
    await watched.world.sql("update projects set status = 'active' where id = %s", watched.onb.project_id)
    with pytest.raises(LookLost):
        await asyncio.to_thread(watched.store, counting.LookStep(look._replace(number=number), []))
    with pytest.raises(LookLost):
        await asyncio.to_thread(watched.store, counting.LookStep(look._replace(connection_id="conn_other"), []))
