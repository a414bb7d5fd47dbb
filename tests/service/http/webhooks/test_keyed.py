"""Keyed requests to webhooks act once: repeated, at the same time in two processes, or interrupted (G-007, G-008)."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

import httpx2
import psutil
import pytest

from service.webhooks.testing import LONGEST
from tests.service.http.cases.test_case import log
from tests.service.http.webhooks.test_delivery import until_logged
from tests.service.webhooks.test_outbox import listener as listener  # noqa: PLC0414 (fixtures are found by name)
from tests.service.webhooks.test_outbox import register
from tests.support import seen
from tests.support.api import Api, World, at_once, ok, refused
from tests.support.cluster import TestCluster
from tests.support.listening import Arrived, Listener, respond
from tests.support.server import ServerFactory, ServerHandle, running_server

SERVING = "service.process.serving"
TWINS = 6
"""Requests of each process."""
FEW_TWINS = 2
"""So many that one process carries all of them out at once: a caller opens more connections, to either."""


class Shop(NamedTuple):
    """A service of two API processes, an owner whose webhook was told of three cases, and a caller at each process."""

    world: World
    owner: Any
    project_id: str
    webhook: dict[str, Any]
    deliveries: list[dict[str, Any]]
    doors: tuple[Api, Api]

    @property
    def one(self) -> str:
        return f"/v1/projects/{self.project_id}/webhooks/{self.webhook['id']}"

    async def at_both(self, path: str, body: Any, key: str, twins: int = TWINS) -> list[httpx2.Response]:
        """Send the same keyed request many times at once, half of it to each process."""
        return await at_once(2 * twins, lambda turn: self.doors[turn % 2].post(path, body, key=key))

    async def settle(self) -> None:
        """Wait until nothing is due."""
        due = "select id from webhook_deliveries where project_id = %s and due_ms is not null"
        give_up = time.monotonic() + 20
        while left := await self.world.sql(due, self.project_id):
            assert time.monotonic() < give_up, left
            await asyncio.sleep(0.05)

    async def lose_answer(self, tail: str) -> None:
        """Leave the record of a key as a process leaves it that dies between its act and its answer."""
        lost = (
            "with lost as (update idempotency set status = null, body = '' where project_id = %s and operation like %s "
            "and status is not null and client_key returning 1) select count(*) from lost"
        )
        assert await self.world.sql(lost, self.project_id, f"%{tail}") == [(1,)]


def process_of(server: Any, answer: httpx2.Response) -> int:
    """The process that holds the other end of an answer's connection."""
    ours = answer.extensions["network_stream"].get_extra_info("client_addr")[1]
    found = [
        process.pid
        for process in server.processes(SERVING)
        for connection in process.net_connections(kind="tcp")
        if connection.raddr and connection.raddr.port == ours and connection.status == psutil.CONN_ESTABLISHED
    ]
    assert len(found) == 1
    return int(found[0])


async def doors_of(server: Any, stack: AsyncExitStack, secret: str) -> tuple[Api, Api]:
    """A caller for each of two processes, which keeps its connections there."""
    found: dict[int, Api] = {}
    for _ in range(200):
        client = await stack.enter_async_context(seen.async_client(server.base_url, timeout=30))
        found.setdefault(process_of(server, await client.get("/health/live")), Api(client, secret))
        if len(found) == 2:
            return found.popitem()[1], found.popitem()[1]
    raise AssertionError("one process answers everything")


@pytest.fixture(scope="module")
def two(cluster: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerHandle]:
    """A service of two API processes."""
    with running_server(tmp_path_factory.mktemp("two"), cluster, {"SERVICE_WORKERS": "2"}) as handle:
        yield handle


@pytest.fixture
async def shop(two: ServerHandle, listener: Listener) -> AsyncIterator[Shop]:
    async with opened(two, listener) as made:
        yield made


@asynccontextmanager
async def opened(server: ServerHandle, listener: Listener) -> AsyncIterator[Shop]:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(seen.async_client(server.base_url, timeout=30))
        world = World(client, server)
        owner = await world.sign_in()
        made = await owner.create_project()
        webhook = await register(owner, made["id"], listener.url)
        for word in ("heron", "ibis", "jay"):
            await log(world.having(made["dsn"]), f"{word} failed")
        one = f"/v1/projects/{made['id']}/webhooks/{webhook['id']}"
        deliveries = await until_logged(owner, one, 3, status="delivered")
        doors = await doors_of(server, stack, owner.secret)
        yield Shop(world, owner, made["id"], webhook, deliveries, doors)


def same(answers: list[httpx2.Response]) -> dict[str, Any]:
    """The one answer that all twins have had which were not told to wait."""
    answered = [answer for answer in answers if answer.status_code != 409]
    for answer in set(answers) - set(answered):
        refused(answer, 409, "idempotency_in_progress")
    bodies = [ok(answer) for answer in answered]
    assert bodies
    assert all(body == bodies[0] for body in bodies)
    assert sum("idempotent-replayed" not in answer.headers for answer in answered) <= 1
    return bodies[0]


async def test_a_resend_acts_once_for_its_key(shop: Shop, listener: Listener):
    path = f"{shop.one}/deliveries/{shop.deliveries[0]['delivery_id']}/resend"
    shown = same(await shop.at_both(path, None, "k"))
    await shop.settle()
    assert len(listener.arrived) == 4
    for door in shop.doors:
        assert ok(await door.post(path, key="k")) == shown
    await shop.lose_answer("/resend")
    ok(await shop.doors[0].post(path, key="k"))
    await shop.settle()
    assert len(listener.arrived) == 4
    ok(await shop.doors[0].post(path, key="another"))
    ok(await shop.doors[0].post(path))
    await listener.until_arrived(5)
    assert {one.id for one in listener.arrived[3:]} == {shown["delivery_id"]}


