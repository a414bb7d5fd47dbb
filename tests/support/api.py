"""Talking to a running service as its clients do: anonymous, operator, person, or holder of a project secret."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import httpx2
import psycopg
import pytest_asyncio

from service.accounts.sign_in import NewSession
from tests.support import seen
from tests.support.sessions import open_session

_numbers = itertools.count(1)


class Api:
    """One caller of a running service. `secret` travels as bearer token; None: anonymous."""

    def __init__(self, client: httpx2.AsyncClient, secret: str | None = None) -> None:
        self.client = client
        self.secret = secret

    def having(self, secret: str | None) -> Api:
        """The same service, called with another secret."""
        return Api(self.client, secret)

    async def call(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, **more: Any
    ) -> httpx2.Response:
        """Send a request; `key` is its Idempotency-Key. Every answer is checked for what all answers share."""
        headers = dict(more.pop("headers", {}))
        if self.secret is not None:
            headers.setdefault("authorization", f"Bearer {self.secret}")
        if key is not None:
            headers["idempotency-key"] = key
        if body is not None:
            more["json"] = body
        answer = await self.client.request(method, path, headers=headers, **more)
        assert answer.headers["x-service-request-id"]
        assert answer.status_code < 500, answer.text
        if answer.status_code == 401:
            assert answer.headers["www-authenticate"] == "Bearer"
        return answer

    async def get(self, path: str, **more: Any) -> httpx2.Response:
        return await self.call("GET", path, **more)

    async def post(self, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        return await self.call("POST", path, body, **more)


class World(Api):
    """A running service with its operator's tokens and its database."""

    def __init__(self, client: httpx2.AsyncClient, server: Any) -> None:
        super().__init__(client)
        self.server = server
        self.hosted_app = self.having(server.internal_token)
        self.test_operator = self.having(server.test_token)

    async def sign_in(self, name: str | None = None, *, verified: bool = False) -> Person:
        """Sign a person in by the device flow. A new person without a name."""
        address = f"{name or f'person-{next(_numbers)}'}@example.com"
        identity = {"provider": "email", "subject": address, "email": address, "email_verified": verified}
        started = ok(await self.post("/v1/auth/device"))
        ok(
            await self.hosted_app.post(
                "/v1/auth/device/authorize", {"user_code": started["user_code"], "identity": identity}
            )
        )
        key = ok(await self.post("/v1/auth/device/poll", {"device_code": started["device_code"]}))
        return Person(self.client, key["api_key"], key["user_id"], self)

    async def wait(self, seconds: int) -> None:
        """Move the service's clock on."""
        await self.sql("update service_clock set offset_seconds = offset_seconds + %s", seconds)

    async def sql(self, query: str, *params: Any) -> list[tuple[Any, ...]]:
        """Run SQL directly on the database."""
        async with await psycopg.AsyncConnection.connect(self.server.database_url, autocommit=True) as connection:
            cursor = await connection.execute(query.encode(), params)
            return await cursor.fetchall() if cursor.description else []

    async def telemetry(self, project_id: str) -> int:
        """Rows of everything that records of a project leave behind: themselves, cases, counts, keys."""
        tables = ("log_events", "analytics_events", "cases", "case_stats", "case_users", "usage_days", "event_days")
        counts = [f"(select count(*) from {table} where project_id = p.id)" for table in tables]
        counts.append("(select count(*) from idempotency where project_id = p.id and principal = 'dsn:' || p.id)")
        counts.append("(select count(*) from events where project_id = p.id and actor_kind = 'dsn')")
        [[rows]] = await self.sql(f"select {' + '.join(counts)} from projects p where p.id = %s", project_id)
        return int(rows)

    async def operate(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        """Run an operator's function with a store of its own, as the command line does."""
        from service.eventstore.store import EventStore
        from service.registry import registry

        store = EventStore(self.server.database_url, registry())
        await store.start()
        try:
            return await work(store)
        finally:
            await store.stop()


class Person(Api):
    """A signed-in person."""

    def __init__(self, client: httpx2.AsyncClient, secret: str, user_id: str, world: World) -> None:
        super().__init__(client, secret)
        self.user_id = user_id
        self.world = world

    async def open_session(self) -> NewSession:
        """Sign in to the console by a link, past its page."""
        return await self.world.operate(partial(open_session, user_id=self.user_id))

    async def create_project(self, name: str = "shop") -> dict[str, Any]:
        return ok(await self.post("/v1/projects", {"name": name}), 201)

    async def create_credential(self, project_id: str, key: str, **members: Any) -> dict[str, Any]:
        body = {"kind": "ci_deploy", "name": "release", **members}
        return ok(await self.post(f"/v1/projects/{project_id}/credentials", body, key=key))


def ok(answer: httpx2.Response, status: int = 200) -> dict[str, Any]:
    """The body of an answer that must have succeeded."""
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    return body


def refused(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """The error of an answer that must be a refusal of this code."""
    assert answer.status_code == status, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert error["code"] == code, answer.text
    assert error["next_action"]
    if "request_id" in error:
        assert error["request_id"] == answer.headers["x-service-request-id"]
    return error


def without_request_id(answer: httpx2.Response) -> tuple[int, Any]:
    """The part of a refusal that must be equal where two must be indistinguishable."""
    error = {name: value for name, value in answer.json()["error"].items() if name != "request_id"}
    return answer.status_code, error


async def at_once(number: int, work: Callable[[int], Awaitable[Any]]) -> list[Any]:
    """Run something many times concurrently."""
    return list(await asyncio.gather(*(work(turn) for turn in range(number))))


@pytest_asyncio.fixture
async def world(server: Any) -> AsyncIterator[World]:
    """A running service, seen from outside."""
    limits = httpx2.Limits(max_connections=64)
    async with seen.async_client(server.base_url, timeout=30, limits=limits) as client:
        yield World(client, server)
