"""Large bodies take turns: a flood of one project leaves the loop, and its place in the line, to the others (P25)."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from service.fairness import bodies as edge_turns
from service.fairness.bodies import REST, SMALL, UNTIRED, Shares
from service.fairness.bounds import FairBounds
from service.fairness.semaphore import FairSemaphore
from service.fairness.turns import CommandNotDone, Company
from service.http.declare.call import CheckedCall
from service.http.edge.pipeline import MAX_RUNNING


async def test_small_bodies_never_wait():
    turns = Shares(at_once=1)
    for _ in range(100):
        with pytest.raises(StopIteration):  # It ends at the first step, without a turn of the loop.
            turns.take("a", SMALL).send(None)


async def test_between_two_shares_the_loop_does_other_things():
    """What is parsed before others have their turn is bounded, however many wait."""
    turns, parsed, most = Shares(at_once=10_000), 0, 0
    ended = False

    async def others():
        nonlocal parsed, most
        while not ended:
            most, parsed = max(most, parsed), 0
            await asyncio.sleep(0)

    async def send():
        nonlocal parsed
        await turns.take("flood", 3_000)
        parsed += 3_000

    watching = asyncio.create_task(others())
    await asyncio.gather(*(send() for _ in range(200)))
    ended = True
    await watching
    assert 3_000 <= most <= 2 * 13_000  # a share, and what the last of it exceeds; both sides of a turn may meet


async def test_projects_are_served_in_turn():
    turns, served = Shares(at_once=3_000), []

    async def send(project_id):
        await turns.take(project_id, 3_000)
        served.append(project_id)

    await asyncio.gather(*(send("flood") for _ in range(50)), send("quiet"), *(send("flood") for _ in range(50)))
    assert served.index("quiet") <= 3


async def test_who_goes_away_while_waiting_holds_up_nobody():
    turns = Shares(at_once=3_000)
    await turns.take("a", 3_000)
    waiting = [asyncio.create_task(turns.take("a", 3_000)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    waiting[1].cancel()
    await asyncio.wait_for(waiting[2], 1)
    await asyncio.wait_for(turns.take("b", 3_000), 1)


def _crowd() -> Company:
    """Two tenants that are about."""
    company = Company()
    for tenant in ("quiet", "flood", "quiet"):
        company.note(tenant)
    return company


async def _read_parts(turns: Shares, company: Company, parts: int, busy: float) -> None:
    """Read parts of bodies, each of which takes the loop so many seconds."""
    for _ in range(parts):
        await turns.take_part("flood", 3_000, company)
        until = time.monotonic() + busy
        while time.monotonic() < until:
            pass


async def test_who_reads_much_leaves_the_loop_to_others():
    """Work of 20 ms has rests of 80 ms in it, but for what is free."""
    turns, company = Shares(), _crowd()
    began = time.monotonic()
    await _read_parts(turns, company, 10, 0.002)
    assert time.monotonic() - began > REST * 0.018 - UNTIRED
    assert not turns.rests("quiet")
    await _read_parts(turns, _crowd(), 1, 0.02)
    assert turns.rests("flood")


async def test_alone_nobody_rests():
    turns, company = Shares(), Company()
    company.note("flood")
    await _read_parts(turns, company, 10, 0.002)
    assert not turns.rests("flood")


async def test_only_what_it_does_itself_counts_as_an_accounts_work():
    """The look of the loop at other connections ends it."""
    turns = Shares()
    await turns.take_part("flood", 3_000, _crowd())
    await asyncio.sleep(0.05)
    assert not turns.rests("flood")


async def test_who_cannot_rest_in_time_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(edge_turns, "PATIENCE", 0)
    turns, company = Shares(), _crowd()
    await _read_parts(turns, company, 1, 0.02)
    with pytest.raises(CommandNotDone):
        await asyncio.gather(*(_read_parts(turns, company, 1, 0.02) for _ in range(3)))
    await turns.take_part("quiet", 3_000, company)


async def test_one_at_a_time_in_turn():
    one, inside, served = FairSemaphore(FairBounds(1, per_tenant=1), waiting=MAX_RUNNING), 0, []

    async def work(project_id):
        nonlocal inside
        async with one.place(project_id):
            inside += 1
            try:
                assert inside == 1
                await asyncio.sleep(0)
                served.append(project_id)
            finally:
                inside -= 1

    await asyncio.gather(*(work("flood") for _ in range(20)), work("quiet"))
    assert served.index("quiet") <= 2
    gone = [asyncio.create_task(work("a")) for _ in range(3)]
    await asyncio.sleep(0)
    for task in gone:
        task.cancel()
    await asyncio.gather(*gone, return_exceptions=True)
    await asyncio.wait_for(work("b"), 1)


@pytest.mark.parametrize(
    ("size", "foreign", "cost"), [(16_000, False, 16_000), (16_000, True, 64_000), (900, True, 900)]
)
async def test_what_is_dear_to_read_takes_more_of_a_turn(size: int, foreign: bool, cost: int) -> None:
    """A record of an SDK is read, turned into one of ours, and that written; what is small never waits."""
    taken: list[tuple[str, int]] = []

    async def take(tenant: str, size: int, _: Company) -> None:
        taken.append((tenant, size))

    call: Any = SimpleNamespace(
        _tools=SimpleNamespace(turns=SimpleNamespace(take_part=take), apart=SimpleNamespace(company=Company())),
        principal=SimpleNamespace(tenant="t"),
    )
    await CheckedCall.turn(call, size, foreign=foreign)
    assert taken == [("t", cost)]
