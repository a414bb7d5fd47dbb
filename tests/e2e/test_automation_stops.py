"""Pause is a point in the log: no request sent after its answer has authority, and no authority event follows it.

Sixteen workers start, charge, report, authorize and call at two API processes while somebody pauses at random (P10).
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import httpx2
import psycopg
import pytest

from service.eventstore.declare.names import gate, lock_number
from statemachines.contracts.contract import ContractEnabled, ContractPaused, LastAutomationDisabled
from tests.support import long_after
from tests.support.loaded import run_command
from tests.support.loop.arena import Arena, Chain, code_of, must
from tests.support.loop.port import Entry
from tests.support.loop.rules import AUTHORITY

PAUSE_SECONDS = 2.0
REFUSALS = 3  # how many refusals a worker needs before it stops
EXTRA = 12  # rounds that may follow when a kind of request was not met yet
SUCCESSES = {"start": 201, "progress": 200, "authorize": 201, "consume": 200, "usage": 200}  # what each kind answers


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
            assert code_of(answer) in {"automation_paused", "automation_disabled"}, answer.text
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


def _met(rounds: list[Heard], least: float) -> bool:
    """Each kind of request succeeded and was refused so often, and the pauses overlapped calls."""
    codes = sum((heard.codes for heard in rounds), Counter[str]())
    return sum(heard.during for heard in rounds) >= len(rounds) and all(
        min(codes[f"{what} {success}"], codes[f"{what} automation_paused"]) >= least
        for what, success in SUCCESSES.items()
    )


@pytest.mark.parametrize("pauses", long_after(1, [2, 12]))
async def test_nothing_has_authority_after_a_pause(arena: Arena, pauses: int):
    """Pauses at random: no late success, no authority event behind the stop, each answered within 2 seconds.

    Chance says which requests a pause meets: rounds follow until each kind was met, at most `EXTRA` of them.
    """
    await arena.policy()
    rounds = [await _round(arena) for _ in range(pauses)]
    while not _met(rounds, pauses / 4) and len(rounds) < pauses + EXTRA:
        rounds.append(await _round(arena))
    assert [heard.late for heard in rounds] == [[]] * len(rounds)
    assert max(heard.paused_at - heard.asked_at for heard in rounds) <= PAUSE_SECONDS
    log = await arena.log()
    assert _between_stop_and_go(log) == []
    assert sum(isinstance(entry.event, ContractPaused) for entry in log) == len(rounds)
    assert _met(rounds, pauses / 4), [(heard.during, heard.codes) for heard in rounds]


def _proof(arena: Arena, chain: Chain) -> dict[str, object]:
    """What a trusted CI says of the pull request that a chain was granted."""
    return {
        "observation": "pr_opened",
        "repository": "https://code.example/acme/shop",
        "pr_number": 7,
        "pr_url": "https://code.example/acme/shop/pull/7",
        "head_branch": f"heal/{chain.run_id}",
        "base_branch": "main",
        "head_sha": arena.binding(chain)["head_sha"],
        "draft": True,
    }


async def test_what_a_stop_leaves_open_settles_and_gives_nothing_back(arena: Arena):
    """A consumed grant may be proven after the pause, once; an unspent one stays revoked after enabling again."""
    await arena.policy()
    called, unspent = await arena.chains(2, arena.grant)
    assert must(await arena.consume(called), 200)["call_authorized"]
    stopped = must(await arena.pause(), 200)
    assert [effect["grant_id"] for effect in stopped["effects_started"]] == [called.grant_id]
    proof = _proof(arena, called)
    proofs = await asyncio.gather(*(arena.post(f"{called.path}/pr-proof", proof, who="ci") for _ in range(8)))
    assert Counter(answer.status_code for answer in proofs) == {201: 1, 200: 7}
    again = must(await arena.consume(called), 200)
    assert (again["call_authorized"], again["reconcile_only"]) == (False, True)
    assert code_of(await arena.consume(unspent)) == "automation_paused"
    await arena.enable()
    assert code_of(await arena.consume(unspent)) == "grant_not_available"
    assert must(await arena.pause(), 200)["effects_started"] == []  # the proof has settled it
    await arena.enable()
    assert _between_stop_and_go(await arena.log()) == []


async def _disable(arena: Arena) -> dict[str, object]:
    contract = arena.scene.world.contract
    etag = must(await arena.ask("GET", contract, who="owner"))["etag"]
    return must(await arena.ask("PATCH", f"{contract}/automations/heal", {"enabled": False}, who="member", etag=etag))


async def test_a_disable_is_a_point_in_the_log_too(arena: Arena):
    """Nothing begins behind it; what had begun is named, and its late proof settles without reviving anything."""
    await arena.policy()
    called, unspent, running = await arena.chains(3, arena.grant)
    assert must(await arena.consume(called), 200)["call_authorized"]
    stopped = await _disable(arena)
    revision, topic = stopped["fence"]["revision"], LastAutomationDisabled.TOPIC
    query = "select topic from events where stream_id = %s and revision = %s"
    assert await arena.sql(query, stopped["fence"]["stream_id"], revision) == [(topic,)]
    [effect] = stopped["effects_started"]
    assert (effect["kind"], effect["status"], effect["automation_id"]) == ("draft_pr", "consumed", "heal")
    assert (effect["run_id"], effect["grant_id"]) == (called.run_id, called.grant_id)
    for refused in (
        await arena.consume(unspent),
        await arena.usage(running),
        await arena.renew(running),
        await arena.post(f"{arena.project}/automation-triggers/issue", {"automation_id": "heal"}),
    ):
        assert code_of(refused) == "automation_disabled", refused.text
    assert (await arena.post(f"{called.path}/pr-proof", _proof(arena, called), who="ci")).status_code == 201
    assert (await _disable(arena))["effects_started"] == []
    await arena.enable()
    assert code_of(await arena.consume(unspent)) == "grant_not_available"


async def test_an_operator_stops_the_installation_and_lifts_only_that(arena: Arena, tmp_path: Path):
    """By the command line, beside the servers: nobody enables meanwhile, and owners enable again afterwards (G-148)."""
    await arena.policy()
    [called] = await arena.chains(1, arena.grant)
    assert must(await arena.consume(called), 200)["call_authorized"]

    async def operate(*words: str) -> Any:
        done = await asyncio.to_thread(run_command, *words, "--json", env=arena.servers[0].env, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    told = await operate("pause", "--all", "--why", "the provider is on fire")
    try:
        assert (arena.project_id in told["paused"], told["not_stopped"]) == (True, [])
        again = await operate("pause", "--all", "--why", "once more")
        assert again["paused"] == [], "all are off, and what had begun is told to whoever asks again"
        for tally in (told, again):
            assert called.grant_id in [effect["grant_id"] for effect in tally["effects_started"]]
            assert not tally["effects_truncated"]
        assert code_of(await arena.usage(called)) == "automation_paused"
        contract = must(await arena.ask("GET", arena.scene.world.contract, who="owner"))
        assert contract["automations"][0]["disabled_reason"] == "the provider is on fire"
        enabling = f"{arena.scene.world.contract}/enable"
        refused = await arena.post(enabling, who="owner", etag=contract["etag"])
        assert code_of(refused) == "automation_paused"
        assert "operator" in refused.json()["error"]["message"]
        found = {finding["check"]: finding for finding in await operate("doctor")}
        assert found["automation"]["result"] == "warning"
        assert "the provider is on fire" in found["automation"]["detail"]
    finally:
        await operate("resume", "--all")
    assert code_of(await arena.usage(called)) == "automation_paused"
    assert (await arena.post(f"{called.path}/pr-proof", _proof(arena, called), who="ci")).status_code == 201
    await arena.enable()
    assert _between_stop_and_go(await arena.log()) == []


async def _stalled_client(arena: Arena) -> asyncio.StreamWriter:
    """A client that announces a pause, sends half of it and then nothing."""
    url = httpx2.URL(arena.servers[0].base_url)
    _, writer = await asyncio.open_connection(url.host, url.port)
    secret = arena.scene.world.secrets["member"]
    writer.write(
        f"POST {arena.scene.world.contract}/pause HTTP/1.1\r\nhost: {url.host}\r\nauthorization: Bearer {secret}\r\n"
        'content-type: application/json\r\ncontent-length: 100\r\n\r\n{"reason": "'.encode()
    )
    await writer.drain()
    return writer


async def test_a_stalled_writer_holds_no_stop_up(arena: Arena):
    """A session that holds the gate and does nothing is ended: stops under load, each within 2 seconds."""
    await arena.policy()
    clients = [await _stalled_client(arena) for _ in range(4)]
    for stop in (arena.pause, partial(_disable, arena), arena.pause):
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
            await stop()
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
    for client in clients:
        client.close()
