"""Public answers of several processes and of a provider: revoked everywhere, read once, never empty (G-163)."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from typing import Any

import httpx2
import pytest

from service.eventstore.read.reader import Caller, reading_for
from service.eventstore.store import EventStore
from service.fairness.turns import PUBLIC_QUERIES, sharing
from service.history.rebuild import rebuild
from service.ids import new_id
from service.publications import PublicAnswers
from service.registry import read_models, registry
from statemachines.publications import PublicationNotFound
from tests.service.http.analytics.test_connection import provider as provider  # noqa: PLC0414 (found by name)
from tests.service.http.analytics.test_connection import running as running  # noqa: PLC0414
from tests.service.http.analytics.test_connection import server as server  # noqa: PLC0414
from tests.service.http.analytics.test_connection import world as world  # noqa: PLC0414
from tests.support import seen
from tests.support.api import Person, World, ok
from tests.support.connecting import NO_READ, RESTING, connect, rested
from tests.support.onboarding import Onboarding, onboard
from tests.support.provider import GO_ON, FakeProvider
from tests.support.server import ServerHandle

QUERY = "/api/projects/42/query/"
COUNT = "uniqExact(distinct_id) from events where event ="


async def publish(owner: Person, project_id: str, blueprint_id: str = "top-events", **members: Any) -> str:
    """Publish a query; returns the path that anybody reads."""
    body = {"blueprint_id": blueprint_id, **members}
    made = ok(await owner.post(f"/v1/projects/{project_id}/public-queries", body), 201)
    return f"/v1/public/q/{made['publication_id']}"


async def connected(world: World, provider: FakeProvider, **members: Any) -> tuple[Onboarding, str]:
    """Connect a project and publish a count of one of its events."""
    onb = await onboard(world)
    await connect(onb, provider)
    provider.tables[COUNT] = [[7, 3]]
    return onb, await publish(onb.owner, onb.project_id, "event-count", params={"event": "paid"}, **members)


def counts(provider: FakeProvider) -> int:
    """How often the provider was asked for the count."""
    return sum(COUNT in body["query"]["query"] for body in provider.calls(QUERY))


class Reader:
    """Reads an address without a pause, and notes when each answer's request began."""

    def __init__(self, client: httpx2.AsyncClient, path: str) -> None:
        self.seen: list[tuple[float, int]] = []
        self.served = asyncio.Event()
        self._client, self._path = client, path
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while not self.seen or self.seen[-1][1] != 404:
            began = time.monotonic()
            answer = await self._client.get(self._path)
            self.seen.append((began, answer.status_code))
            self.served.set()

    async def ended(self) -> None:
        """Wait until it has met a 404."""
        await asyncio.wait_for(self._task, 10)


@pytest.mark.parametrize("how", ["revoke", "fence", "delete"])
async def test_no_process_serves_what_has_ended(world: World, second: ServerHandle, how: str) -> None:
    """Rows kept in two processes, read without a pause: no request that began after the answer is served.

    G-163 allows 250 ms.
    """
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    path = await publish(owner, project_id, cache_seconds=86_400)
    limits = httpx2.Limits(max_connections=16)
    async with seen.async_client(second.base_url, timeout=30, limits=limits) as other:
        readers = [Reader(client, path) for client in (world.client, other) for _ in range(4)]
        for reader in readers:
            await asyncio.wait_for(reader.served.wait(), 10)
        if how == "revoke":
            ended = await owner.call("DELETE", f"/v1/projects/{project_id}/public-queries/{path.rpartition('/')[2]}")
        elif how == "fence":
            await world.sql("update projects set status = 'fenced' where id = %s", project_id)
            ended = None
        else:
            ended = await owner.call("DELETE", f"/v1/projects/{project_id}", key="k")
        at = time.monotonic()
        assert ended is None or ended.status_code in {200, 202}
        for reader in readers:
            await reader.ended()
    found = [answer for reader in readers for answer in reader.seen]
    assert {status for _, status in found} == {200, 404}
    assert [began - at for began, status in found if status == 200 and began >= at] == []


