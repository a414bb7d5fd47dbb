"""Rivals for one onboarding, through two processes: one winner each time, and nothing half done (R-ONB-58, P12)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.support import seen
from tests.support.api import World, ok
from tests.support.cluster import TestCluster
from tests.support.loaded import run_command
from tests.support.onboarding import Onboarding, onboard
from tests.support.plans import plan_body
from tests.support.server import USUAL_PROCESSES, ServerHandle

ROUNDS = 8


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> Iterator[list[ServerHandle]]:
    """Two services on one database."""
    with cluster.database() as url:
        names = ("first", "second")
        handles = [ServerHandle(tmp_path_factory.mktemp(name), database_url=url, env=USUAL_PROCESSES) for name in names]
        handles[1].internal_token = handles[0].internal_token
        try:
            for handle in handles:
                handle.start()
            yield handles
        finally:
            for handle in handles:
                handle.stop()


@pytest_asyncio.fixture
async def worlds(servers: list[ServerHandle]) -> AsyncIterator[list[World]]:
    clients = [seen.async_client(server.base_url, timeout=30) for server in servers]
    yield [World(client, server) for client, server in zip(clients, servers, strict=True)]
    for client in clients:
        await client.aclose()


async def pair(worlds: list[World]) -> tuple[Onboarding, Onboarding]:
    """One onboarding seen through each of the two processes."""
    here = await onboard(worlds[0])
    owner = type(here.owner)(worlds[1].client, here.owner.secret or "", here.owner.user_id, worlds[1])
    return here, Onboarding(worlds[1], owner, here.project_id, here.dsn)


def statuses(answers: list[httpx2.Response]) -> Counter[int]:
    return Counter(answer.status_code for answer in answers)


async def events_of(world: World, state: dict[str, Any]) -> list[str]:
    rows = await world.sql("select topic from events where stream_id = %s order by revision", state["onboarding_id"])
    return [topic for (topic,) in rows]


async def test_many_first_starts_make_one_onboarding(worlds: list[World]) -> None:
    """Of rivals with different plans one is the first; the others are told that there is one (R-ONB-45)."""
    for _ in range(ROUNDS):
        both = await pair(worlds)
        answers = await asyncio.gather(*(both[n % 2].start(plan_body(f"plan {n}")) for n in range(8)))
        assert statuses(answers) == {201: 1, 428: 7}
        [winner] = [answer.json() for answer in answers if answer.status_code == 201]
        assert ok(await both[1].read()) == winner
        assert await events_of(worlds[0], winner) == ["onboarding.planned.v1"]


async def test_many_equal_first_starts_are_one(worlds: list[World]) -> None:
    """Of rivals with the same plan one creates it, and all are shown it (R-ONB-46)."""
    for _ in range(ROUNDS):
        both = await pair(worlds)
        answers = await asyncio.gather(*(both[n % 2].start(plan_body()) for n in range(8)))
        assert statuses(answers) == {201: 1, 200: 7}
        assert len({answer.text for answer in answers}) == 1


async def test_approve_against_replace(worlds: list[World]) -> None:
    """Two humans decide at once: one decision stands, the other is stale, and the map follows the winner."""
    for _ in range(ROUNDS):
        here, there = await pair(worlds)
        planned = ok(await here.start(plan_body("shown")), 201)
        answers = await asyncio.gather(
            here.approve(planned),
            there.replace(planned, plan_body("other")),
            there.approve(planned),
            here.start(plan_body("third"), headers={"if-match": planned["etag"]}),
        )
        assert statuses(answers) == {200: 1, 412: 3}
        [winner] = [answer.json() for answer in answers if answer.status_code == 200]
        assert ok(await there.read()) == winner
        assert winner["revision"] == 2
        mapped = await here.owner.get(here.map_path)
        assert mapped.status_code == (200 if winner["status"] == "approved" else 404)


async def test_many_verifies_store_one_receipt(worlds: list[World]) -> None:
    """Every one of them is answered with the same receipt, stored once, and so is the map's (R-ONB-57, R-ONB-58)."""
    for _ in range(ROUNDS):
        here, there = await pair(worlds)
        begun = await here.to_proving()
        await here.exercise(begun)
        answers = await asyncio.gather(*((here, there)[n % 2].verify(begun["state"]) for n in range(8)))
        assert statuses(answers) == {200: 8}
        assert len({answer.text for answer in answers}) == 1
        state = answers[0].json()["state"]
        assert state["status"] == "verified"
        topics = await events_of(worlds[0], state)
        assert topics.count("onboarding.verified.v1") == 1
        rows = await worlds[0].sql(
            "select count(*) from events where project_id = %s and topic = 'signal_map.verified.v1'", here.project_id
        )
        assert rows == [(1,)]


