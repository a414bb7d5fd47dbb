"""Races over HTTP at two API processes: one winner each, with repeats and kills (P12)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from tests.support import long_after
from tests.support.api import at_once
from tests.support.loop.arena import Arena, Chain, code_of, must, replaced, serving

RIVALS = 32
ROUNDS = [1, 3]


@pytest.mark.parametrize("rounds", long_after(1, ROUNDS))
async def test_a_receipt_starts_one_run_whoever_asks(arena: Arena, rounds: int):
    """32 starts under different keys at once: one run, and every other answer names it."""
    await arena.policy()
    for chain in await arena.chains(rounds, arena.claim):
        answers = await at_once(RIVALS, lambda turn, chain=chain: arena.start(chain, at=turn % 2))
        assert Counter(map(code_of, answers)) == {"201": 1, "receipt_already_consumed": RIVALS - 1}
        [run_id] = [answer.json()["run_id"] for answer in answers if answer.is_success]
        others = [answer.json()["error"]["details"]["run_id"] for answer in answers if not answer.is_success]
        assert set(others) == {run_id}
        assert await arena.topics(chain.receipt_id) == {
            "trigger_receipt.issued.v1": 1,
            "trigger_receipt.claimed.v1": 1,
            "trigger_receipt.consumed.v1": 1,
        }
        assert await arena.topics(run_id) == {"run.started.v1": 1}
    assert (await arena.topics())["ledger.run_charged.v1"] == rounds


@pytest.mark.parametrize("rounds", long_after(1, ROUNDS))
async def test_twins_of_a_start_are_told_of_the_same_run(arena: Arena, rounds: int):
    """One key, 32 times at both processes: one answer creates, the others repeat it."""
    await arena.policy()
    for chain in await arena.chains(rounds, arena.claim):
        key = arena.key()
        answers = await at_once(RIVALS, lambda turn, chain=chain, key=key: arena.start(chain, key=key, at=turn % 2))
        assert Counter(answer.status_code for answer in answers) == {201: 1, 200: RIVALS - 1}
        assert len({answer.json()["run_id"] for answer in answers}) == 1
        assert sum(answer.json()["idempotent_replay"] for answer in answers) == RIVALS - 1
    assert (await arena.topics())["run.started.v1"] == rounds


@pytest.mark.parametrize("rounds", long_after(1, ROUNDS))
async def test_a_case_revision_has_one_claim(arena: Arena, rounds: int):
    """Two runners, one request each and then 16 each: one claim, which only its holder is shown again."""
    await arena.policy()
    for chain in await arena.receipts(rounds):
        await _claim(arena, chain, 2)
    for chain in await arena.receipts(rounds):
        await _claim(arena, chain, RIVALS)
    assert (await arena.topics())["claim.created.v1"] == 2 * rounds


async def test_a_case_that_has_rested_ends_its_receipt_once(arena: Arena):
    """32 claims of a receipt whose case rests by now: one ends it, and every other finds it over (G-188)."""
    await arena.policy()
    answer = await arena.ask("POST", "/v1/logs/", {"message": "The tide has turned", "level": "error"}, who="dsn")
    await arena.wait(600)
    [chain] = await arena.issued({must(answer, 202)["case_id"]})
    await arena.wait(86_000)
    answers = await at_once(RIVALS, lambda turn: arena.post(chain.claim_path, arena.claim_body(chain), at=turn % 2))
    assert Counter(map(code_of, answers)) == {"materiality_not_met": 1, "receipt_not_claimable": RIVALS - 1}
    assert await arena.topics(chain.receipt_id) == {
        "trigger_receipt.issued.v1": 1,
        "trigger_receipt.invalidated.v1": 1,
    }
    decided = await arena.sql("select stage, code from automation_decisions where receipt_id = %s", chain.receipt_id)
    assert sorted(decided) == [("claim", "materiality_not_met"), ("issue", None)]


async def _claim(arena: Arena, chain: Chain, rivals: int) -> None:
    async def claim(turn: int) -> tuple[str, str, str | None]:
        who = ("heal", "rival")[turn % 2]
        answer = await arena.post(chain.claim_path, arena.claim_body(chain), who=who, at=turn // 2 % 2)
        return who, code_of(answer), answer.json().get("claim_id")

    answers = await at_once(rivals, claim)
    [(winner, _, claim_id)] = [told for told in answers if told[1] == "201"]
    mine = [told for told in answers if told[0] == winner]
    assert Counter(code for _, code, _ in mine) == Counter({"201": 1, "200": rivals // 2 - 1})
    assert {told[2] for told in mine} == {claim_id}
    refusals = {code for who, code, _ in answers if who != winner}
    assert refusals <= {"case_already_claimed", "receipt_not_claimable"}, refusals
    active = must(await arena.ask("GET", f"{chain.claim_path}/active", who=winner))
    assert (active["claim_id"], active["lease_epoch"]) == (claim_id, 1)


@pytest.mark.parametrize("rounds", long_after(1, ROUNDS))
async def test_a_grant_authorizes_one_call(arena: Arena, rounds: int):
    """32 call-starts of one grant, some under one key: one may call the provider, the others only reconcile."""
    await arena.policy()
    for chain in await arena.chains(rounds, arena.grant):
        await _call(arena, chain)
        assert await arena.topics(chain.grant_id) == {"grant.authorized.v1": 1, "grant.consumed.v1": 1}
    assert (await arena.topics())["run.draft_pr_consumed.v1"] == rounds


async def _call(arena: Arena, chain: Chain) -> None:
    shared = arena.key()

    async def consume(turn: int) -> tuple[bool, bool]:
        key = shared if turn % 3 == 0 else arena.key()
        body = must(await arena.consume(chain, key=key, at=turn % 2), 200)
        return body["call_authorized"], body["reconcile_only"]

    assert Counter(await at_once(RIVALS, consume)) == {(True, False): 1, (False, True): RIVALS - 1}


async def test_another_change_is_refused_and_burns_nothing(arena: Arena):
    """While a grant stands, other branches, commits and diffs are refused by 32 at once; then it is still good once."""
    await arena.policy()
    chain, other = await arena.chains(2, arena.grant)
    altered = [
        {"head_branch": "heal/elsewhere"},
        {"head_sha": "9" * 40},
        {"files_changed": ["src/other.py"]},
        {"changed_lines": 13},
    ]

    async def authorize(turn: int) -> str:
        body = arena.binding(chain, **altered[turn % len(altered)])
        return code_of(await arena.act(chain, "actions/draft-pr/authorize", body, at=turn // 4 % 2))

    assert Counter(await at_once(RIVALS, authorize)) == {"grant_already_authorized": RIVALS}
    foreign = await arena.act(chain, "actions/draft-pr/consume", {"grant_id": other.grant_id})
    assert code_of(foreign) == "grant_not_available"
    same = must(await arena.act(chain, "actions/draft-pr/authorize", arena.binding(chain)), 200)
    assert (same["grant_id"], same["status"]) == (chain.grant_id, "authorized")
    assert must(await arena.consume(chain), 200)["call_authorized"]
    topics = await arena.topics()
    assert (topics["grant.authorized.v1"], topics["grant.consumed.v1"]) == (2, 1)


@pytest.mark.parametrize("rounds", long_after(1, ROUNDS))
async def test_a_process_may_die_in_any_of_it(arena: Arena, rounds: int):
    """An API process is killed during starts, charges and calls; a repeated request returns the first answer."""
    await arena.policy()
    killed = 0
    for chain in await arena.chains(rounds, arena.claim):
        killed += await _start_under_kills(arena, chain)
        killed += await _charge_under_kills(arena, chain)
        killed += await _call_under_kills(arena, chain)
        assert await arena.topics(chain.run_id) == {
            "run.started.v1": 1,
            "run.charged.v1": 1,
            "run.draft_pr_authorized.v1": 1,
            "run.draft_pr_consumed.v1": 1,
        }
    assert killed == 3 * rounds
    assert arena.doubts > 0, "no answer was lost"


async def _start_under_kills(arena: Arena, chain: Chain) -> int:
    keys = [arena.key() for _ in range(8)]

    async def start(turn: int) -> tuple[str, str, str]:
        key = keys[turn % len(keys)]
        answer = await arena.start(chain, key=key)
        if answer.is_success:
            return key, "run", answer.json()["run_id"]
        return key, code_of(answer), answer.json()["error"]["details"]["run_id"]

    answers, killed = await asyncio.gather(at_once(RIVALS, start), _kill(arena))
    assert {what for _, what, _ in answers} == {"run", "receipt_already_consumed"}
    assert len({run_id for _, _, run_id in answers}) == 1
    assert len({key for key, what, _ in answers if what == "run"}) == 1
    chain.run_id = answers[0][2]
    return killed


async def _charge_under_kills(arena: Arena, chain: Chain) -> int:
    key = arena.key()
    storm = at_once(12, lambda _: arena.usage(chain, {"turns": 7}, key=key))
    answers, killed = await asyncio.gather(storm, _kill(arena))
    bodies = [must(answer, 200) for answer in answers]
    assert {(body["state_revision"], body["charges"]["turns"]) for body in bodies} == {(chain.revision + 1, 7)}
    chain.revision += 1
    return killed


async def _call_under_kills(arena: Arena, chain: Chain) -> int:
    granted = must(await arena.act(chain, "actions/draft-pr/authorize", arena.binding(chain)), 201)
    chain.grant_id, chain.revision = granted["grant_id"], chain.revision + 1
    storm = at_once(RIVALS, lambda _: arena.consume(chain))
    answers, killed = await asyncio.gather(storm, _kill(arena))
    # The one authorizing answer may be lost; no other answer authorizes.
    assert sum(must(answer, 200)["call_authorized"] for answer in answers) <= 1
    assert (await arena.topics(chain.grant_id))["grant.consumed.v1"] == 1
    return killed


async def _kill(arena: Arena) -> int:
    """Kill one of the serving processes, and wait for its replacement; returns how many were killed."""
    await asyncio.sleep(random.uniform(0.0, 0.06))
    server = random.choice(arena.servers)
    victim = random.choice(serving(server))
    victim.kill()
    await replaced(server, victim)
    return 1
