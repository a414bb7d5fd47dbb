"""What an account pays for under kill -9 and retries: each record once, whichever door it came by (R-ING-12).

Clients of every door send until they are answered, as an SDK does: what they know a record by stays the same. So each
record was accepted, most of them once, some of them several times because an answer was lost.
"""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx2
import psycopg

from service.ingest.kept import COUNTERS, check_counters
from tests.faults.test_ingest_kills import kill_api
from tests.service.http.cases.test_otlp import AS_PROTOBUF, export
from tests.support import seen
from tests.support.accounts import bearer, create_project, sign_in
from tests.support.posthog import CAPTURED, EXCEPTION, batch, event
from tests.support.sentry import PYTHON_EVENT, of_event
from tests.support.server import ServerHandle

KILLS = 5
AT_LEAST = 12  # requests that each door has to have answered
KINDS = ("errors", "analytics", "deploys")

Made = dict[str, Any]


class Sent(NamedTuple):
    """A request of a door."""

    path: str
    body: bytes
    headers: dict[str, str]


class Door(NamedTuple):
    """How a client sends what it calls `name`, and what that counts as once it is taken."""

    write: Callable[[Made, str], Sent]
    taken: Callable[[httpx2.Response], bool]
    counts: Counter[str]


def _json(path: str, made: Made, body: Any, **headers: str) -> Sent:
    raw = {"content-type": "application/json", **bearer(made["dsn"])}
    return Sent(path, json.dumps(body).encode(), raw | {name.replace("_", "-"): text for name, text in headers.items()})


def _log(made: Made, name: str) -> Sent:
    return _json("/v1/logs/", made, {"level": "error", "message": "boom", "tags": {"name": name}}, idempotency_key=name)


def _analytics(made: Made, name: str) -> Sent:
    return _json("/v1/analytics/", made, {"event": "signup", "distinct_id": name}, idempotency_key=name)


def _deploy(made: Made, name: str) -> Sent:
    return _json("/v1/deploys/", made, {"version": name}, idempotency_key=name)


def _logs(made: Made, name: str) -> Sent:
    return _json("/v1/logs/", made, [{"level": "error", "message": "boom", "id": f"{name}.{n}"} for n in range(3)])


def _events(made: Made, name: str) -> Sent:
    sent = [{"event": "signup", "distinct_id": "u", "id": f"{name}.{n}"} for n in range(3)]
    return _json("/v1/analytics/", made, sent)


def _sentry(made: Made, name: str) -> Sent:
    known = {**PYTHON_EVENT, "event_id": uuid.uuid5(uuid.NAMESPACE_OID, name).hex}
    body = of_event(known, dsn=made["sdks"]["sentry_dsn"])
    return Sent(f"/api/{made['alias']}/envelope/", body, {})


def _posthog(made: Made, name: str) -> Sent:
    both = [event(one, uuid=str(uuid.uuid5(uuid.NAMESPACE_OID, name + one["event"]))) for one in (EXCEPTION, CAPTURED)]
    return Sent("/batch/", batch(made["sdks"]["posthog_key"], *both), {"content-type": "application/json"})


def _otlp(made: Made, name: str) -> Sent:
    request = export({"body": name, "severity_number": 17}, {"body": name, "severity_number": 9})
    return Sent("/v1/logs", request.SerializeToString(), {**AS_PROTOBUF, **bearer(made["dsn"])})


def _accepted(answer: httpx2.Response) -> bool:
    return answer.status_code == 202


def _each_accepted(answer: httpx2.Response) -> bool:
    return answer.status_code == 202 and answer.json()["refused"] == 0


def _ok(answer: httpx2.Response) -> bool:
    return answer.status_code == 200


DOORS = {
    "a log": Door(_log, _accepted, Counter(errors=1)),
    "an analytics event": Door(_analytics, _accepted, Counter(analytics=1)),
    "a deploy": Door(_deploy, _accepted, Counter(deploys=1)),
    "a batch of logs": Door(_logs, _each_accepted, Counter(errors=3)),
    "a batch of analytics": Door(_events, _each_accepted, Counter(analytics=3)),
    "Sentry": Door(_sentry, _ok, Counter(errors=1)),
    "PostHog": Door(_posthog, _ok, Counter(errors=1, analytics=1)),
    "OpenTelemetry": Door(_otlp, _ok, Counter(errors=2)),
}


