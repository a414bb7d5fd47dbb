"""Waiting for a change over HTTP: of a run, of a decision on it, of a deletion (G-167)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import psycopg
import pytest
import pytest_asyncio

from tests.support import seen
from tests.support.accounts import bearer, create_project, sign_in
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.server import ServerHandle

LONG = 60  # seconds that no test ever waits
SOON = 15  # seconds within which what is waited for has come, on a machine that others use too


@pytest.fixture(scope="module")
def scene(server: ServerHandle) -> Iterator[HttpScene]:
    """A project with a run that is under way."""
    with open_scene(server) as opened:
        yield opened.running()


class Caller:
    """Somebody who waits, beside others."""

    def __init__(self, client: httpx2.AsyncClient, scene: HttpScene) -> None:
        self.client = client
        self.scene = scene

    async def get(self, path: str, who: str = "owner", **params: Any) -> httpx2.Response:
        return await self.client.get(path, params=params, headers=bearer(self.scene.world.secrets[who]))

    def begin(self, path: str, who: str = "owner", **params: Any) -> asyncio.Task[httpx2.Response]:
        return asyncio.create_task(self.get(path, who, **params))

    async def hold(self, number: int, path: str, **params: Any) -> list[asyncio.Task[httpx2.Response]]:
        """So many requests that wait, begun a few at a time: each begins with reads in its account's turn."""
        tasks: list[asyncio.Task[httpx2.Response]] = []
        while len(tasks) < number:
            tasks += [self.begin(path, wait=LONG, **params) for _ in range(min(10, number - len(tasks)))]
            await self.waiting(len(tasks))
        return tasks

    async def waiting(self, number: int) -> None:
        """Return once so many requests wait in the service."""
        give_up = time.monotonic() + SOON
        while True:
            text = (await self.client.get("/metrics", headers=bearer(self.scene.server.internal_token))).text
            [line] = [line for line in text.splitlines() if line.startswith("service_requests_waiting ")]
            if float(line.split()[1]) == number:
                return
            assert time.monotonic() < give_up, line
            await asyncio.sleep(0.2)


@pytest_asyncio.fixture
async def caller(server: ServerHandle, scene: HttpScene) -> AsyncIterator[Caller]:
    limits = httpx2.Limits(max_connections=300)
    async with seen.async_client(server.base_url, timeout=60, limits=limits) as client:
        yield Caller(client, scene)


async def progressed(scene: HttpScene) -> int:
    """Move the run on by a charge; returns its new revision."""
    charged = await asyncio.to_thread(scene.act, "usage", {"turns": 1, "cost_usd": 0, "runtime_seconds": 0})
    return int(scene.must(charged, 200)["state_revision"])


async def test_the_answer_comes_with_the_next_revision(scene: HttpScene, caller: Caller) -> None:
    """To people and runners, with the revision they know or without; whoever knows an older one does not wait."""
    known = scene.run()["state_revision"]
    began = time.monotonic()
    tasks = [
        caller.begin(scene.path, wait=LONG, revision=known),
        caller.begin(scene.path, wait=LONG),
        caller.begin(scene.path, "heal", wait=LONG, revision=known),
    ]
    await caller.waiting(3)
    late = await caller.get(scene.path, wait=LONG, revision=known - 1)
    assert late.json()["state_revision"] == known
    revision = await progressed(scene)
    answers = await asyncio.gather(*tasks)
    assert [answer.json()["state_revision"] for answer in answers] == [revision] * 3
    assert time.monotonic() - began < LONG
    await caller.waiting(0)


async def test_after_the_time_it_is_answered_as_ever(scene: HttpScene, caller: Caller) -> None:
    """With the same bytes as without waiting."""
    began = time.monotonic()
    waited = await caller.get(scene.path, wait=1, revision=scene.run()["state_revision"])
    assert time.monotonic() - began >= 1
    assert waited.content == (await caller.get(scene.path)).content


