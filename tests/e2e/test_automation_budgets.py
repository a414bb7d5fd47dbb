"""Budgets raced over HTTP at two API processes: exactly as much as the cap is accepted, to the second (P11, G-107)."""

from __future__ import annotations

import asyncio
from collections import Counter
from decimal import Decimal

import httpx2
import pytest

from statemachines.runs.ledger import WINDOW_SECONDS
from tests.support import long_after
from tests.support.api import at_once
from tests.support.loop.arena import Arena, Chain, code_of, must

RIVALS = 32


@pytest.mark.parametrize("cap", long_after(1, [3, 1]))
async def test_starts_at_once_are_as_many_as_the_cap(arena: Arena, cap: int):
    """Receipts of as many cases are started at once; the refused say when the budget resets, and start nothing."""
    await arena.policy(max_runs_per_day=cap)
    chains = await arena.chains(RIVALS, arena.claim)
    answers = await at_once(RIVALS, lambda turn: arena.start(chains[turn], at=turn % 2))
    assert Counter(map(code_of, answers)) == {"201": cap, "budget_exhausted": RIVALS - cap}
    first = min(answer.json()["started_at"] for answer in answers if answer.is_success)
    for answer in answers:
        if not answer.is_success:
            details = answer.json()["error"]["details"]
            assert (details["budget"], details["limit"], details["used"]) == ("max_runs_per_day", cap, cap)
            assert details["resets_at"] == first + WINDOW_SECONDS
    topics = await arena.topics()
    assert (topics["run.started.v1"], topics["ledger.run_charged.v1"]) == (cap, cap)
    assert topics["trigger_receipt.consumed.v1"] == cap


@pytest.mark.parametrize("cap", long_after(1, [3, 1]))
async def test_pull_requests_at_once_are_as_many_as_the_cap(arena: Arena, cap: int):
    """32 runs ask for their pull request at once, three times over: the cap holds, and repeats cost nothing."""
    await arena.policy(max_prs_per_day=cap)
    chains = await arena.chains(RIVALS, arena.run)

    async def authorize(turn: int) -> tuple[str, str]:
        chain = chains[turn % RIVALS]
        answer = await arena.act(chain, "actions/draft-pr/authorize", arena.binding(chain), at=turn // RIVALS % 2)
        return code_of(answer), answer.json().get("grant_id", "")

    answers = await at_once(3 * RIVALS, authorize)
    codes = Counter(code for code, _ in answers)
    assert codes == {"201": cap, "200": 2 * cap, "budget_exhausted": 3 * (RIVALS - cap)}
    assert len({grant for _, grant in answers if grant}) == cap
    topics = await arena.topics()
    assert (topics["grant.authorized.v1"], topics["ledger.pr_reserved.v1"]) == (cap, cap)


@pytest.mark.parametrize("cap", long_after(1, [3, 1]))
async def test_charges_at_once_are_as_many_as_the_cap(arena: Arena, cap: int):
    """32 charges of one turn, each asked again under the newest revision until it is taken or refused by the budget."""
    await arena.policy(max_turns_per_run=cap)
    [chain] = await arena.chains(1, arena.run)
    stale = Counter[str]()

    async def charge(turn: int) -> str:
        token = chain.token
        while True:
            body = token | {"turns": 1}
            answer = await arena.post(f"{chain.path}/usage", body, at=turn % 2)
            if code_of(answer) != "stale_state_revision":
                return code_of(answer)
            stale["seen"] += 1
            token |= {"state_revision": answer.json()["error"]["details"]["current_state_revision"]}

    assert Counter(await at_once(RIVALS, charge)) == {"200": cap, "budget_exhausted": RIVALS - cap}
    assert stale["seen"] >= cap, "nobody raced"
    run = must(await arena.ask("GET", chain.path))
    assert (run["charges"]["turns"], run["state_revision"]) == (cap, 1 + cap)
    assert (await arena.topics())["ledger.usage_charged.v1"] == cap


async def test_ten_dimes_are_a_dollar(arena: Arena):
    """0.1 ten times is exactly 1.0: all ten are accepted, and then not a millionth more."""
    await arena.policy(max_cost_usd_per_run=1)
    [chain] = await arena.chains(1, arena.run)
    for number in range(1, 11):
        body = must(await arena.usage(chain, {"cost_usd": 0.1}), 200)
        assert Decimal(repr(body["charges"]["cost_usd"])) == Decimal(number) / 10
        assert Decimal(repr(body["remaining"]["cost_usd"])) == 1 - Decimal(number) / 10
        chain.revision = body["state_revision"]
    refused = await arena.usage(chain, {"cost_usd": 0.000001})
    assert code_of(refused) == "budget_exhausted"
    details = refused.json()["error"]["details"]
    assert (details["used"], details["requested"], details["limit"]) == (1.0, 0.000001, 1.0)
    assert must(await arena.ask("GET", chain.path))["charges"]["cost_usd"] == 1.0
    charged = [item.event.cost_usd for item in await arena.log() if item.event.TOPIC == "ledger.usage_charged.v1"]
    assert charged == ["0.1"] * 10


async def test_the_window_ends_to_the_second(arena: Arena):
    """A start is refused in the last second of the window of the one before, and accepted in the first one after it."""
    await arena.policy(max_runs_per_day=1)
    [first, *_] = await arena.chains(1, arena.claim)
    started = must(await arena.start(first), 201)["started_at"]
    resets_at = started + WINDOW_SECONDS
    await arena.wait(WINDOW_SECONDS - 300)
    [chain] = await arena.chains(1, arena.claim)
    await arena.wait(int(resets_at - await arena.now()) - 1)
    assert resets_at - 2.5 < await arena.now() < resets_at
    refused_at, began, answer = await _until_taken(arena, chain)
    assert answer.json()["started_at"] >= resets_at
    assert resets_at - 2 < refused_at < resets_at, "the last refusal was too early to prove anything"
    assert began < resets_at + 2, "the success was too late to prove anything"
    assert (await arena.topics())["ledger.run_charged.v1"] == 2


async def _until_taken(arena: Arena, chain: Chain) -> tuple[float, float, httpx2.Response]:
    """Retry until success; returns when the last refused and the successful request were sent, and the answer."""
    refused_at = 0.0
    while True:
        began = await arena.now()
        answer = await arena.start(chain)
        if answer.is_success:
            return refused_at, began, answer
        assert code_of(answer) == "budget_exhausted"
        assert answer.json()["error"]["details"]["resets_at"] > began
        refused_at = began
        await asyncio.sleep(0.02)
