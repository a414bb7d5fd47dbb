"""SDKs are told to wait in their own words, and what they send again is stored once (G-142, G-012)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx2
import psycopg
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from service.eventstore.declare import names
from service.http.body.read_limited import SHARE_BYTES
from tests.support.api import World
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.sentry import PYTHON_EVENT, of_event

pytestmark = pytest.mark.shares_server

RESOURCE_EXHAUSTED, UNAVAILABLE = 8, 14
PADDING = "p" * 6000  # more than a stalled body leaves of the room


class Doors:
    """One request of each SDK of a project: what it sends the first time, it sends again."""

    def __init__(self, world: World, made: dict[str, Any]) -> None:
        self.world, self.project_id = world, made["id"]
        event = {**PYTHON_EVENT, "event_id": uuid4().hex, "extra": {"padding": PADDING}}
        capture = {"event": "e", "uuid": str(uuid4()), "distinct_id": "u", "properties": {"padding": PADDING}}
        export = ExportLogsServiceRequest()
        record = export.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=7)
        record.body.string_value = PADDING
        told = {"timeUnixNano": "8", "body": {"stringValue": PADDING}}
        as_json = {"resourceLogs": [{"scopeLogs": [{"logRecords": [told]}]}]}
        key = {"authorization": f"Bearer {made['dsn']}"}
        sentry_key = httpx2.URL(made["sdks"]["sentry_dsn"]).username
        self.requests: dict[str, tuple[str, bytes, dict[str, str]]] = {
            "sentry": (f"/api/{made['alias']}/envelope/?sentry_key={sentry_key}", of_event(event), {}),
            "posthog": ("/batch/", json.dumps({"api_key": sentry_key, "batch": [capture]}).encode(), key),
            "protobuf": ("/v1/logs", export.SerializeToString(), {**key, "content-type": "application/x-protobuf"}),
            "json": ("/v1/logs", json.dumps(as_json).encode(), {**key, "content-type": "application/json"}),
        }
        self.key = key

    async def knock(self) -> dict[str, httpx2.Response]:
        """Send what each SDK has to send, all at once."""
        answers = await asyncio.gather(
            *(self.world.client.post(path, content=body, headers=head) for path, body, head in self.requests.values())
        )
        return dict(zip(self.requests, answers, strict=True))

    async def stored(self) -> tuple[int, int, int]:
        """Logs, analytics and what is counted of both."""
        [row] = await self.world.sql(
            "select (select count(*) from log_events where project_id = p.id), "
            "(select count(*) from analytics_events where project_id = p.id), "
            "(select coalesce(sum(errors + analytics), 0)::int from usage_days where project_id = p.id) "
            "from projects p where p.id = %s",
            self.project_id,
        )
        return row[0], row[1], row[2]


@pytest.fixture
async def doors(world: World) -> Doors:
    owner = await world.sign_in()
    return Doors(world, await owner.create_project())


@asynccontextmanager
async def without_room(doors: Doors) -> AsyncIterator[None]:
    """The account's room for bodies is full of uploads that have come to a stop."""
    go_on = asyncio.Event()
    size = SHARE_BYTES // 8 - 500

    async def stopping() -> AsyncIterator[bytes]:
        yield b" " * size
        await go_on.wait()

    head = {**doors.key, "content-type": "application/x-ndjson"}
    uploads = [
        asyncio.create_task(doors.world.client.post("/v1/logs/", content=stopping(), headers=head)) for _ in range(8)
    ]
    probe = {"content": b" " * 6000, "headers": head}
    try:
        for _ in range(100):
            if (await doors.world.client.post("/v1/logs/", **probe)).status_code == 429:
                break
            await asyncio.sleep(0.05)
        yield
    finally:
        go_on.set()
        await asyncio.gather(*uploads, return_exceptions=True)


@asynccontextmanager
async def held(doors: Doors) -> AsyncIterator[None]:
    """Nothing of the project is stored, and nobody says why."""
    async with (
        await psycopg.AsyncConnection.connect(doors.world.server.database_url) as session,
        session.transaction(),
    ):
        number = names.lock_number(names.gate(doors.project_id))
        await session.execute("select pg_advisory_xact_lock(%s::bigint)", (number,))
        yield


def check_told(answers: dict[str, httpx2.Response], status: int, code: str, number: int) -> None:
    """Each has the status, when to come again, and why, in the form of its protocol."""
    for answer in answers.values():
        assert answer.status_code == status, answer.text
        assert int(answer.headers["retry-after"]) >= 1
    wait = answers["sentry"].headers["retry-after"]
    limits = answers["sentry"].headers.get("x-sentry-rate-limits")
    assert limits == (f"{wait}::key:{code}" if status == 429 else None)
    assert answers["sentry"].headers["x-sentry-error"]
    for name in ("sentry", "posthog"):
        assert answers[name].json()["error"]["code"] == code
    told = answers["json"].json()
    if status == 429:  # Before anything of the body is read nothing tells it from a record of our own.
        assert told["error"]["code"] == code
    else:
        assert (told["code"], bool(told["message"])) == (number, True)
    protobuf = answers["protobuf"]
    assert protobuf.headers["content-type"] == "application/x-protobuf"
    assert protobuf.content[:3] == bytes([0x08, number, 0x12])  # google.rpc.Status: code, then message


async def test_who_sends_too_much_is_told_to_wait(doors: Doors) -> None:
    """429, which every SDK takes for a reason to hold back; nothing has changed, and later all of it is stored."""
    async with without_room(doors):
        check_told(await doors.knock(), 429, "rate_limited", RESOURCE_EXHAUSTED)
        assert await doors.stored() == (0, 0, 0)
    for _ in range(2):
        answers = await doors.knock()
        assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(doors.requests, 200)
    assert await doors.stored() == (3, 1, 4)


async def test_who_finds_nobody_is_told_to_come_again(doors: Doors) -> None:
    """503: Sentry's SDKs give such an event up, the others repeat it; it is stored once in any case."""
    async with held(doors):
        check_told(await doors.knock(), 503, "service_unavailable", UNAVAILABLE)
        assert await doors.stored() == (0, 0, 0)
    for _ in range(2):
        answers = await doors.knock()
        assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(doors.requests, 200)
    assert await doors.stored() == (3, 1, 4)