async def test_a_replay_acts_once_for_its_key(shop: Shop, listener: Listener):
    path, last = f"{shop.one}/replay", shop.deliveries[-1]["position"]
    body = {"after": 0, "until": last}
    assert same(await shop.at_both(path, body, "k"))["queued"] == 3
    await shop.settle()
    assert len(listener.arrived) == 6
    assert ok(await shop.doors[1].post(path, body, key="k"))["queued"] == 3
    other = {"after": 1, "until": last}
    refused(await shop.doors[0].post(path, other, key="k"), 422, "idempotency_key_reused")
    await shop.lose_answer("/replay")
    refused(await shop.doors[0].post(path, other, key="k"), 422, "idempotency_key_reused")
    assert ok(await shop.doors[0].post(path, body, key="k"))["queued"] == 3
    await shop.settle()
    assert len(listener.arrived) == 6
    assert ok(await shop.doors[0].post(path, body, key="another"))["queued"] == 3
    await listener.until_arrived(9)


async def test_a_key_with_two_bodies_at_once_acts_for_one_of_them(shop: Shop, listener: Listener):
    first, second, last = (one["position"] for one in shop.deliveries)
    bodies = [{"after": first - 1, "until": first}, {"after": second - 1, "until": last}]
    answers = await at_once(
        2 * TWINS, lambda turn: shop.doors[turn % 2].post(f"{shop.one}/replay", bodies[turn // 2 % 2], key="k")
    )
    told = [answer for answer in answers if answer.status_code == 200]
    assert {answer.status_code for answer in answers} <= {200, 409, 422}
    [queued] = {ok(answer)["queued"] for answer in told}
    await shop.settle()
    assert len(listener.arrived) == 3 + queued


async def test_a_test_is_sent_once_for_its_key(shop: Shop, listener: Listener):
    go_on = asyncio.Event()

    async def wait(_: Arrived, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        await respond(writer, 204)

    listener.answering = wait
    path = f"{shop.one}/test"
    twins = asyncio.create_task(shop.at_both(path, None, "k", FEW_TWINS))
    await listener.until_arrived(4)
    refused(await shop.doors[0].post(path, key="k"), 409, "idempotency_in_progress")
    refused(await shop.doors[1].post(path), 429, "rate_limited")
    go_on.set()
    shown = same(await twins)
    assert (shown["delivered"], shown["delivery_id"]) == (True, listener.arrived[3].id)
    for door in shop.doors:
        assert ok(await door.post(path, key="k")) == shown
    await shop.lose_answer("/test")
    assert ok(await shop.doors[0].post(path, key="k")) == shown
    assert len(listener.arrived) == 4
    assert ok(await shop.doors[0].post(path, key="another"))["delivery_id"] != shown["delivery_id"]
    assert len(listener.arrived) == 5


async def test_a_test_whose_process_died_is_sent_again_under_its_id(server_factory: ServerFactory, listener: Listener):
    async with opened(server_factory(env={"SERVICE_WORKERS": "2"}), listener) as shop:
        await die_during_a_test(shop, listener)


async def die_during_a_test(shop: Shop, listener: Listener) -> None:
    go_on = asyncio.Event()

    async def wait(_: Arrived, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        await respond(writer, 204)

    listener.answering = wait
    began = time.monotonic()
    asked = asyncio.create_task(shop.doors[0].post(f"{shop.one}/test", key="k"))
    await listener.until_arrived(4)
    for process in shop.world.server.processes(SERVING):
        process.send_signal(signal.SIGKILL)
    with pytest.raises(httpx2.HTTPError):
        await asked
    shop.world.server.wait_until_ready()
    go_on.set()
    async with seen.async_client(shop.world.server.base_url, timeout=30) as client:
        again = Api(client, shop.owner.secret)
        early = await again.post(f"{shop.one}/test", key="k")
        if time.monotonic() < began + LONGEST:  # a busy machine may start processes for longer
            refused(early, 409, "idempotency_in_progress")
        await shop.world.wait(LONGEST + 1)
        told = ok(await again.post(f"{shop.one}/test", key="k"))
    assert [one.id for one in listener.arrived[3:]] == [told["delivery_id"]] * 2


async def test_a_repeat_is_answered_after_the_checks_and_before_existence(shop: Shop, listener: Listener):
    resend = f"{shop.one}/deliveries/{shop.deliveries[0]['delivery_id']}/resend"
    within = {"after": 0, "until": shop.deliveries[-1]["position"]}
    wishes: list[tuple[str, Any]] = [(resend, None), (f"{shop.one}/replay", within), (f"{shop.one}/test", None)]
    before = [ok(await shop.owner.post(path, body, key="k")) for path, body in wishes]
    await shop.settle()
    ok(await shop.owner.call("DELETE", shop.one))
    for (path, body), shown in zip(wishes, before, strict=True):
        answer = await shop.owner.post(path, body, key="k")
        assert ok(answer) == shown
        assert answer.headers["idempotent-replayed"] == "true"
        refused(await shop.owner.post(path, body, key="another"), 404, "webhook_not_found")
        refused(await shop.world.having(None).post(path, body, key="k"), 401, "unauthenticated")
    refused(await shop.owner.post(f"{shop.one}/replay", {"after": 9, "until": 9}, key="k"), 400, "invalid_payload")
    await shop.world.sql("update projects set status = 'fenced' where id = %s", shop.project_id)
    for path, body in wishes:
        refused(await shop.owner.post(path, body, key="k"), 409, "project_deletion_in_progress")
