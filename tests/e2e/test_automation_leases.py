"""The epoch decides who holds a lease, not politeness: a holder that comes back late is refused everything (P5).

Runner A is stopped, its process is stopped, or the row it needs is held, past the end of its lease; meanwhile B
claims and starts. Whatever A had under way and whatever it asks next is refused, and the log holds nothing of it.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import httpx2
import psycopg
import pytest

from statemachines.runs.claim import ClaimCreated, ClaimExpired
from tests.support import long_after
from tests.support.loop.arena import LEASE_SECONDS, Arena, Chain, code_of, must, serving
from tests.support.loop.port import Entry
from tests.support.server import ServerHandle

ROUNDS = 3
UNTIL_FREE = LEASE_SECONDS + 61
"""Seconds until a case whose runner fell silent is offered anew: the lease, and the cooldown after its run."""
STALE = {"lease_expired", "stale_lease_epoch", "claim_not_active"}
COMMANDS: dict[str, Callable[..., Awaitable[httpx2.Response]]] = {
    "renew": Arena.renew,
    "release": Arena.release,
    "progress": Arena.patch,
    "usage": Arena.usage,
    "consume": Arena.consume,
}


async def _take_over(arena: Arena, lapsed: Chain) -> Chain:
    """B gets a receipt for the case whose lease has lapsed, claims it with the next epoch, and starts."""
    [chain] = await arena.issued({lapsed.case_id}, who="rival", at=1)
    claim = must(await arena.post(chain.claim_path, arena.claim_body(chain), who="rival", at=1), 201)
    assert claim["lease_epoch"] == lapsed.epoch + 1
    chain.claim_id, chain.epoch = claim["claim_id"], claim["lease_epoch"]
    chain.run_id = must(await arena.start(chain, who="rival", at=1), 201)["run_id"]
    return chain


async def _all_refused(arena: Arena, chain: Chain) -> None:
    """Everything that A may ask for, at both processes, under its own epoch and under B's."""
    for epoch in (chain.epoch, chain.epoch + 1):
        late = Chain(**{**chain.__dict__, "epoch": epoch})
        for name, command in COMMANDS.items():
            for at in (0, 1):
                answer = await command(arena, late, at=at)
                assert code_of(answer) in STALE, (name, answer.text)


async def _b_goes_on(arena: Arena, chain: Chain) -> None:
    """B is not disturbed."""
    charged = must(await arena.usage(chain, {"turns": 1}, who="rival"), 200)
    chain.revision = charged["state_revision"]
    must(await arena.renew(chain, who="rival"), 200)
    assert must(await arena.ask("GET", chain.path, who="rival"))["status"] is None


def _of_a_after(log: list[Entry], a: Chain, b: Chain) -> list[Entry]:
    """Runner's events on A's claim, run and grant behind B's claim. That the lease expired, anybody may write down."""
    [at] = [n for n, item in enumerate(log) if item.stream_id == b.claim_id and isinstance(item.event, ClaimCreated)]
    return [
        item
        for item in log[at:]
        if item.stream_id in {a.claim_id, a.run_id, a.grant_id}
        and item.actor == "runner"
        and not isinstance(item.event, ClaimExpired)
    ]


def _signal(server: ServerHandle, what: signal.Signals) -> None:
    """Send a signal to the serving processes of a server."""
    victims = serving(server)
    assert victims
    for child in victims:
        child.send_signal(what)