async def test_an_approval_is_waited_for_through_its_run(scene: HttpScene, caller: Caller) -> None:
    asked = {"action": "draft_pr", "summary": "Retry the payment."}
    request = scene.must(scene.act("approvals", asked), 200, 201, 202)
    run = scene.run()
    task = caller.begin(scene.path, "heal", wait=LONG, revision=run["state_revision"])
    await caller.waiting(1)
    path = f"/v1/automation-approvals/{request['approval_id']}/decide"
    decided = await asyncio.to_thread(scene.post, path, {"decision": "approve"}, who="owner")
    assert decided.is_success, decided.text
    answered = (await task).json()
    assert answered["state_revision"] > run["state_revision"]


async def test_what_is_asked_badly_is_refused_at_once(scene: HttpScene, caller: Caller) -> None:
    for params in ({"wait": 0}, {"wait": 61}, {"wait": "x"}, {"wait": 5, "revision": -1}):
        answer = await caller.get(scene.path, **params)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_payload")
    assert (await caller.get(scene.path, "stranger", wait=LONG)).status_code == 404
    assert (await caller.get("/v1/automation-runs/run_none", wait=LONG)).status_code == 404
    nobody = await caller.client.get(scene.path, params={"wait": LONG})
    assert nobody.status_code == 401


async def test_a_hundred_wait_and_no_connection_or_place_in_flight_with_them(scene: HttpScene, caller: Caller) -> None:
    """One more of the account is refused, whichever run it names; the account goes on working meanwhile."""
    known = scene.run()["state_revision"]
    with psycopg.connect(scene.server.database_url or "", autocommit=True) as sql:

        def connections() -> int:
            [[number]] = sql.execute(
                "select count(*) from pg_stat_activity where datname = current_database() "
                "and application_name <> 'service-follower'"
            ).fetchall()
            return int(number)

        before = connections()
        tasks = await caller.hold(100, scene.path, revision=known)
        assert connections() <= before + 6  # those of the pool for reads, which the burst of reads has opened
        follower = "select count(*) from pg_stat_activity where application_name = 'service-follower'"
        assert sql.execute(f"{follower} and datname = current_database()").fetchone() == (1,)
    refused = await caller.get(scene.path, wait=LONG, revision=known)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
    assert refused.headers["retry-after"] == "1"
    assert (await caller.get(scene.path)).status_code == 200
    revision = await progressed(scene)
    answers = await asyncio.gather(*tasks)
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["state_revision"] for answer in answers} == {revision}
    await caller.waiting(0)


async def test_a_client_that_goes_away_frees_its_place(scene: HttpScene, caller: Caller) -> None:
    task = caller.begin(scene.path, wait=LONG)
    await caller.waiting(1)
    task.cancel()
    await caller.waiting(0)


async def test_changes_between_the_read_and_the_listening_are_not_missed(scene: HttpScene, caller: Caller) -> None:
    """Whoever asks for each revision after the one it knows sees the last one, however the changes fall."""
    known = first = scene.run()["state_revision"]
    last = first + 12

    async def change() -> None:
        for _ in range(12):
            await progressed(scene)

    changing = asyncio.create_task(change())
    while known < last:
        answer = await caller.get(scene.path, wait=LONG, revision=known)
        assert answer.json()["state_revision"] > known
        known = answer.json()["state_revision"]
    await changing


async def test_a_credential_that_is_revoked_meanwhile_reads_nothing_more(scene: HttpScene, caller: Caller) -> None:
    """It is answered as a fresh request with it would be."""
    path = f"{scene.project}/credentials"
    wish = {"kind": "automation_runner", "name": "short", "automation_id": "heal"}
    made = scene.must(scene.post(path, wish, who="owner"))
    scene.world.secrets["short"] = made["credential"]
    task = caller.begin(scene.path, "short", wait=LONG)
    await caller.waiting(1)
    end = f"/v1/project-credentials/{made['id']}/revoke"
    revoked = await asyncio.to_thread(scene.post, end, {"reason": "Lost."}, who="owner")
    assert revoked.is_success, revoked.text
    assert not task.done()
    await progressed(scene)
    answer = await task
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")


