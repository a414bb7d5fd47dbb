"""One credential may have so many requests in flight, and what it has there never keeps the others out (threat 20)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import psycopg
import pytest
import pytest_asyncio

from service.eventstore.declare.commands import Command, Outcome
from service.http.answer.errors import RateLimited
from service.http.edge.limits import requests_in_flight
from tests.service.http.edge.fakes import PROJECT
from tests.service.http.edge.toy_api import THING, Toy, serving
from tests.support import seen
from tests.support.accounts import bearer, create_project, sign_in
from tests.support.server import ServerFactory

THINGS = f"/v1/projects/{PROJECT}/things"


class Gate:
    """Holds the commands of a toy service until it is opened."""

    def __init__(self, toy: Toy) -> None:
        self.toy = toy
        self._missing = 0
        self._full = asyncio.Event()
        self._pass = toy.store.execute
        self._opened = asyncio.Event()
        toy.store.execute = self.execute  # type: ignore[method-assign]

    async def execute(self, command: Command) -> Outcome:
        self._missing -= 1
        if self._missing == 0:
            self._full.set()
        await self._opened.wait()
        return await self._pass(command)

    async def hold(self, number: int, who: str = "owner") -> list[asyncio.Task[httpx2.Response]]:
        """So many requests that wait for their commands."""
        self._missing, self._full = number, asyncio.Event()
        tasks = [asyncio.create_task(write(self.toy, f"{who}-{n}", who)) for n in range(number)]
        async with asyncio.timeout(5):
            await self._full.wait()
        return tasks

    async def open(self, tasks: list[asyncio.Task[httpx2.Response]]) -> list[int]:
        self._opened.set()
        return [answer.status_code for answer in await asyncio.gather(*tasks)]


async def write(toy: Toy, key: str, who: str = "owner") -> httpx2.Response:
    return await toy.send_as(who, "POST", THINGS, json=THING, headers={"idempotency-key": key})


@pytest_asyncio.fixture
async def toy() -> AsyncIterator[Toy]:
    async with serving(max_in_flight=3) as toy:
        yield toy


async def test_one_more_than_the_bound_is_refused(toy: Toy) -> None:
    """With a code of the catalogue and Retry-After, whatever it asks for; the others are served meanwhile."""
    gate = Gate(toy)
    held = await gate.hold(3)
    for refused in (await write(toy, "one-more"), await toy.send_as("owner", "GET", "/v1/things")):
        error = refused.json()["error"]
        assert (refused.status_code, error["code"], error["retryable"]) == (429, "rate_limited", True)
        assert error["details"] == {"max_in_flight": 3}
        assert refused.headers["retry-after"] == "1"
        assert "in flight" in error["message"]
    assert (await toy.send_as("member", "GET", "/v1/things")).status_code == 200
    assert (await toy.get("/")).status_code == 200
    held += await gate.hold(3, "member")
    assert await gate.open(held) == [200] * 6
    assert (await write(toy, "afterwards")).status_code == 200


async def test_what_has_ended_counts_no_longer(toy: Toy) -> None:
    """However it ended: answered, refused, failed or given up by its client; nothing is remembered of who is gone."""
    for _ in range(5):
        assert (await toy.send_as("owner", "GET", "/v1/things")).status_code == 200
        assert (await toy.send_as("stranger", "GET", THINGS)).status_code == 404
        assert (await toy.send_as("nobody", "GET", "/v1/things")).status_code == 401
        assert (await toy.send_as("owner", "POST", "/v1/broken", json={})).status_code == 500
        assert (await toy.send_as("owner", "POST", THINGS, content=b"{")).status_code == 415
    gate = Gate(toy)
    for task in await gate.hold(3):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await gate.open(await gate.hold(3)) == [200] * 3
    assert len(toy.edge.pipeline.in_flight) == 0


async def test_a_dsn_is_one_credential_in_each_of_its_spellings() -> None:
    """Header, bearer and address name the same key, so that they share its bound."""
    async with serving(max_in_flight=1) as toy:
        toy.edge.pipeline.in_flight.take("service_pk_x")
        for headers in (
            bearer("service_pk_x"),
            {"authorization": "BEARER   service_pk_x"},
            {"x-service-dsn": "https://service_pk_x@service.example/proj_one1"},
        ):
            assert (await toy.post("/v1/logs/", json={}, headers=headers)).status_code == 429
        toy.edge.pipeline.in_flight.leave("service_pk_x")
        assert (await toy.post("/v1/logs/", json={}, headers=bearer("service_pk_x"))).status_code == 401


def test_the_counts_are_exact() -> None:
    counts = requests_in_flight(2)
    for _ in range(2):
        counts.take("a")
    counts.take("b")
    with pytest.raises(RateLimited):
        counts.take("a")
    counts.leave("a")
    counts.take("a")
    for name in ("a", "a", "b"):
        counts.leave(name)
    assert len(counts) == 0


async def test_requests_that_wait_for_the_database(server_factory: ServerFactory) -> None:
    """The service itself, with reads held by a lock: the fifth is told to wait at once, another key is not."""
    server = server_factory(env={"SERVICE_MAX_IN_FLIGHT": "4"})
    with server.client() as setup:
        busy, other = (sign_in(setup, server.internal_token, name) for name in ("busy", "other"))
        dsn = create_project(setup, other)["dsn"]
        cases = f"/v1/projects/{create_project(setup, busy)['id']}/cases"
    async with seen.async_client(server.base_url, timeout=20) as client:

        async def ask(secret: str, path: str = cases) -> Any:
            return await client.get(path, headers=bearer(secret))

        with psycopg.connect(server.database_url or "") as sql:
            sql.execute("lock table cases in access exclusive mode")
            sent = [asyncio.create_task(ask(busy)) for _ in range(5)]
            [first], held = await asyncio.wait(sent, timeout=10, return_when=asyncio.FIRST_COMPLETED)
            refused = first.result()
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
            assert refused.headers["retry-after"] == "1"
            assert len(held) == 4
            assert (await ask(dsn, "/v1/analytics/browser-config")).status_code == 200
        assert [(await task).status_code for task in held] == [200] * 4
        assert (await ask(busy)).status_code == 200