@contextmanager
def _stopped(server: ServerHandle) -> Iterator[None]:
    """The serving processes of a server do not run during a block."""
    _signal(server, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(server, signal.SIGCONT)


@asynccontextmanager
async def _stopped_inside(arena: Arena) -> AsyncIterator[None]:
    """The first server does not run during a block, and was stopped while it had a transaction open."""
    for _ in range(400):
        with _stopped(arena.servers[0]):
            [[inside]] = await arena.sql(
                "select count(*) from pg_stat_activity where datname = current_database() "
                "and application_name = 'service-loop' and state = 'idle in transaction'"
            )
            if inside:
                yield
                return
        await asyncio.sleep(random.uniform(0, 0.02))
    raise AssertionError("it was never caught inside")


async def test_a_runner_that_slept_through_its_lease_is_refused_everything(arena: Arena):
    """A stops asking; its lease ends; B claims and starts; A wakes up."""
    await arena.policy()
    for _ in range(ROUNDS):
        [a] = await arena.chains(1, arena.grant)
        must(await arena.renew(a, at=0), 200)
        await arena.wait(UNTIL_FREE)
        b = await _take_over(arena, a)
        await _all_refused(arena, a)
        await _b_goes_on(arena, b)
        assert _of_a_after(await arena.log(), a, b) == []


async def test_what_a_stopped_process_still_holds_is_refused(arena: Arena):
    """A's requests wait in a process that is stopped; they are carried out after B's claim, and refused."""
    await arena.policy()
    heard = Counter[str]()
    for _ in range(ROUNDS):
        [a] = await arena.chains(1, arena.grant)
        with _stopped(arena.servers[0]):
            waiting = [asyncio.create_task(command(arena, a, at=0)) for command in COMMANDS.values()]
            await asyncio.sleep(0.2)
            assert not any(task.done() for task in waiting)
            await arena.wait(UNTIL_FREE)
            b = await _take_over(arena, a)
        heard.update([code_of(answer) for answer in await asyncio.gather(*waiting)])
        await _all_refused(arena, a)
        await _b_goes_on(arena, b)
        assert _of_a_after(await arena.log(), a, b) == []
    assert set(heard) <= STALE, heard
    assert heard.total() == ROUNDS * len(COMMANDS)


@pytest.mark.parametrize("rounds", long_after(1, [1, ROUNDS]))
async def test_a_process_stopped_in_its_transaction_harms_nobody(arena: Arena, rounds: int):
    """A charges without pause until its process is stopped with locks in its hands; B gets them within its patience."""
    await arena.policy()
    taken = Counter[str]()
    for _ in range(rounds):
        [a] = await arena.chains(1, arena.run)
        over = asyncio.Event()
        workers = [asyncio.create_task(_charge_on(arena, a, over, taken)) for _ in range(4)]
        async with _stopped_inside(arena):
            await arena.wait(UNTIL_FREE)
            b = await _take_over(arena, a)
        over.set()
        await asyncio.gather(*workers)
        await _b_goes_on(arena, b)
        assert _of_a_after(await arena.log(), a, b) == []
    assert taken["200"] >= rounds, taken
    assert sum(taken[code] for code in STALE) >= 4 * rounds, taken


async def _charge_on(arena: Arena, chain: Chain, over: asyncio.Event, taken: Counter[str]) -> None:
    """Charge again and again through the first process, until the lease has been lost and B has claimed."""
    token = chain.token
    while True:
        last = over.is_set()
        answer = await arena.post(f"{chain.path}/usage", token | {"cost_usd": 0.000001}, at=0)
        taken[code_of(answer)] += 1
        if answer.is_success:
            token |= {"state_revision": answer.json()["state_revision"]}
        elif code_of(answer) == "stale_state_revision":
            token |= {"state_revision": answer.json()["error"]["details"]["current_state_revision"]}
        else:
            assert code_of(answer) in STALE, answer.text
        if last:
            assert not answer.is_success
            return


LOCK = "select 1 from stream_heads where project_id = %s and stream_id = %s for update"
TOUCH = "update stream_heads set kind = kind where project_id = %s and stream_id = %s"
BLOCKERS = {"commits": (TOUCH, "commit"), "only locks": (LOCK, "commit"), "rolls back": (TOUCH, "rollback")}


@asynccontextmanager
async def _held(arena: Arena, stream_id: str, blocker: str) -> AsyncIterator[None]:
    """A bare session holds the head of a stream during a block, and lets go of it in its own way."""
    statement, ending = BLOCKERS[blocker]
    async with await psycopg.AsyncConnection.connect(arena.scene.world.url, autocommit=True) as connection:
        await connection.execute("begin")
        cursor = await connection.execute(statement.encode(), (arena.project_id, stream_id))
        assert cursor.rowcount == 1
        yield
        await connection.execute(ending.encode())


@pytest.mark.parametrize("blocker", BLOCKERS)
async def test_a_lease_that_ends_while_its_row_is_held_has_ended(arena: Arena, blocker: str):
    """A asked in time and waits for a row across the end of its lease: it is judged by the time at which it decides."""
    await arena.policy()
    for name, command in COMMANDS.items():
        [a] = await arena.chains(1, arena.grant)
        held = a.claim_id if name in {"renew", "release"} else a.run_id
        async with _held(arena, held, blocker):
            waiting = asyncio.create_task(command(arena, a))
            await asyncio.sleep(0.4)
            assert not waiting.done(), "it did not wait"
            await arena.wait(LEASE_SECONDS)
        answer = await waiting
        assert code_of(answer) in STALE, (name, answer.text)
    topics = await arena.topics()
    assert topics["grant.consumed.v1"] == topics["claim.released.v1"] == topics["run.progressed.v1"] == 0