class Client:
    """Sends through one door to one project, each name until it is taken."""

    def __init__(self, base_url: str, door: str, made: Made) -> None:
        self.door, self.made = door, made
        self.http = seen.async_client(base_url, timeout=8)
        self.names: list[str] = []
        self.lost = 0

    async def send(self, name: str) -> None:
        """Send until it is answered as taken; a 503 is no answer."""
        door = DOORS[self.door]
        sent = door.write(self.made, name)
        for _ in range(200):
            try:
                answer = await self.http.post(sent.path, content=sent.body, headers=sent.headers)
            except httpx2.HTTPError:
                self.lost += 1
                await asyncio.sleep(0.02)
                continue
            if door.taken(answer):
                return
            assert answer.status_code in {202, 409, 503}, f"{self.door}: {answer.status_code} {answer.text}"
            await asyncio.sleep(0.05)
        raise AssertionError(f"{self.door} never took {name}")

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set() or len(self.names) < AT_LEAST:
            name = f"{self.door} {len(self.names)}".replace(" ", "-")
            await self.send(name)
            self.names.append(name)


async def test_usage_is_what_was_accepted_by_every_door(server_factory: Any) -> None:
    server: ServerHandle = server_factory()
    with server.client() as setup:
        owner = sign_in(setup, server.internal_token)
        projects = [create_project(setup, owner), create_project(setup, owner)]
    clients = [Client(server.base_url, door, made) for door in DOORS for made in projects]
    stop, dice = asyncio.Event(), random.Random(7)
    running = [asyncio.create_task(client.run(stop)) for client in clients]
    for turn in range(KILLS):
        await asyncio.sleep(dice.uniform(0.4, 1.0))
        await asyncio.to_thread(kill_api, server, whole=turn == KILLS // 2)
        await asyncio.to_thread(server.wait_until_ready)
    stop.set()
    await asyncio.gather(*running)
    assert sum(client.lost for client in clients) > KILLS
    check_shown(server, owner, clients)
    # A client that lost an answer long ago, or restores its queue from the disk, sends again what was taken.
    await asyncio.gather(*(client.send(name) for client in clients for name in client.names[:4]))
    check_shown(server, owner, clients)
    for client in clients:
        await client.http.aclose()


def check_shown(server: ServerHandle, owner: str, clients: list[Client]) -> None:
    """Compare every place that shows usage with what was accepted, by project and for the account."""
    accepted: dict[str, Counter[str]] = {}
    for client in clients:
        told = accepted.setdefault(client.made["id"], Counter())
        for kind, count in DOORS[client.door].counts.items():
            told[kind] += count * len(client.names)
    whole: Counter[str] = sum(accepted.values(), Counter())
    assert all(whole[kind] >= AT_LEAST for kind in KINDS)
    with server.client(owner) as person:
        usage, status, history = (
            person.get(path).raise_for_status().json()
            for path in ("/v1/usage", "/v1/billing/status", "/v1/usage/history")
        )
        assert usage["breakdown"] == status["usage"]["breakdown"] == dict(whole)
        assert usage["total_events"] == status["usage"]["total_events"] == usage["quota"]["used"] == whole.total()
        assert {kind: sum(day[kind] for day in history["snapshots"]) for kind in KINDS} == dict(whole)
        assert sum(day["total_events"] for day in history["snapshots"]) == whole.total()
        for project_id, share in accepted.items():
            shown = person.get(f"/v1/projects/{project_id}/health").raise_for_status().json()["usage_this_month"]
            assert {kind: shown[kind] for kind in KINDS} == dict(share)
            assert (shown["total_events"], shown["account_total_events"]) == (share.total(), whole.total())
    with psycopg.connect(server.database_url or "", autocommit=True) as sql:
        assert [found for table in COUNTERS for found in check_counters(sql, table)] == []