async def until_gauge(world: World, name: str, least: int) -> None:
    """Wait until a gauge of the server has come so far."""
    for _ in range(500):
        text = (await world.client.get("/metrics")).text
        [value] = re.findall(rf"^{name}(?:{{.*}})? (.+)$", text, re.MULTILINE)
        if float(value) >= least:
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"{name} never came to {least}")


async def until_running(world: World, number: int) -> None:
    """Wait until the server carries out so many requests, beside the one that asks this."""
    await until_gauge(world, "service_requests_running", number + 1)


@pytest.mark.parametrize("cache_seconds", [300, 0])
async def test_concurrent_misses_are_one_read(world: World, provider: FakeProvider, cache_seconds: int) -> None:
    """Forty requests wait for one question to the provider, also where no answer is kept."""
    _, path = await connected(world, provider, cache_seconds=cache_seconds)
    with provider.lock:  # It answers nobody meanwhile.
        tasks = [asyncio.create_task(world.client.get(path)) for _ in range(40)]
        await until_running(world, 40)
    answers = await asyncio.gather(*tasks)
    assert {(answer.status_code, answer.content, answer.headers["etag"]) for answer in answers} == {
        (200, answers[0].content, answers[0].headers["etag"])
    }
    assert answers[0].json()["rows"] == [{"row_count": 7, "unique_users": 3}]
    assert counts(provider) == 1
    ok(await world.client.get(path))
    assert counts(provider) == (1 if cache_seconds else 2)


@pytest.mark.parametrize("status", [500, 429, 403])
async def test_a_failed_read_is_no_empty_answer(world: World, provider: FakeProvider, status: int) -> None:
    """Kept rows are served while they are young enough, then it fails, and is good again with the provider."""
    _, path = await connected(world, provider, cache_seconds=600)
    kept = await world.client.get(path)
    assert ok(kept)["evidence"]["source"] == "provider_cloud"
    provider.fail[QUERY] = status
    assert (await world.client.get(path)).content == kept.content
    await world.wait(601)
    for _ in range(2):
        failed = await world.client.get(path)
        assert (failed.status_code, failed.json()["error"]["code"]) == RESTING.get(status, NO_READ)
        assert failed.headers["retry-after"]
        assert "etag" not in failed.headers
    provider.fail.clear()
    provider.tables[COUNT] = [[9, 4]]
    assert ok(await rested(lambda: world.client.get(path)))["rows"] == [{"row_count": 9, "unique_users": 4}]


