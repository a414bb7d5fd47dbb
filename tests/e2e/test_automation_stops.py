"""Pause is a point in the log: no request sent after its answer has authority, and no authority event follows it.

Sixteen workers start, charge, report, authorize and call at two API processes while somebody pauses at random (P10).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import monotonic

import httpx2
import psycopg

from service.eventstore.names import gate, lock_number
from statemachines.contracts.contract import ContractEnabled, ContractPaused
from tests.support.loop.arena import Arena, Chain, code_of, must
from tests.support.loop.port import Entry
from tests.support.loop.rules import AUTHORITY

ROUNDS = 12
PAUSE_SECONDS = 2.0
REFUSALS = 3  # how many refusals a worker needs before it stops


@dataclass
class Heard:
    """The requests of the workers: when they were sent, what for, and their results."""

    paused_at: float = float("inf")  # when the answer to the pause was there
    asked_at: float = float("inf")  # when it was sent
    granted: list[tuple[float, float, str]] = field(default_factory=list)  # asked, answered, what for
    codes: Counter[str] = field(default_factory=Counter)
    begun: asyncio.Event = field(default_factory=asyncio.Event)  # set with the first success

    @property
    def late(self) -> list[str]:
        """Successful requests that were sent after the pause was answered."""
        return [what for began, _, what in self.granted if began > self.paused_at]

    @property
    def during(self) -> int:
        """Successful requests that overlapped the pause."""
        return sum(began < self.paused_at and ended > self.asked_at for began, ended, _ in self.granted)


Call = Callable[[], Awaitable[httpx2.Response]]


async def _work(arena: Arena, heard: Heard, steps: list[tuple[str, Call]], chain: Chain) -> None:
    """Take the steps once in their order, then charge repeatedly, until everything is refused."""
    await asyncio.sleep(random.uniform(0, 0.05))
    queue, refused = list(steps), 0
    while refused < REFUSALS:
        what, call = queue[0] if queue else ("usage", lambda: arena.usage(chain))
        began = monotonic()
        answer = await call()
        heard.codes[f"{what} {code_of(answer)}"] += 1
        if answer.is_success:
            refused = 0
            body = answer.json()
            chain.run_id = body.get("run_id", chain.run_id)
            chain.revision = body["state_revision"]
            if what == "consume" and not body["call_authorized"]:
                raise AssertionError("one worker alone consumes, and is told to reconcile")
            heard.granted.append((began, monotonic(), what))
            heard.begun.set()
            del queue[:1]
        else:
            assert code_of(answer) == "automation_paused", answer.text
            refused += 1


async def _round(arena: Arena) -> Heard:
    """Four of each kind of worker, each with a chain of its own, and a pause at random; then all is on again."""
    chains = await arena.receipts(16)
    await asyncio.gather(*map(arena.claim, chains[:4]))
    await asyncio.gather(*map(arena.run, chains[4:12]))
    await asyncio.gather(*map(arena.grant, chains[12:]))
    heard = Heard()
    workers = []
    for number, chain in enumerate(chains):
        binding = arena.binding(chain)
        kinds: list[list[tuple[str, Call]]] = [
            [("start", lambda chain=chain: arena.start(chain))],
            [("progress", lambda chain=chain: arena.patch(chain))],
            [
                (
                    "authorize",
                    lambda chain=chain, binding=binding: arena.act(chain, "actions/draft-pr/authorize", binding),
                )
            ],
            [("consume", lambda chain=chain: arena.consume(chain))],
        ]
        workers.append(_work(arena, heard, kinds[number // 4], chain))

    async def pause() -> None:
        await asyncio.sleep(random.uniform(0, 0.15))
        heard.asked_at = monotonic()
        must(await arena.pause(), 200)
        heard.paused_at = monotonic()

    await asyncio.gather(pause(), *workers)
    await arena.enable()
    return heard


def _between_stop_and_go(log: list[Entry]) -> list[Entry]:
    """Authority events while the contract was paused."""
    paused, found = False, []
    for entry in log:
        if isinstance(entry.event, ContractPaused | ContractEnabled):
            paused = isinstance(entry.event, ContractPaused)
        elif paused and isinstance(entry.event, AUTHORITY):
            found.append(entry)
    return found


async def test_nothing_has_authority_after_a_pause(arena: Arena):
    """Twelve pauses at random: no late success, no authority event behind the stop, each answered within 2 seconds."""
    await arena.policy()
    rounds = [await _round(arena) for _ in range(ROUNDS)]
    assert [heard.late for heard in rounds] == [[]] * ROUNDS
    assert max(heard.paused_at - heard.asked_at for heard in rounds) <= PAUSE_SECONDS
    log = await arena.log()
    assert _between_stop_and_go(log) == []
    assert sum(isinstance(entry.event, ContractPaused) for entry in log) == ROUNDS
    codes = sum((heard.codes for heard in rounds), Counter[str]())
    for what, success in {"start": 201, "progress": 200, "authorize": 201, "consume": 200, "usage": 200}.items():
        assert codes[f"{what} {success}"] >= ROUNDS / 2, codes
        assert codes[f"{what} automation_paused"] >= ROUNDS / 4, codes
    assert sum(heard.during for heard in rounds) >= ROUNDS, "the pauses met hardly any call"


async def test_what_a_stop_leaves_open_settles_and_gives_nothing_back(arena: Arena):
    """A consumed grant may be proven after the pause, once; an unspent one stays revoked after enabling again."""
    await arena.policy()
    called, unspent = await arena.chains(2, arena.grant)
    assert must(await arena.consume(called), 200)["call_authorized"]
    must(await arena.pause(), 200)
    proof = {
        "observation": "pr_opened",
        "repository": "https://code.example/acme/shop",
        "pr_number": 7,
        "pr_url": "https://code.example/acme/shop/pull/7",
        "head_branch": f"heal/{called.run_id}",
        "base_branch": "main",
        "head_sha": arena.binding(called)["head_sha"],
        "draft": True,
    }
    proofs = await asyncio.gather(*(arena.post(f"{called.path}/pr-proof", proof, who="ci") for _ in range(8)))
    assert Counter(answer.status_code for answer in proofs) == {201: 1, 200: 7}
    again = must(await arena.consume(called), 200)
    assert (again["call_authorized"], again["reconcile_only"]) == (False, True)
    assert code_of(await arena.consume(unspent)) == "automation_paused"
    await arena.enable()
    assert code_of(await arena.consume(unspent)) == "grant_not_available"
    assert _between_stop_and_go(await arena.log()) == []


async def test_a_stalled_writer_holds_no_pause_up(arena: Arena):
    """A session that holds the gate and does nothing is ended: three pauses under load, each within 2 seconds."""
    await arena.policy()
    for _ in range(3):
        [chain] = await arena.chains(1, arena.run)
        heard = Heard()
        stalled = await psycopg.AsyncConnection.connect(arena.scene.world.url)
        try:
            cursor = await stalled.execute(
                "select pg_try_advisory_xact_lock_shared(%s::bigint)", (lock_number(gate(arena.project_id)),)
            )
            assert await cursor.fetchall() == [(True,)]
            worker = asyncio.create_task(_work(arena, heard, [], chain))
            await heard.begun.wait()
            heard.asked_at = monotonic()
            must(await arena.pause(), 200)
            heard.paused_at = monotonic()
            await worker
            try:
                await stalled.execute("select 1")
            except psycopg.Error:
                pass
            else:
                raise AssertionError("the stalled session still holds the gate")
        finally:
            await stalled.close()
        assert 0.5 < heard.paused_at - heard.asked_at <= PAUSE_SECONDS
        assert heard.late == []
        await arena.enable()
    assert _between_stop_and_go(await arena.log()) == []
