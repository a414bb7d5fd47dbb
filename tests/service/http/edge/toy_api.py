"""A small API on the real edge, served in this process: one operation for each thing the pipeline decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, Literal

import httpx2
import msgspec
from litestar.di import NamedDependency
from litestar.params import JSONBody, RequestBody
from litestar.types import ASGIApp
from msgspec import Meta
from structlog.testing import capture_logs

from projections.kernel import Row, Table
from service.auth.authority import PrincipalKind as Kind
from service.eventstore.declare.commands import Answer, Intent, Outcome
from service.http.app import Edge, create_app
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Endpoint, Fencing, Group, Who
from service.http.declare.operations import Method, Subject
from service.services import Services
from statemachines.kernel.machine import PreconditionFailed, Rejection
from tests.service.http.edge.fakes import FakeStore, fake_services

KEY = frozenset({Kind.KEY})
ETAG = '"thing:1:7"'


class Item(msgspec.Struct, forbid_unknown_fields=True):
    count: Annotated[int, Meta(ge=1, le=10)]
    label: Annotated[str, Meta(min_length=1, max_length=5)] = "x"


class Thing(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=20)]
    items: list[Item]
    mode: Literal["fast", "slow"] = "fast"
    note: str | None = None


class Filter(msgspec.Struct, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    active: bool = False
    name: str | None = None
    ratio: float | None = None


class Cancel(msgspec.Struct, forbid_unknown_fields=True):
    command_key: str | None = None


class ThingRow(Row, frozen=True, kw_only=True):
    pass


class ThingNotFound(Rejection):
    code = "alert_not_found"


THINGS = Table("things", ThingRow, ("project_id", "id"))


def _as_it_is(answer: Answer) -> Answer:
    return answer


def declare(method: Method, path: str, name: str, *, closed_errors: bool = False, **more: Any) -> Any:
    group = Group(name="toy", closed_errors=closed_errors)
    said = {"principals": KEY, "answers": {200: None}, **more}
    parts = [
        part(**{one.name: said[one.name] for one in fields(part) if one.name in said})
        for part in (Who, Body, Fencing, Docs)
    ]
    return getattr(group, method.lower())(path, name, *parts, operation_id=name)


@declare("GET", "/", "root", principals=frozenset({Kind.ANONYMOUS}))
async def root() -> Answer:
    return Answer(200, {"name": "toy"})


@declare("POST", "/v1/things", "create", idempotency="optional")
async def create(call: Call, data: JSONBody[Thing]) -> Outcome:
    return await call.carry_out(Intent([], lambda _: Answer(201, data, {"etag": ETAG})), _as_it_is)


@declare("GET", "/v1/things", "search")
async def search(params: NamedDependency[Filter]) -> Answer:
    return Answer(200, params)


@declare("POST", "/v1/projects/{project_id}/things", "member_write", idempotency="required")
async def member_write(call: Call, data: JSONBody[Thing]) -> Outcome:
    return await call.carry_out(Intent([], lambda _: Answer(200, data)), _as_it_is)


@declare("GET", "/v1/projects/{project_id}/things", "member_read")
async def member_read(call: Call) -> Answer:
    return Answer(200, {"project_id": call.project_id})


@declare(
    "PUT",
    "/v1/projects/{project_id}/secret",
    "owner_write",
    owner=True,
    if_match="required",
    idempotency="optional",
    closed_errors=True,
    max_body=200,
)
async def owner_write(call: Call, data: JSONBody[Thing]) -> Outcome:
    def decide(_: Any) -> Answer:
        if data.name == "missing":
            raise ThingNotFound("There is no such thing.")
        if call.if_match != ETAG:
            raise PreconditionFailed("It has moved on.", current_etag=ETAG)
        return Answer(200, data)

    return await call.carry_out(Intent([], decide, fence=data.name == "fence"), _as_it_is)


@declare("POST", "/v1/projects/{project_id}/empty", "empty", max_body=0, idempotency="optional")
async def empty() -> Answer:
    return Answer(200, {"ok": True})


@declare("POST", "/v1/projects/{project_id}/cancel", "cancel", idempotency="required")
async def cancel(call: Call, data: JSONBody[Cancel]) -> Answer:
    return Answer(200, {"key": call.key})


@declare(
    "GET",
    "/v1/runs/{run_id}",
    "read_run",
    principals=frozenset({Kind.KEY, Kind.RUNNER}),
    scope="runs:read",
    subject=Subject("run_id", THINGS, "run_not_found"),
)
async def read_run(call: Call) -> Answer:
    return Answer(200, {"run_id": call.subject.id, "project_id": call.project_id})


@declare(
    "POST", "/v1/logs/", "log", principals=frozenset({Kind.DSN}), rate="ingest", text_plain=True, unpacked=256 * 1024
)
async def log(call: Call, data: JSONBody[dict[str, Any]]) -> Answer:
    return Answer(202, {"project_id": call.project_id, "size": len(data)})


@declare("POST", "/v1/telemetry", "record", principals=frozenset({Kind.DSN, Kind.CI}), rate="ingest", adjusts=True)
async def record(call: Call, data: JSONBody[dict[str, Any]]) -> Outcome:
    return await call.carry_out(Intent([], lambda _: Answer(202, {})), _as_it_is)


@declare("POST", "/v1/raw", "raw", principals=frozenset({Kind.ANONYMOUS}), rate="device_start")
async def raw(data: RequestBody[bytes]) -> Outcome:
    return Outcome(200, data, {"content-type": "application/octet-stream"})


@declare("POST", "/v1/broken", "broken")
async def broken(call: Call, data: JSONBody[dict[str, Any]]) -> Answer:
    raise call.services.store.error or RuntimeError("select secret from vault")


@declare("POST", "/v1/projects/{project_id}/frames", "unfold", idempotency="optional", quota_locked=True)
async def unfold(call: Call, data: JSONBody[Thing]) -> Outcome | Answer:
    def decide(_: Any) -> Answer:
        if data.name == "missing":
            raise ThingNotFound("There is no such thing.")
        return Answer(200, data)

    if data.name == "plain":
        return Answer(200, data)
    return await call.carry_out(Intent([], decide), _as_it_is)


ENDPOINTS: list[Endpoint] = [
    root,
    create,
    search,
    member_write,
    member_read,
    owner_write,
    empty,
    cancel,
    read_run,
    log,
    record,
    unfold,
    raw,
    broken,
]
THING = {"name": "one", "items": [{"count": 1}]}


class Toy(httpx2.AsyncClient):
    """A client of the toy API, with its store and its edge at hand."""

    store: FakeStore
    edge: Edge
    logs: list[Any]

    async def send_as(self, who: str | None, method: str, path: str, **more: Any) -> httpx2.Response:
        """Send a request with the credential of a named principal (see fakes.PRINCIPALS)."""
        headers = dict(more.pop("headers", {}))
        if who is not None:
            headers["authorization"] = f"Bearer {who}"
        return await self.request(method, path, headers=headers, **more)


@asynccontextmanager
async def running(app: ASGIApp) -> AsyncIterator[None]:
    """Keep an application's lifespan open for a block, in a task of its own as a server does."""
    to_app: asyncio.Queue[Any] = asyncio.Queue()
    from_app: asyncio.Queue[Any] = asyncio.Queue()
    task = asyncio.create_task(app({"type": "lifespan", "state": {}}, to_app.get, from_app.put))
    await to_app.put({"type": "lifespan.startup"})
    started = await from_app.get()
    assert started["type"] == "lifespan.startup.complete", started
    try:
        yield
    finally:
        await to_app.put({"type": "lifespan.shutdown"})
        await task


_next_services: list[Services] = []


@cache
def _edge() -> Edge:
    """The application, made once: each lifespan takes the services that were laid ready last."""
    return create_app(_next_services.pop, ENDPOINTS)


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Toy]:
    """Serve the toy API for a block."""
    store, edge = FakeStore(), _edge()
    _next_services.append(fake_services(store, **settings))
    transport = httpx2.ASGITransport(edge)
    with capture_logs() as logs:
        async with running(edge), Toy(transport=transport, base_url="http://toy") as client:
            client.store, client.edge, client.logs = store, edge, logs
            yield client
