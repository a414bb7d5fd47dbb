"""Slow providers of some accounts leave places to the exchanges of others (P25)."""

from __future__ import annotations

import asyncio

import pytest

from service.analytics.queries import QueriesBusy
from service.provider import sources as module
from service.provider.sources import PLACES, SLOW_PLACES, Exchanges


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> Exchanges:
    """Turns whose waits and slowness are a twentieth of the real ones."""
    monkeypatch.setattr(module, "WAIT_SECONDS", module.WAIT_SECONDS / 20)
    monkeypatch.setattr(module, "SLOW_SECONDS", module.SLOW_SECONDS / 20)
    return Exchanges()


async def hold(exchanges: Exchanges, account: str, over: asyncio.Event) -> None:
    async with exchanges.turn(account):
        await over.wait()


async def make_slow(exchanges: Exchanges, accounts: int) -> None:
    """Let so many accounts have a slow exchange each."""
    for first in range(0, accounts, PLACES):
        over = asyncio.Event()
        some = [
            asyncio.create_task(hold(exchanges, f"slow-{number}", over))
            for number in range(first, min(first + PLACES, accounts))
        ]
        await asyncio.sleep(1.2 * module.SLOW_SECONDS)
        over.set()
        await asyncio.gather(*some)


async def test_slow_accounts_never_take_all_places(exchanges: Exchanges) -> None:
    """However many there are, others have theirs at once; a slow account waits for its own kind."""
    await make_slow(exchanges, 2 * PLACES)
    over = asyncio.Event()
    held = [asyncio.create_task(hold(exchanges, f"slow-{number}", over)) for number in range(2 * PLACES)]
    await asyncio.sleep(0)
    for number in range(PLACES):
        async with asyncio.timeout(0.1), exchanges.turn(f"quick-{number}"):
            pass
    with pytest.raises(QueriesBusy):
        async with exchanges.turn("slow-0"):
            pytest.fail("it has its one place")
    over.set()
    outcomes = await asyncio.gather(*held, return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == SLOW_PLACES
    assert {type(outcome) for outcome in outcomes} == {type(None), QueriesBusy}


async def test_a_quick_exchange_ends_it(exchanges: Exchanges) -> None:
    await make_slow(exchanges, 1)
    async with exchanges.turn("slow-0"):
        pass
    async with asyncio.timeout(0.1), exchanges.turn("slow-0"), exchanges.turn("slow-0"):
        pass
