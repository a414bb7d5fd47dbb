"""The API processes of an installation as an operator gets it: they share its limits and nothing else (G-012).

Each request goes to a known process: a client keeps its connection, and the kernel says whose it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
import pytest_asyncio

from service.settingvalues import USUAL_WORKERS, cores
from tests.support import seen
from tests.support.accounts import bearer
from tests.support.api import Person, World, at_once, ok, refused
from tests.support.cluster import TestCluster
from tests.support.console import browser_of
from tests.support.loop.arena import replaced, serving
from tests.support.loop.http_scene import open_scene
from tests.support.mcp import Agent
from tests.support.server import USUAL_PROCESSES, ServerHandle, running_server

LIMITED = {**USUAL_PROCESSES, "SERVICE_RATE_LIMITS": "key=9,device_start=off,device_poll=off,internal=off,ingest=off"}
GIVE_UP = 20.0

pytestmark = pytest.mark.skipif(cores() < USUAL_WORKERS, reason="one core has one process")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> Iterator[ServerHandle]:
    """A server with as many processes as an operator gets."""
    with running_server(tmp_path_factory.mktemp("usual"), cluster, USUAL_PROCESSES) as handle:
        yield handle


def holder_of(processes: Sequence[psutil.Process], answer: httpx2.Response) -> int:
    """The number of the process that has the connection of an answer."""
    _, port = answer.extensions["network_stream"].get_extra_info("client_addr")[:2]
    for process in processes:
        if any(found.raddr and found.raddr.port == port for found in process.net_connections("tcp")):
            return process.pid
    raise AssertionError("nobody has the connection")


async def client_of_each(server: ServerHandle, stack: AsyncExitStack) -> list[httpx2.AsyncClient]:
    """A client for each process that serves, whose requests go there alone."""
    processes = serving(server)
    found: dict[int, httpx2.AsyncClient] = {}
    one = httpx2.Limits(max_connections=1, keepalive_expiry=60)
    give_up = time.monotonic() + GIVE_UP
    while len(found) < len(processes):
        assert time.monotonic() < give_up, "each process takes connections"
        clients = [seen.async_client(server.base_url, timeout=30, limits=one) for _ in range(8)]
        for client in clients:
            await stack.enter_async_context(client)
        answers = await at_once(8, lambda turn, some=clients: some[turn].get("/health/live"))
        for client, answer in zip(clients, answers, strict=True):
            found.setdefault(holder_of(processes, answer), client)
    return list(found.values())


@pytest_asyncio.fixture
async def worlds(server: ServerHandle) -> AsyncIterator[list[World]]:
    """The service as seen from each of its processes."""
    async with AsyncExitStack() as stack:
        yield [World(client, server) for client in await client_of_each(server, stack)]


def at(world: World, person: Person) -> Person:
    """The same person at another process."""
    return Person(world.client, person.secret, person.user_id, world)


def test_two_processes_serve_by_default(server: ServerHandle):
    assert len(serving(server)) == USUAL_WORKERS
    assert len(server.processes("service.process.worker")) == 1


async def test_a_change_at_one_process_is_there_at_the_others(worlds: list[World]):
    """Settings, secrets and commands under one key; what was done at one is repeated, refused or read at the other."""
    first, other = worlds
    owner = await first.sign_in()
    project = ok(await owner.post("/v1/projects", {"name": "shop"}, key="shop"), 201)
    there = at(other, owner)
    again = ok(await there.post("/v1/projects", {"name": "shop"}, key="shop"), 201)
    assert again["id"] == project["id"]
    refused(await there.post("/v1/projects", {"name": "other"}, key="shop"), 422, "idempotency_key_reused")
    path = f"/v1/projects/{project['id']}/settings"
    for turn, (writer, reader) in enumerate([(owner, there), (there, owner)] * 3):
        fence = {"if-match": ok(await writer.get(path))["etag"]} if turn else {}
        ok(await writer.call("PATCH", path, {"accept_public_events": turn % 2 == 0}, headers=fence))
        assert ok(await reader.get(path))["accept_public_events"] is (turn % 2 == 0)
    credential = await owner.create_credential(project["id"], "ci")
    deploys = [world.having(credential["credential"]) for world in worlds]
    for deploy in deploys:
        ok(await deploy.post("/v1/deploys/", {"version": "1"}), 202)
    ok(await there.post(f"/v1/project-credentials/{credential['id']}/revoke"))
    for deploy in deploys:
        refused(await deploy.post("/v1/deploys/", {"version": "2"}), 401, "unauthenticated")


async def test_a_sign_in_goes_from_process_to_process(worlds: list[World]):
    """Begun here, confirmed there, polled at both: one key, given once."""
    first, other = worlds
    started = ok(await first.post("/v1/auth/device"))
    code = {"device_code": started["device_code"]}
    pending = [await world.post("/v1/auth/device/poll", code) for world in worlds]
    assert {answer.status_code for answer in pending} <= {202, 400, 428, 429}, pending[0].text
    identity = {"provider": "email", "subject": "a@example.com", "email": "a@example.com"}
    ok(
        await other.hosted_app.post(
            "/v1/auth/device/authorize", {"user_code": started["user_code"], "identity": identity}
        )
    )
    await first.wait(60)
    ok(await first.post("/v1/auth/device/poll", code))
    assert not (await other.post("/v1/auth/device/poll", code)).is_success


async def test_a_session_and_a_tool_need_no_process_of_their_own(worlds: list[World]):
    """A console page and an MCP tool are answered by any process, in turns."""
    first, other = worlds
    owner = await first.sign_in()
    project = await owner.create_project("walked")
    browser = await browser_of(owner)
    for world in (first, other, first, other):
        browser.client = world.client
        assert "walked" in (await browser.open("")).text
        agent = Agent(world.having(owner.secret))
        assert project["id"] in str(await agent.read("read", operation="list_projects", parameters={}))


async def test_who_waits_at_any_process_hears_of_a_change(server: ServerHandle, worlds: list[World]):
    """Requests that wait at both processes are answered with the revision that a command at one of them made."""
    with open_scene(server) as scene:
        scene.running()
        known = scene.run()["state_revision"]
        owner = bearer(scene.world.secrets["owner"])
        wishes = {"wait": 60, "revision": known}
        waits = [asyncio.create_task(w.client.get(scene.path, params=wishes, headers=owner)) for w in worlds]
        await _waiting(server, len(waits))
        charged = await asyncio.to_thread(scene.act, "usage", {"turns": 1, "cost_usd": 0, "runtime_seconds": 0})
        revision = scene.must(charged, 200)["state_revision"]
        answers = await asyncio.wait_for(asyncio.gather(*waits), GIVE_UP)
        assert [answer.json()["state_revision"] for answer in answers] == [revision] * len(worlds)


async def _waiting(server: ServerHandle, number: int) -> None:
    give_up = time.monotonic() + GIVE_UP
    async with seen.async_client(server.base_url) as client:
        while True:
            text = (await client.get("/metrics", headers=bearer(server.internal_token))).text
            [line] = [line for line in text.splitlines() if line.startswith("service_requests_waiting ")]
            if float(line.split()[1]) == number:
                return
            assert time.monotonic() < give_up, line
            await asyncio.sleep(0.1)


async def _passed(person: Person) -> tuple[int, Any]:
    """How many requests of a person pass before the first refusal, and the refusal."""
    passed = 0
    while (answer := await person.get("/v1/projects")).is_success:
        passed += 1
    return passed, answer


async def test_together_the_processes_never_exceed_a_limit(tmp_path: Path, cluster: TestCluster):
    """Nine a minute are four at each of two; one that is started anew has its share again and no more."""
    with running_server(tmp_path, cluster, LIMITED) as limited:
        async with AsyncExitStack() as stack:
            worlds = [World(client, limited) for client in await client_of_each(limited, stack)]
            owner = await worlds[0].sign_in()
            counts = []
            for world in worlds:
                passed, answer = await _passed(at(world, owner))
                refused(answer, 429, "rate_limited")
                assert answer.headers["ratelimit-limit"] == "4"
                counts.append(passed)
            assert counts == [4, 4]
        [victim, kept] = serving(limited)
        victim.kill()
        await replaced(limited, victim)
        assert kept in serving(limited)
        async with AsyncExitStack() as stack:
            worlds = [World(client, limited) for client in await client_of_each(limited, stack)]
            counts = [(await _passed(at(world, owner)))[0] for world in worlds]
            assert sum(counts) <= 9, "that of the killed one begins anew"