async def test_a_failed_read_is_told_to_all_who_wait(world: World, provider: FakeProvider) -> None:
    _, path = await connected(world, provider, cache_seconds=0)
    provider.fail[QUERY] = 500
    answers = await asyncio.gather(*(world.client.get(path) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {503}


async def test_what_was_revoked_while_it_was_read_is_not_served(world: World, provider: FakeProvider) -> None:
    """The read began before, and its rows come after."""
    onb, path = await connected(world, provider)
    with provider.lock:
        task = asyncio.create_task(world.client.get(path))
        await until_running(world, 1)
        home = f"/v1/projects/{onb.project_id}/public-queries"
        ok(await onb.owner.call("DELETE", f"{home}/{path.rpartition('/')[2]}"))
    assert (await task).status_code == 404


async def test_an_account_over_its_quota_still_serves(world: World) -> None:
    """And its public readers are told nothing of that (G-163)."""
    owner = await world.sign_in()
    await world.sql(
        "insert into usage_days (project_id, account_id, day, errors, analytics, suppressed, scrubbed, "
        "last_received_at) select 'proj_gone0001', %s, service_today(), 200000, 0, 0, 0, 0",
        owner.user_id,
    )
    project_id = (await owner.create_project())["id"]
    path = await publish(owner, project_id)
    assert "billing_notice" in ok(await owner.get(f"/v1/projects/{project_id}/public-queries"))
    assert "billing_notice" not in ok(await world.client.get(path))


async def test_the_publisher_pays_for_the_reads(world: World, provider: FakeProvider) -> None:
    """Strangers who read two queries of one account wait for one turn of it, and no other account waits for that."""
    one, path = await connected(world, provider)
    other = await publish(one.owner, one.project_id, "event-count", params={"event": "paid", "days": 3})
    _, elsewhere = await connected(world, provider)
    provider.requests.clear()
    arrived, held = threading.Semaphore(0), threading.Event()

    def hold(handler: Any) -> object:
        if COUNT not in handler.asked["query"]["query"]:
            return GO_ON  # how new the data are, which is known for a while
        arrived.release()
        held.wait(10)
        return handler.reply(400, b"{}")

    provider.fail[QUERY] = hold
    tasks = [asyncio.create_task(world.client.get(where)) for where in (path, other)]
    assert await asyncio.to_thread(arrived.acquire, timeout=8)
    await until_gauge(world, "service_queries_waiting", 1)
    tasks.append(asyncio.create_task(world.client.get(elsewhere)))
    assert await asyncio.to_thread(arrived.acquire, timeout=8)
    assert not arrived.acquire(blocking=False)
    held.set()
    assert {(await task).status_code for task in tasks} == {502}


async def test_what_can_no_longer_be_answered_is_no_fault_of_the_reader(world: World) -> None:
    """A published deploy that the project never had: 502, and nothing of the parameters."""
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    path = await publish(owner, project_id, "deploy-impact", params={"deploy_id": "dep_" + "0" * 26, "event": "paid"})
    answer = await world.client.get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert "dep_" not in answer.text


async def test_a_rebuild_finds_the_same_rows_and_serving_goes_on(world: World, server: ServerHandle) -> None:
    """Live and rebuilt rows are equal, also for what was revoked, and the bound still counts afterwards."""
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    path, gone = [await publish(owner, project_id, title=title) for title in ("stays", "goes")]
    home = f"/v1/projects/{project_id}/public-queries"
    ok(await owner.call("DELETE", f"{home}/{gone.rpartition('/')[2]}"))
    rows = "select row_to_json(p)::text from publications p order by id"
    live = await world.sql(rows)
    assert server.database_url is not None
    await asyncio.to_thread(rebuild, server.database_url, read_models()["publications"])
    assert await world.sql(rows) == live
    assert ok(await world.client.get(path))["title"] == "stays"
    assert (await world.client.get(gone)).status_code == 404
    await publish(owner, project_id)
    assert await world.sql("select published from publication_counts where project_id = %s", project_id) == [(2,)]


async def test_a_publication_that_exists_has_a_turn_of_its_own(
    world: World, server: ServerHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids that are made up share a place with each other, so that they take no turn from what is published (G-204)."""
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    publication_id = (await publish(owner, project_id)).rsplit("/", 1)[1]
    store = EventStore(server.database_url, registry())
    turns: list[str] = []
    place = store.doors._turns.place
    monkeypatch.setattr(store.doors._turns, "place", lambda tenant: turns.append(tenant) or place(tenant))
    answers = PublicAnswers(store, None)  # type: ignore[arg-type]
    await store.doors.start()
    try:
        for number, wanted in enumerate([publication_id, publication_id, new_id("pub"), publication_id]):
            with reading_for(Caller(sharing(PUBLIC_QUERIES, f"192.0.2.{number}"), 5.0)):
                if wanted == publication_id:
                    await answers.find(wanted)
                else:
                    with pytest.raises(PublicationNotFound):
                        await answers.find(wanted)
        ok(await owner.call("DELETE", f"/v1/projects/{project_id}/public-queries/{publication_id}"))
        for number in (4, 5):
            with (
                reading_for(Caller(sharing(PUBLIC_QUERIES, f"192.0.2.{number}"), 5.0)),
                pytest.raises(PublicationNotFound),
            ):
                await answers.find(publication_id)
    finally:
        await store.doors.stop()
    places = [PUBLIC_QUERIES, publication_id, PUBLIC_QUERIES, publication_id, publication_id, PUBLIC_QUERIES]
    assert turns == [sharing(one, f"192.0.2.{number}") for number, one in enumerate(places)]