@pytest.fixture
def verified(server: ServerHandle) -> Iterator[HttpScene]:
    """A run whose deploy is there, and is not verified yet."""
    with open_scene(server) as opened:
        opened.delivered()
        opened.must(opened.prove())
        assert opened.deploy() == opened.run_id
        yield opened


async def test_a_pending_verification_is_waited_for(verified: HttpScene, caller: Caller) -> None:
    """The verdict comes to who waits for it when another call decides; without a change the answer is as ever."""
    known = verified.run()["state_revision"]
    path, headers = f"{verified.path}/verify", bearer(verified.world.secrets["heal"])

    def begin(wait: int) -> asyncio.Task[httpx2.Response]:
        asked = {"wait": wait, "revision": known}
        return asyncio.create_task(caller.client.post(path, json={}, params=asked, headers=headers))

    began = time.monotonic()
    pending = await begin(1)
    assert (pending.status_code, pending.json()["status"]) == (202, "verifying")
    assert time.monotonic() - began >= 1
    task = begin(LONG)
    await caller.waiting(1)
    await asyncio.to_thread(verified.wait, 901)
    decided = await asyncio.to_thread(verified.verify)
    assert decided.status_code == 200, decided.text
    answer = await task
    assert (answer.status_code, answer.json()["status"]) == (200, decided.json()["status"])
    assert answer.json()["run"]["state_revision"] > known
    await caller.waiting(0)


async def test_a_deletion_is_waited_for_by_its_repeats(server: ServerHandle, caller: Caller) -> None:
    """Each repeat is answered with the next phase, or with the receipt; only those who wait see a revision."""
    with server.client() as client:
        key = await asyncio.to_thread(sign_in, client, server.internal_token)
        project = await asyncio.to_thread(create_project, client, key)
    headers = {**bearer(key), "idempotency-key": "delete"}
    path = f"/v1/projects/{project['id']}"
    answer = await caller.client.delete(path, headers=headers, params={"wait": LONG})
    assert (answer.status_code, answer.json()["phase"]) == (202, "fenced")
    known: list[int] = []
    while answer.status_code == 202:
        params = {"wait": LONG} | ({"revision": known[-1]} if known else {})
        answer = await caller.client.delete(path, headers=headers, params=params)
        if answer.status_code == 202:
            known.append(answer.json()["revision"])
    assert (answer.status_code, answer.json()["phase"]) == (200, "deleted")
    assert "revision" not in answer.json()
    assert known == sorted(set(known))
    account = await caller.client.post(
        "/v1/auth/self_delete", json={"confirm": "DELETE"}, headers=bearer(key), params={"wait": LONG}
    )
    while account.status_code == 202:
        account = await caller.client.post(
            "/v1/auth/self_delete", json={"confirm": "DELETE"}, headers=bearer(key), params={"wait": LONG}
        )
    assert (account.status_code, account.json()["status"]) == (200, "deleted")


async def test_who_waits_is_answered_when_the_service_ends(
    server: ServerHandle, scene: HttpScene, caller: Caller
) -> None:
    """The last test of this file: every one of thirty, by the run as it stands, or on a busy machine by a 503."""
    known = scene.run()["state_revision"]
    tasks = await caller.hold(30, scene.path, revision=known)
    taken = await asyncio.to_thread(server.stop)
    answers = await asyncio.gather(*tasks)
    assert {answer.status_code for answer in answers} <= {200, 503}
    read = [answer for answer in answers if answer.status_code == 200]
    assert read
    assert {answer.json()["state_revision"] for answer in read} == {known}
    assert {answer.headers["retry-after"] for answer in answers if answer not in read} <= {"1"}
    assert taken < SOON
