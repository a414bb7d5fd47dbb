"""DSNs at every door of the intake, the public one too, in every form that was ever shown (G-026, G-142, G-184)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx2
import pytest

from projections.projects import PUBLIC_DSNS
from service.auth.authority import PrincipalKind
from service.history.rebuild import rebuild
from service.http.edge.routes import all_endpoints
from tests.support.accounts_store import make_project
from tests.support.api import Person, World, at_once, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.minidumps import minidump
from tests.support.posthog import CAPTURED
from tests.support.sentry import PYTHON_EVENT, envelope, of_event
from tests.support.tenants.recording import operation_of

pytestmark = pytest.mark.shares_server

LOG = {"message": "boom", "level": "error"}
EVENT = {"event": "order_paid", "distinct_id": "u1"}
ERROR = {"severityNumber": 17, "body": {"stringValue": "charging failed"}}
OTLP = {"resourceLogs": [{"scopeLogs": [{"logRecords": [ERROR]}]}]}
RECORDING = (
    "logs bearer",
    "logs header",
    "logs query",
    "analytics bearer",
    "analytics header",
    "analytics query",
    "sentry envelope",
    "sentry store",
    "sentry query",
    "sentry tunnel",
    "sentry security",
    "sentry minidump",
    "sentry user-feedback",
    "posthog batch",
    "posthog capture",
    "posthog e",
    "posthog i/v0/e",
    "otlp",
)
ASKING = ("browser-config", "posthog flags", "posthog decide")
"""Doors of either DSN that store nothing."""
DEPLOYING = ("deploys bearer", "deploys header")
"""Doors of the DSN of servers alone."""
ALL_DOORS = (*RECORDING, *ASKING, *DEPLOYING)


def key_of(dsn: str) -> str:
    """The key of a DSN, or of a text that is one already."""
    return dsn.rsplit("//", maxsplit=1)[-1].split("@", maxsplit=1)[0]


def project_of(dsn: str, alias: int) -> str:
    """What an SDK of Sentry puts into its path: the last part of the DSN."""
    return dsn.rsplit("/", 1)[-1] if "/" in dsn else str(alias)


def written(body: Any) -> bytes:
    return json.dumps(body).encode()


async def knock(world: World, door: str, dsn: str, alias: int) -> httpx2.Response:
    """Send one record by a door, with a DSN as it was pasted."""
    key, named = key_of(dsn), project_of(dsn, alias)
    event = {**PYTHON_EVENT, "event_id": uuid4().hex}
    sentry = {"x-sentry-auth": f"Sentry sentry_key={key}, sentry_version=7"}

    said: dict[str, str] = {}
    method, sent = "POST", b""
    match door.split():
        case ["logs" | "analytics" as kind, place]:
            path = f"/v1/{kind}/" + (f"?dsn={quote(dsn, safe='')}" if place == "query" else "")
            said = {"bearer": {"authorization": f"Bearer {dsn}"}, "header": {"x-service-dsn": dsn}}.get(place, {})
            sent = written(LOG if kind == "logs" else EVENT)
        case ["deploys", place]:
            path, sent = "/v1/deploys/", written({"version": uuid4().hex})
            said = {"authorization": f"Bearer {dsn}"} if place == "bearer" else {"x-service-dsn": dsn}
        case ["browser-config"]:
            method, path = "GET", f"/v1/analytics/browser-config?dsn={quote(dsn, safe='')}"
        case ["sentry", "envelope"]:
            path, said, sent = f"/api/{named}/envelope/", sentry, of_event(event)
        case ["sentry", "store"]:
            path, said, sent = f"/api/{named}/store/", sentry, written(event)
        case ["sentry", "query"]:
            path, sent = f"/api/{named}/envelope/?sentry_key={key}", of_event(event)
        case ["sentry", "tunnel"]:
            header = {"dsn": f"https://{key}@h/{named}"}
            path, sent = f"/api/{named}/envelope/", envelope(({"type": "event"}, written(event)), header=header)
        case ["sentry", "security"]:
            report = {"csp-report": {"effective-directive": "img-src", "blocked-uri": "https://evil.example/a.png"}}
            path, sent = f"/api/{named}/security/?sentry_key={key}", written(report)
        case ["sentry", "minidump"]:
            path, sent = f"/api/{named}/minidump/?sentry_key={key}", minidump()
            said = {"content-type": "application/octet-stream"}
        case ["sentry", "user-feedback"]:
            path, said = f"/api/0/projects/any/{named}/user-feedback/", {"authorization": f"DSN {dsn}"}
            sent = written({"event_id": uuid4().hex, "comments": "It broke."})
        case ["posthog", "batch"]:
            path, sent = "/batch/", written({"api_key": dsn, "batch": [CAPTURED]})
        case ["posthog", "flags" | "decide" as asked]:
            path, sent = f"/{asked}/", written({"token": dsn, "distinct_id": "u1"})
        case ["posthog", route]:
            path, sent = f"/{route}/", written({"api_key": dsn, **CAPTURED})
        case _:
            path, said, sent = "/v1/logs", {"authorization": f"Bearer {dsn}"}, written(OTLP)
    headers = {"content-type": "application/json", **said} if sent else said
    return await world.call(method, path, content=sent, headers=headers)


async def records(world: World, project_id: str) -> int:
    """Records stored of a project."""
    tables = ("log_events", "analytics_events", "deploys", "feedback_reports")
    counts = [await world.sql(f"select count(*) from {table} where project_id = %s", project_id) for table in tables]
    return sum(int(count) for [[count]] in counts)


@pytest.fixture
async def owner(world: World) -> Person:
    return await world.sign_in()


def forms(made: Mapping[str, Any]) -> list[str]:
    """The forms of one DSN: as it is shown, as it was shown with the id of its project, and its key alone."""
    dsn, named = made["dsn"], f"/{made['alias']}"
    assert dsn.endswith(named)
    return [dsn, dsn.removesuffix(named) + f"/{made['id']}", key_of(dsn)]


async def test_one_form_wherever_a_dsn_is_shown(world: World, owner: Person) -> None:
    made = await owner.create_project()
    path = f"/v1/projects/{made['id']}"
    shown = [made, ok(await owner.get(f"{path}/dsn")), ok(await owner.post(f"{path}/dsn/rotate", {}))]
    shown.append(ok(await owner.get(f"{path}/dsn")))
    for answer in shown:
        assert answer["dsn"] == answer["sdks"]["sentry_dsn"]
        assert answer["dsn"].endswith(f"@{world.server.base_url.split('//')[1]}/{made['alias']}")


async def test_every_operation_that_takes_a_dsn_is_among_the_doors(world: World, owner: Person) -> None:
    """So is one that is added later."""
    made = await owner.create_project()
    others = [door for door in ALL_DOORS if door != "otlp"]  # It is one form of logs.
    knocked = [(await knock(world, door, made["dsn"], made["alias"])).request for door in others]
    reached = {operation_of(one.method, one.url.path)[0].operation_id for one in knocked}
    takes = {PrincipalKind.DSN, PrincipalKind.PUBLIC_DSN}
    named = {one.operation.operation_id for one in all_endpoints() if one.operation.who.principals & takes}
    assert reached == named


@pytest.mark.parametrize("door", ALL_DOORS)
async def test_every_form_of_a_dsn_opens_every_door(world: World, owner: Person, door: str) -> None:
    """And none opens it for the project that another path names."""
    made, other = await owner.create_project(), await owner.create_project()
    for count, dsn in enumerate(forms(made), 1):
        answer = await knock(world, door, dsn, made["alias"])
        assert answer.status_code in {200, 202}, answer.text
        assert await records(world, made["id"]) == (0 if door in ASKING else count)
    key = key_of(made["dsn"])
    for dsn in (other["dsn"].replace(key_of(other["dsn"]), key), forms(other)[1].replace(key_of(other["dsn"]), key)):
        refused(await knock(world, door, dsn, made["alias"]), 401, "unauthenticated")
    assert await records(world, other["id"]) == 0


async def test_verify_tells_the_project_of_both_forms(owner: Person) -> None:
    made, other = await owner.create_project(), await owner.create_project()
    verify = f"/v1/projects/{made['id']}/dsn/verify"
    expected: list[tuple[str, bool, str | None]] = [
        *((dsn, True, made["id"]) for dsn in forms(made)[:2]),
        (key_of(made["dsn"]), True, None),
        (forms(other)[0], False, str(other["alias"])),
        (forms(other)[1], False, other["id"]),
        (made["dsn"].replace(key_of(made["dsn"]), key_of(other["dsn"])), False, made["id"]),
        ("nonsense", False, None),
    ]
    for dsn, matches, named in expected:
        answer = ok(await owner.post(verify, {"dsn": dsn}))
        assert (answer["ok"], answer["parsed_project_id"]) == (matches, named), dsn


def public_of(made: Mapping[str, Any]) -> str:
    dsn: str = made["public_dsn"]
    assert key_of(dsn).startswith("service_dsn_pub_")
    return dsn


async def test_a_new_project_has_both_dsns_wherever_they_are_shown(world: World, owner: Person) -> None:
    made = await owner.create_project()
    path = f"/v1/projects/{made['id']}"
    read = ok(await owner.get(f"{path}/dsn"))
    assert (read["public_dsn"], read["sdks_public"]) == (public_of(made), made["sdks_public"])
    assert read["public_dsn_prefix"] == key_of(public_of(made))[:20]
    assert made["sdks_public"]["sentry_dsn"] == public_of(made)
    assert made["sdks_public"]["posthog_key"] == key_of(public_of(made))
    assert made["sdks"]["sentry_dsn"] == made["dsn"] != public_of(made)
    checked = ok(await owner.post(f"{path}/dsn/verify", {"dsn": public_of(made)}))
    assert (checked["ok"], checked["parsed_project_id"]) == (True, made["id"])
    assert (checked["dsn_prefix"], checked["stored_for_recovery"]) == (read["public_dsn_prefix"], True)
    assert "public" in checked["next_action"]
    stored = await world.sql("select payload::text from events where project_id = %s", made["id"])
    kept = await world.sql("select row_to_json(c)::text from dsn_copies c where project_id = %s", made["id"])
    assert len(kept) == 2
    assert all(key_of(dsn) not in str((stored, kept)) for dsn in (made["dsn"], public_of(made)))


@pytest.mark.parametrize("door", [*RECORDING, *ASKING])
async def test_the_public_dsn_opens_every_door_of_records(world: World, owner: Person, door: str) -> None:
    """And its records say so."""
    made = await owner.create_project()
    for dsn in (public_of(made), key_of(public_of(made))):
        answer = await knock(world, door, dsn, made["alias"])
        assert answer.status_code in {200, 202}, answer.text
    tables = ("log_events", "analytics_events", "feedback_reports")
    rows = [
        row
        for table in tables
        for row in await world.sql(f"select public from {table} where project_id = %s", made["id"])
    ]
    assert rows == ([] if door in ASKING else [(True,)] * 2)


async def test_the_public_dsn_opens_nothing_else(world: World, owner: Person) -> None:
    """No deploy, no source map, no read; and no merge of people by any door of events."""
    made = await owner.create_project()
    page = world.having(public_of(made))
    refused(await page.post("/v1/deploys/", {"version": "1"}), 403, "principal_not_allowed")
    other_place = {"x-service-dsn": public_of(made)}
    refused(await world.post("/v1/deploys/", {"version": "1"}, headers=other_place), 403, "principal_not_allowed")
    maps = f"/v1/projects/{made['id']}/source-maps"
    refused(await page.call("PUT", f"{maps}?release=1&file=a.js", content=b"{}"), 403, "principal_not_allowed")
    refused(await page.get(f"/v1/projects/{made['id']}/cases"), 403, "principal_not_allowed")
    merge = {"event": "$merge_dangerously", "distinct_id": "u1", "properties": {"alias": "u2"}}
    refused(await page.post("/v1/analytics/", merge), 400, "invalid_payload")
    several = ok(await page.post("/v1/analytics/", [merge, EVENT]), 202)
    assert (several["accepted"], several["refused"]) == (1, 1)
    key = key_of(public_of(made))
    refused(await world.post("/capture/", {"api_key": key, **merge}), 400, "invalid_payload")
    batch = ok(await world.post("/batch/", {"api_key": key, "batch": [merge, CAPTURED]}))
    assert batch.get("refused") == 1
    assert await records(world, made["id"]) == 2
    ok(await world.having(made["dsn"]).post("/v1/analytics/", merge), 202)


async def test_a_rotation_ends_the_public_dsn_before_at_once(world: World, owner: Person) -> None:
    """The other DSN goes on. A repeat is told once."""
    made = await owner.create_project()
    path = f"/v1/projects/{made['id']}/public-dsn/rotate"
    rotated = ok(await owner.post(path, key="k"))
    assert (rotated["id"], rotated["alias"], rotated["dsn_recoverable"]) == (made["id"], made["alias"], True)
    assert public_of(rotated) != public_of(made)
    assert rotated["public_dsn_prefix"] == key_of(public_of(rotated))[:20]
    refused(await world.having(public_of(made)).post("/v1/logs/", LOG), 401, "unauthenticated")
    for dsn in (public_of(rotated), made["dsn"]):
        ok(await world.having(dsn).post("/v1/logs/", LOG), 202)
    replay = await owner.post(path, {}, key="k")
    assert replay.headers["idempotent-replayed"] == "true"
    assert (ok(replay)["public_dsn"], replay.json()["sdks_public"]) == (None, None)
    read = ok(await owner.get(f"/v1/projects/{made['id']}/dsn"))
    assert (read["dsn"], read["public_dsn"]) == (made["dsn"], public_of(rotated))
    refused(await owner.post(path, {"more": 1}), 400, "invalid_payload")


async def test_rotations_at_once_leave_one_public_dsn_that_works(world: World, owner: Person) -> None:
    made = await owner.create_project()
    path = f"/v1/projects/{made['id']}/public-dsn/rotate"
    fresh = [public_of(ok(answer)) for answer in await at_once(8, lambda _: owner.post(path))]
    current = public_of(ok(await owner.get(f"/v1/projects/{made['id']}/dsn")))
    assert current in fresh
    dsns = [public_of(made), *fresh]
    sent = [await world.having(dsn).post("/v1/logs/", LOG) for dsn in dsns]
    assert [dsn for dsn, answer in zip(dsns, sent, strict=True) if answer.status_code == 202] == [current]


async def test_no_record_is_stored_under_a_public_dsn_after_its_rotation(world: World, owner: Person) -> None:
    """Six pages report in a tight loop; none of theirs commits once the rotation was answered."""
    made = await owner.create_project()
    dsn = public_of(made)
    for _ in range(4):
        accepted = asyncio.Event()

        async def report(dsn: str = dsn, accepted: asyncio.Event = accepted) -> None:
            while (answer := await world.having(dsn).post("/v1/logs/", LOG)).status_code == 202:
                accepted.set()
            refused(answer, 401, "unauthenticated")

        pages = [asyncio.create_task(report()) for _ in range(6)]
        await accepted.wait()
        dsn = public_of(ok(await owner.post(f"/v1/projects/{made['id']}/public-dsn/rotate")))
        before = await records(world, made["id"])
        await asyncio.gather(*pages)
        assert await records(world, made["id"]) == before


async def test_a_project_from_before_gets_a_public_dsn_by_a_rotation(world: World, owner: Person) -> None:
    """Its history begins with an event that says nothing of public DSNs. What it sends is accepted."""
    project_id = await world.operate(partial(make_project, owner=owner.user_id, from_before=True))
    path = f"/v1/projects/{project_id}"
    read = ok(await owner.get(f"{path}/dsn"))
    assert (read["public_dsn"], read["public_dsn_prefix"], read["sdks_public"]) == (None, None, None)
    rotated = ok(await owner.post(f"{path}/public-dsn/rotate"))
    ok(await world.having(public_of(rotated)).post("/v1/logs/", LOG), 202)
    accepts = "select accept_public_events from public_dsns where project_id = %s"
    assert await world.sql(accepts, project_id) == [(True,)]
    made = await owner.create_project()
    ok(await owner.post(f"/v1/projects/{made['id']}/public-dsn/rotate"))
    assert await world.sql(accepts, made["id"]) == [(False,)]


async def test_a_project_from_before_keeps_the_level_of_records_without_one(world: World, owner: Person) -> None:
    """`error` there, also once it has a public DSN and after a rebuild, and `info` in a new one (G-191)."""
    old = await world.operate(partial(make_project, owner=owner.user_id, from_before=True))
    new = (await owner.create_project())["id"]
    senders = {one: [world.having(ok(await owner.post(f"/v1/projects/{one}/dsn/rotate"))["dsn"])] for one in (old, new)}

    async def check() -> None:
        for project_id, level in ((old, "error"), (new, "info")):
            for sender in senders[project_id]:
                stored = ok(await sender.post("/v1/logs/", {"message": "Order 17 is late"}), 202)
                assert (stored["level"], stored["case_id"] is None) == (level, level == "info")
            for shown in ("settings", "health"):
                assert ok(await owner.get(f"/v1/projects/{project_id}/{shown}"))["default_level"] == level

    await check()
    for project_id in (old, new):
        rotated = ok(await owner.post(f"/v1/projects/{project_id}/public-dsn/rotate"))
        senders[project_id].append(world.having(public_of(rotated)))
    await check()
    await asyncio.to_thread(rebuild, world.server.database_url, PUBLIC_DSNS)
    await check()
