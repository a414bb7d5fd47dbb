"""Ingest under kill -9: what was acknowledged is stored once and in its case, the rest once or not at all (P1)."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import httpx2
import psutil
import psycopg
import pytest

from tests.support import long_after, seen
from tests.support.accounts import bearer, create_project, sign_in
from tests.support.ingest import check_books
from tests.support.server import ServerHandle

KILLS = [2, 8]
"""In `make test`, and before a release."""
CLIENTS = 16
ENOUGH = 500  # records
EXPORTERS = 3
EXPORTED = 700  # records of an export: several flushes


class Client:
    """Sends numbered errors one after the other, and records the answers. Every second one has a key."""

    def __init__(self, number: int, base_url: str, dsn: str) -> None:
        self.number = number
        self.http = seen.async_client(base_url, headers=bearer(dsn), timeout=8)
        self.acknowledged: dict[str, str] = {}  # the record's own name -> the id it was given
        self.unknown: list[str] = []
        self.refused = 0

    async def send(self, name: str, *, keyed: bool) -> None:
        body: dict[str, Any] = {
            "level": "error",
            "message": f"Error of kind {'abcdefgh'[hash(name) % 8]}",
            "tags": {"name": name},
            "user": {"id": f"u{self.number}"},
        }
        headers = {"idempotency-key": name} if keyed else {}
        try:
            answer = await self.http.post("/v1/logs/", json=body, headers=headers)
        except httpx2.HTTPError:
            self.unknown.append(name)
            await asyncio.sleep(0.02)
            return
        if answer.status_code == 202:
            self.acknowledged[name] = answer.json()["id"]
        else:
            assert answer.status_code == 503, answer.text
            self.refused += 1

    async def run(self, stop: asyncio.Event) -> None:
        turn = 0
        while not stop.is_set():
            await self.send(f"c{self.number}-{turn}", keyed=turn % 2 == 0)
            turn += 1


class Exporter:
    """Exports numbered records with an SDK's patience: the same bytes again and again, until they are taken."""

    def __init__(self, number: int, base_url: str, dsn: str) -> None:
        self.number = number
        self.http = seen.async_client(base_url, headers=bearer(dsn), timeout=8)
        self.acknowledged: list[str] = []
        self.repeats = 0

    async def run(self, stop: asyncio.Event) -> None:
        turn = 0
        while not stop.is_set():
            names = [f"x{self.number}-{turn}-{index}" for index in range(EXPORTED)]
            await self._export(json.dumps(export_of(names)).encode())
            self.acknowledged += names
            turn += 1

    async def _export(self, raw: bytes) -> None:
        while True:
            try:
                answer = await self.http.post("/v1/logs", content=raw, headers={"content-type": "application/json"})
            except httpx2.HTTPError:
                await asyncio.sleep(0.02)
            else:
                if answer.status_code == 200:
                    assert answer.json() == {}
                    return
                assert answer.status_code == 503, answer.text
            self.repeats += 1


def export_of(names: list[str]) -> dict[str, Any]:
    """An export of errors with these names, of two kinds."""
    records = [
        {
            "timeUnixNano": "1800000000000000000",
            "severityNumber": 17,
            "body": {"stringValue": f"Export of kind {'ab'[index % 2]}"},
            "attributes": [{"key": "name", "value": {"stringValue": name}}],
        }
        for index, name in enumerate(names)
    ]
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}