async def test_the_old_pair_is_dead_when_the_new_one_is_shown(worlds: list[World]) -> None:
    """Once a fresh pair is returned, nothing under the former one counts, in whichever process (R-ONB-53)."""
    for _ in range(ROUNDS):
        here, there = await pair(worlds)
        begun = await here.to_proving()
        await here.exercise(begun)
        fresh = ok(await there.prove(begun["state"]), 201)
        assert (await here.verify(begun["state"])).status_code == 412
        owed = ok(await here.verify(fresh["state"]))["remaining"]
        assert owed["analytics"]["blockers"] == ["runtime_marker_binding_invalid"]
        deploy = await here.deploy(begun)
        assert deploy["onboarding_proof_matched"] is False
        assert ok(await here.verify(fresh["state"]))["ok"] is False
        await there.exercise(fresh)
        assert ok(await here.verify(fresh["state"]))["ok"] is True


async def test_proof_start_against_verify(worlds: list[World]) -> None:
    """A verify and a fresh proof start of one revision: either it is verified, or a new session runs, never both."""
    seen = set()
    for _ in range(ROUNDS):
        here, there = await pair(worlds)
        begun = await here.to_proving()
        await here.exercise(begun)
        verify, prove = await asyncio.gather(here.verify(begun["state"]), there.prove(begun["state"]))
        state = ok(await here.read())
        seen.add(state["status"])
        if state["status"] == "verified":
            assert (verify.status_code, prove.status_code) == (200, 412)
            assert verify.json()["state"] == state
        else:
            assert (verify.status_code, prove.status_code) == (412, 201)
            assert prove.json()["state"] == state
    assert seen <= {"verified", "proving"}


async def test_many_proof_starts_leave_one_pair(worlds: list[World]) -> None:
    """Of rivals with one tag one gets a pair, and it is the pair that counts."""
    for _ in range(ROUNDS):
        both = await pair(worlds)
        approved = await both[0].to_approved()
        answers = await asyncio.gather(*(both[n % 2].prove(approved) for n in range(6)))
        assert statuses(answers) == {201: 1, 412: 5}
        [begun] = [answer.json() for answer in answers if answer.status_code == 201]
        await both[1].exercise(begun)
        assert ok(await both[1].verify(begun["state"]))["ok"] is True


async def test_read_models_are_what_their_history_says(worlds: list[World]) -> None:
    """After everything above: each row equals the fold of its stream, and a rebuild changes nothing."""
    here, _ = await pair(worlds)
    begun = await here.to_proving()
    ok(await here.start(plan_body("withdraws the map"), headers={"if-match": begun["state"]["etag"]}))
    server = here.world.server
    for arguments in (["verify"], ["rebuild"], ["verify"]):
        words = ("projections", *arguments, "onboarding", "signal_maps", "--json")
        run = await asyncio.to_thread(run_command, *words, env=server.env, cwd=server.directory)
        assert run.returncode == 0, run.stdout + run.stderr
    assert ok(await here.read())["status"] == "planned"
    assert (await here.owner.get(here.map_path)).status_code == 404