@pytest.mark.parametrize("kills", long_after(1, KILLS))
async def test_an_export_survives_kills_whole_and_once(server_factory: Any, kills: int) -> None:
    """It is stored by several flushes, and killed between them: what is sent again completes it (G-142)."""
    server: ServerHandle = server_factory()
    with server.client() as setup:
        owner = sign_in(setup, server.internal_token)
        made = create_project(setup, owner)
    exporters = [Exporter(number, server.base_url, made["dsn"]) for number in range(EXPORTERS)]
    stop = asyncio.Event()
    running = [asyncio.create_task(exporter.run(stop)) for exporter in exporters]
    dice = random.Random(6)
    for turn in range(kills):
        await asyncio.sleep(dice.uniform(0.3, 1.0))
        await asyncio.to_thread(kill_api, server, whole=turn == kills // 2)
        await asyncio.to_thread(server.wait_until_ready)
    stop.set()
    await asyncio.gather(*running)
    names = [name for exporter in exporters for name in exporter.acknowledged]
    assert sum(exporter.repeats for exporter in exporters) > kills
    with psycopg.connect(server.database_url or "", autocommit=True) as sql:
        rows = sql.execute(
            "select coalesce(extra, '{}')#>>'{attributes,name}', count(*) from log_events "
            "where case_id is not null group by 1"
        )
        assert dict(rows.fetchall()) == dict.fromkeys(names, 1)
        check_books(sql)
    check_usage(server, owner, made["id"], len(names))
    for exporter in exporters:
        await exporter.http.aclose()


@pytest.mark.parametrize("kills", long_after(1, KILLS))
async def test_acknowledged_records_survive_kills(server_factory: Any, kills: int) -> None:
    server: ServerHandle = server_factory()
    with server.client() as setup:
        owner = sign_in(setup, server.internal_token)
        made = create_project(setup, owner)
    dsn = made["dsn"]
    clients = [Client(number, server.base_url, dsn) for number in range(CLIENTS)]
    stop = asyncio.Event()
    running = [asyncio.create_task(client.run(stop)) for client in clients]
    dice = random.Random(5)
    for turn in range(kills):
        await asyncio.sleep(dice.uniform(0.4, 1.2))
        await asyncio.to_thread(kill_api, server, whole=turn == kills // 2)
        await asyncio.to_thread(server.wait_until_ready)
    await asyncio.sleep(0.5)
    give_up = time.monotonic() + 20
    while sum(len(client.acknowledged) for client in clients) <= ENOUGH and time.monotonic() < give_up:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    stop.set()
    await asyncio.gather(*running)
    acknowledged = {name: id_ for client in clients for name, id_ in client.acknowledged.items()}
    unknown = [name for client in clients for name in client.unknown]
    assert len(acknowledged) > ENOUGH
    assert len(unknown) > kills
    times = stored_times(server)
    assert dict.fromkeys(acknowledged, 1) == {name: times[name] for name in acknowledged}
    assert all(times[name] <= 1 for name in unknown)
    assert set(times) <= set(acknowledged) | set(unknown)

    keyed = [name for name in unknown if int(name.partition("-")[2]) % 2 == 0]
    for client in clients:
        client.acknowledged.clear()
        for name in keyed:
            if name.startswith(f"c{client.number}-"):
                await client.send(name, keyed=True)
    assert sum(len(client.acknowledged) for client in clients) == len(keyed)
    times = stored_times(server)
    assert all(times[name] == 1 for name in keyed)
    with psycopg.connect(server.database_url or "", autocommit=True) as sql:
        assert dict(sql.execute("select tags->>'name', id from log_events").fetchall()).items() >= acknowledged.items()
        check_books(sql)
    check_usage(server, owner, made["id"], sum(times.values()))
    for client in clients:
        await client.http.aclose()


def check_usage(server: ServerHandle, owner: str, project_id: str, stored: int) -> None:
    """What an account is asked to pay for is what was accepted, wherever it shows (R-ING-12, R-BILL-01)."""
    with server.client(owner) as person:
        paths = ("/v1/usage", "/v1/billing/status", "/v1/usage/history", f"/v1/projects/{project_id}/health")
        usage, status, history, health = (person.get(path).raise_for_status().json() for path in paths)
    month = health["usage_this_month"]
    assert (usage["total_events"], usage["breakdown"]["errors"]) == (stored, stored)
    assert status["usage"] == {"total_events": stored, "breakdown": usage["breakdown"]}
    assert sum(day["total_events"] for day in history["snapshots"]) == stored
    assert month["total_events"] == month["account_total_events"] == stored


def kill_api(server: ServerHandle, *, whole: bool) -> None:
    """Kill the serving process; with `whole` also its parent, which would restart it."""
    serving = server.processes("service.process.serving")
    numbers = {process.pid for process in serving}
    for process in serving:
        with suppress(psutil.NoSuchProcess):
            if whole or process.ppid() in numbers:
                process.kill()


def stored_times(server: ServerHandle) -> Counter[str]:
    """How often each record is stored, each of them in a case."""
    with psycopg.connect(server.database_url or "", autocommit=True) as sql:
        rows = sql.execute("select tags->>'name', count(*) from log_events where case_id is not null group by 1")
        return Counter(dict(rows.fetchall()))
